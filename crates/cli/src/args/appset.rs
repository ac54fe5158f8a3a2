//! `appset`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::common::{Format, ReasonArgs, ServiceArgs};
use super::runs::{ExportRunArgs, RunsArgs, ShowRunArgs};
use super::sync::PlanFormat;
use super::values;

/// Shows what ApplicationSets make, and steers those that are served.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
generate, plan and delete --plan -f work on files alone. The others work through the `tidegate
serve` at work in the state directory, or with --server through the API of one elsewhere. NAME is
an ApplicationSet's name, or NAMESPACE/NAME.

Examples:
  tidegate appset plan -f fleet.yaml
  tidegate appset list
  tidegate appset explain fleet
  tidegate appset approve fleet
  tidegate appset delete fleet --plan")]
pub struct AppsetArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: AppsetCommand,
}

/// What can be done with ApplicationSets.
#[derive(Clone, Debug, Subcommand)]
pub enum AppsetCommand {
    /// Print the Applications that ApplicationSets in files make; touches nothing
    Generate(GenerateArgs),
    /// Show in which order they would be synced and deleted; touches nothing
    Plan(SetPlanArgs),
    /// List all ApplicationSets
    List {
        /// How the result is printed
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        service: ServiceArgs,
    },
    /// Show an ApplicationSet: what is true of it, and its Applications
    Get(OneSetArgs),
    /// Show its progressive sync step by step, and its deletion
    Status(OneSetArgs),
    /// Why its progressive sync or deletion is where it is
    Explain(OneSetArgs),
    /// List its rollouts and deletions, past and present, or those of all sets; also of sets that are gone
    Runs(RunsArgs),
    /// Show one of them: its steps, what became of each Application, who decided what and why, and what it waited for
    ShowRun(ShowRunArgs),
    /// Write all that is known of one of them to a file, for an incident or a change request
    ExportRun(ExportRunArgs),
    /// Let a step begin that waits for approval, or deletions be done that are held
    Approve(StepWishArgs),
    /// Hold its progressive sync or deletion: what is at work goes on, nothing more begins
    Pause(SetWishArgs),
    /// Let it go on
    Resume(SetWishArgs),
    /// Go on without an Application, or all of a step that are not done
    Skip(SkipArgs),
    /// Bring an Application to its target once more, or all of a step that have failed, or all of it
    Retry(MemberWishArgs),
    /// Stop what is at work, and end its progressive sync or deletion
    Terminate(SetWishArgs),
    /// Ask its generators now
    Refresh {
        /// Name of the ApplicationSet
        name: String,
        #[command(flatten)]
        service: ServiceArgs,
    },
    /// Delete an ApplicationSet, and its Applications in the order it says
    Delete(SetDeleteArgs),
}

/// Where what generators ask comes from.
#[derive(Clone, Debug, Default, Args)]
pub struct FoundArgs {
    /// Cluster Secrets as Argo CD has them: a file, or a folder of files
    #[arg(long, value_name = "PATH", value_parser = values::path())]
    pub clusters: Option<PathBuf>,
    /// Repository Secrets (and certificates and known hosts) as Argo CD has them: a file, or a folder of files
    #[arg(long, value_name = "PATH", value_parser = values::path())]
    pub repositories: Option<PathBuf>,
    /// Secrets and ConfigMaps that generators name, for tokens and plugins: a file, or a folder of files
    #[arg(long, value_name = "PATH", value_parser = values::path())]
    pub secrets: Option<PathBuf>,
    /// In patterns of Git files, * stays between two slashes and ** does not
    #[arg(
        long,
        env = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_NEW_GIT_FILE_GLOBBING",
        hide_env_values = true
    )]
    pub new_git_file_globbing: bool,
}

/// Generates Applications.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
No cluster is asked. The Git generator reads repositories: https://host/path, git@host:path,
file:///path, an absolute path, or one relative to the folder of FILE: ./repo. The cluster generator
needs --clusters. The generators scmProvider, pullRequest and plugin ask their servers, with the tokens of
--secrets. clusterDecisionResource is an error that names it.

Examples:
  tidegate appset generate -f fleet.yaml
  tidegate appset generate -f previews.yaml --secrets tokens.yaml
  tidegate appset generate -f fleet.yaml --clusters secrets/ -o json | jq -r '.items[].metadata.name'")]
pub struct GenerateArgs {
    /// File with ApplicationSets; - reads standard input; repeat it for more
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// How the result is printed: a list of Applications
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Yaml)]
    pub output: Format,
    #[command(flatten)]
    pub found: FoundArgs,
}

