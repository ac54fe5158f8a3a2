//! Arguments for `appset`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::common::{Format, ReasonArgs, ServiceArgs};
use super::runs::{ExportRunArgs, RunsArgs, ShowRunArgs};
use super::sync::PlanFormat;
use super::values;

/// Shows what ApplicationSets generate, and controls the managed ones.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
`generate`, `plan` and `delete --plan -f` read ApplicationSets from files. The other commands \
connect to the `tidegate serve` that is running in the state directory or, with --server, to the \
API of a remote service. NAME is an ApplicationSet's name or NAMESPACE/NAME.

Examples:
  tidegate appset plan -f fleet.yaml
  tidegate appset list
  tidegate appset explain fleet
  tidegate appset approve fleet
  tidegate appset delete fleet --plan")]
pub struct AppSetArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: AppSetCommand,
}

/// Subcommands of `appset`.
#[derive(Clone, Debug, Subcommand)]
pub enum AppSetCommand {
    /// Print the Applications that ApplicationSets in files would generate
    Generate(GenerateArgs),
    /// Show the order in which generated Applications would be synced and deleted, without changing anything
    Plan(AppSetPlanArgs),
    /// List all ApplicationSets
    List {
        /// Output format
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        service: ServiceArgs,
    },
    /// Show an ApplicationSet's conditions and Applications
    Get(SingleAppSetArgs),
    /// Show the steps of an ApplicationSet's progressive sync or deletion
    Status(SingleAppSetArgs),
    /// Explain the state of an ApplicationSet's progressive sync or deletion
    Explain(SingleAppSetArgs),
    /// List past and current rollouts and deletions of one or all ApplicationSets, including deleted ApplicationSets
    Runs(RunsArgs),
    /// Show a rollout or deletion: its steps, the result for each Application, decisions with their reasons,
    /// and waiting times
    ShowRun(ShowRunArgs),
    /// Export the complete record of a rollout or deletion to a file, for example for an incident report or a change
    /// request
    ExportRun(ExportRunArgs),
    /// Approve a step that is waiting for approval, or approve blocked deletions
    Approve(StepRequestArgs),
    /// Pause a progressive sync or deletion; running operations continue, but no new ones start
    Pause(AppSetRequestArgs),
    /// Resume a paused progressive sync or deletion
    Resume(AppSetRequestArgs),
    /// Skip an Application, or all unfinished Applications in a step
    Skip(AppSetSkipArgs),
    /// Retry an Application, all failed Applications in a step, or the whole progressive sync
    Retry(MemberRequestArgs),
    /// Terminate a progressive sync or deletion and its running operations
    Terminate(AppSetRequestArgs),
    /// Run an ApplicationSet's generators now
    Refresh {
        /// Name of the ApplicationSet
        name: String,
        #[command(flatten)]
        service: ServiceArgs,
    },
    /// Delete an ApplicationSet and its Applications in the configured deletion order
    Delete(AppSetDeleteArgs),
}

/// Options for generators: sources of Secrets, and path pattern settings.
#[derive(Clone, Debug, Default, Args)]
pub struct GeneratorArgs {
    /// File or folder with cluster Secrets in Argo CD's format
    #[arg(long, value_name = "PATH", value_parser = values::path_parser())]
    pub clusters: Option<PathBuf>,
    /// File or folder with repository Secrets, certificates and known hosts in Argo CD's format
    #[arg(long, value_name = "PATH", value_parser = values::path_parser())]
    pub repositories: Option<PathBuf>,
    /// File or folder with the Secrets and ConfigMaps that contain the generators' tokens and plugin settings
    #[arg(long, value_name = "PATH", value_parser = values::path_parser())]
    pub secrets: Option<PathBuf>,
    /// In the path patterns of Git file generators, let * match only within a folder; ** matches across
    /// folders
    #[arg(
        long,
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_NEW_GIT_FILE_GLOBBING",
        hide_env_values = true
    )]
    pub new_git_file_globbing: bool,
}

/// Arguments for `appset generate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The command does not connect to a cluster, so a clusterDecisionResource generator is an error. The \
repository of a Git generator can be https://host/path, git@host:path, file:///path, an absolute \
path, or a path relative to the folder that contains FILE, such as ./repo. The cluster generator \
requires --clusters. The scmProvider, pullRequest and plugin generators query their servers with \
the tokens from --secrets.

Examples:
  tidegate appset generate -f fleet.yaml
  tidegate appset generate -f previews.yaml --secrets tokens.yaml
  tidegate appset generate -f fleet.yaml --clusters secrets/ -o json | jq -r '.items[].metadata.name'")]
pub struct GenerateArgs {
    /// File with ApplicationSets, or - for standard input (repeatable)
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Output format for the list of Applications
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Yaml)]
    pub output: Format,
    #[command(flatten)]
    pub generators: GeneratorArgs,
}