/// Plans a progressive sync and a deletion.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Steps, gates and orders are what `tidegate serve` goes by; branches and versions are looked up in
their repositories, and shown as they are written where that cannot be. Whether somebody has defined
the gates that steps need is known with --gates only. No cluster is asked, and with --compare a
service: then it is shown of each Application what would change, from what to what.

Examples:
  tidegate appset plan -f fleet.yaml
  tidegate appset plan -f fleet.yaml -o svg > fleet.svg
  tidegate appset plan -f fleet.yaml --compare --server https://tidegate.example.com
  tidegate appset plan -f fleet.yaml -o json | jq -r '.plans[].rollout.steps[].applications[]'")]
pub struct SetPlanArgs {
    /// File with ApplicationSets; - reads standard input; repeat it for more
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// How the plan is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: PlanFormat,
    /// What the names of gates stand for, as `tidegate serve --gates` has it: a gate that is not in it is a mistake
    #[arg(long, value_name = "FILE", value_parser = values::path())]
    pub gates: Option<PathBuf>,
    /// Ask the `tidegate serve` at work in the state directory, or that of --server, how the Applications stand, and show
    /// what would change of each, and which would be deleted
    #[arg(long)]
    pub compare: bool,
    #[command(flatten)]
    pub found: FoundArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// One ApplicationSet, and how to print it.
#[derive(Clone, Debug, Args)]
pub struct OneSetArgs {
    /// Name of the ApplicationSet
    pub name: String,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// A wish for one ApplicationSet.
#[derive(Clone, Debug, Args)]
pub struct SetWishArgs {
    /// Name of the ApplicationSet
    pub name: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// A wish for a step.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate appset approve fleet
  tidegate appset approve fleet --step 3 --reason \"checked the dashboards\"
  tidegate appset approve fleet --deletions 3c1fb9a27b1e --reason \"the folder has moved\"")]
pub struct StepWishArgs {
    /// Which step, from 1 [default: the one that waits for it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub step: Option<u32>,
    /// Instead of a step: have the Applications deleted whose deletion is held because they are too many. WORD stands for
    /// them, as `appset explain` says it
    #[arg(long, value_name = "WORD", conflicts_with = "step")]
    pub deletions: Option<String>,
    #[command(flatten)]
    pub wish: SetWishArgs,
}

/// Which Applications.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub struct MemberArgs {
    /// All of this step, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub step: Option<u32>,
    /// This one
    #[arg(long, value_name = "APPLICATION")]
    pub app: Option<String>,
}

/// A wish for Applications.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --app and --step, a progressive sync that has ended is begun again.

Examples:
  tidegate appset retry fleet --app prod-web
  tidegate appset retry fleet --step 2
  tidegate appset retry fleet")]
pub struct MemberWishArgs {
    #[command(flatten)]
    pub members: MemberArgs,
    #[command(flatten)]
    pub wish: SetWishArgs,
}

/// What is gone on without.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  tidegate appset skip fleet --app prod-web --reason \"is moved to another cluster\"")]
#[command(group = clap::ArgGroup::new("skipped").args(["step", "app"]).required(true))]
pub struct SkipArgs {
    /// Name of the ApplicationSet
    pub name: String,
    #[command(flatten)]
    pub members: MemberArgs,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", required = true, value_parser = values::said_reason)]
    pub reason: String,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// What is deleted.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate appset delete --plan -f fleet.yaml
  tidegate appset delete fleet --plan
  tidegate appset delete fleet --yes
  tidegate appset delete fleet --orphan --yes")]
pub struct SetDeleteArgs {
    /// Name of the ApplicationSet
    #[arg(required_unless_present = "files")]
    pub name: Option<String>,
    /// Show in which order its Applications would be deleted, and do nothing
    #[arg(long, conflicts_with_all = ["yes", "orphan"])]
    pub plan: bool,
    /// With --plan: a file with the ApplicationSet, instead of one that is served; - reads standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with = "name", num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// How the plan is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", requires = "plan", default_value_t)]
    pub output: PlanFormat,
    /// Its Applications outlive it
    #[arg(long)]
    pub orphan: bool,
    /// Do it; without this, what would be deleted is named, and nothing is done
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub why: ReasonArgs,
    /// Do not wait for the end
    #[arg(long = "async")]
    pub is_async: bool,
    /// How long to wait for the end
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub found: FoundArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}