/// Arguments for `appset plan`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The plan shows the steps, gates and order that `tidegate serve` would use. Branches and versions \
are resolved in their repositories, or shown as written if they cannot be resolved. Step gates are \
checked only with --gates. The command does not connect to a cluster. With --compare, it queries a \
service and shows the changes to each Application, with old and new values.

Examples:
  tidegate appset plan -f fleet.yaml
  tidegate appset plan -f fleet.yaml -o svg > fleet.svg
  tidegate appset plan -f fleet.yaml --compare --server https://tidegate.example.com
  tidegate appset plan -f fleet.yaml -o json | jq -r '.plans[].rollout.steps[].applications[]'")]
pub struct AppSetPlanArgs {
    /// File with ApplicationSets, or - for standard input (repeatable)
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: PlanFormat,
    /// File with gate definitions, in the format of `tidegate serve --gates`; a gate that is not defined in
    /// the file is an error
    #[arg(long, value_name = "FILE", value_parser = values::path_parser())]
    pub gates: Option<PathBuf>,
    /// Compare the plan with the current Applications, and show which of them would be changed or deleted.
    /// Requires a `tidegate serve` that is running in the state directory or at --server
    #[arg(long)]
    pub compare: bool,
    #[command(flatten)]
    pub generators: GeneratorArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Arguments for commands that show one ApplicationSet.
#[derive(Clone, Debug, Args)]
pub struct SingleAppSetArgs {
    /// Name of the ApplicationSet
    pub name: String,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Arguments of a request for one ApplicationSet.
#[derive(Clone, Debug, Args)]
pub struct AppSetRequestArgs {
    /// Name of the ApplicationSet
    pub name: String,
    /// Reason for the request, recorded in the log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Arguments for `appset approve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate appset approve fleet
  tidegate appset approve fleet --step 3 --reason \"checked the dashboards\"
  tidegate appset approve fleet --deletions 3c1fb9a27b1e --reason \"the folder has moved\"")]
pub struct StepRequestArgs {
    /// Number of the step, starting at 1 [default: the step that is waiting for approval]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub step: Option<u32>,
    /// Approve blocked deletions instead of a step; `tidegate appset explain` prints the TOKEN
    #[arg(long, value_name = "TOKEN", conflicts_with = "step")]
    pub deletions: Option<String>,
    #[command(flatten)]
    pub request: AppSetRequestArgs,
}

/// Filter that selects Applications of an ApplicationSet.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub struct MemberArgs {
    /// Select all Applications in this step; steps are numbered from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub step: Option<u32>,
    /// Select only this Application
    #[arg(long, value_name = "APPLICATION")]
    pub app: Option<String>,
}

/// Arguments for `appset retry`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --app or --step, the command restarts a progressive sync that has ended.

Examples:
  tidegate appset retry fleet --app prod-web
  tidegate appset retry fleet --step 2
  tidegate appset retry fleet")]
pub struct MemberRequestArgs {
    #[command(flatten)]
    pub members: MemberArgs,
    #[command(flatten)]
    pub request: AppSetRequestArgs,
}

/// Arguments for `appset skip`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  tidegate appset skip fleet --app prod-web --reason \"moved to another cluster\"")]
#[command(group = clap::ArgGroup::new("skipped").args(["step", "app"]).required(true))]
pub struct AppSetSkipArgs {
    /// Name of the ApplicationSet
    pub name: String,
    #[command(flatten)]
    pub members: MemberArgs,
    /// Reason for the request, recorded in the log
    #[arg(long, value_name = "TEXT", required = true, value_parser = values::parse_required_reason)]
    pub reason: String,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Arguments for `appset delete`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate appset delete --plan -f fleet.yaml
  tidegate appset delete fleet --plan
  tidegate appset delete fleet --yes
  tidegate appset delete fleet --orphan --yes")]
pub struct AppSetDeleteArgs {
    /// Name of the ApplicationSet
    #[arg(required_unless_present = "files")]
    pub name: Option<String>,
    /// Show the order in which the ApplicationSet's Applications would be deleted, without deleting anything
    #[arg(long, conflicts_with_all = ["yes", "orphan"])]
    pub plan: bool,
    /// With --plan, read the ApplicationSet from this file (- for standard input) instead of using a managed
    /// ApplicationSet
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with = "name", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", requires = "plan", default_value_t)]
    pub output: PlanFormat,
    /// Delete only the ApplicationSet and keep its Applications
    #[arg(long)]
    pub orphan: bool,
    /// Perform the deletion; without --yes, only print what would be deleted
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub reason: ReasonArgs,
    /// Return without waiting for the result
    #[arg(long = "async")]
    pub is_async: bool,
    /// Maximum time to wait for the result, such as 90s or 5m [default: unlimited]
    #[arg(long, value_name = "D", value_parser = values::parse_duration_arg)]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub generators: GeneratorArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}
