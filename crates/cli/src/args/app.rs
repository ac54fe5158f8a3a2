//! Arguments for `app`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use tidegate_model::{ClaimConflictPolicy, ResourceSelector};

use super::common::{Format, ReasonArgs};
use super::delete::{CASCADE_HELP, CascadeArg};
use super::sync::PlanFormat;
use super::transport::TransportArgs;
use super::values::{self, LabelConditions};

/// Lists, shows and syncs Applications.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
By default, the commands connect to the `tidegate serve` that is running in the state directory. \
With --server, they call the API of a remote service. With --kube, they access the resources in a \
cluster directly, without a service. NAME is an application's name or NAMESPACE/NAME. -o json and \
-o yaml print complete resources.

Examples:
  tidegate app list
  tidegate app get backend -o yaml
  tidegate app sync backend
  tidegate app wait --timeout 5m
  tidegate app list --server https://tidegate.example.com --token-file token
  tidegate app sync backend --kube --context staging")]
pub struct AppArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: AppCommand,
}

/// Subcommands of `app`.
#[derive(Clone, Debug, Subcommand)]
pub enum AppCommand {
    /// List applications
    List {
        #[command(flatten)]
        which: ApplicationFilterArgs,
        /// Output format
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        transport: TransportArgs,
    },
    /// Show an application's specification, status and errors
    Get(SingleAppArgs),
    /// List an application's successful syncs
    History(SingleAppArgs),
    /// Sync applications and wait for the results
    Sync(AppSyncArgs),
    /// Plan an application's sync and store the plan under its hash, or show a stored plan
    Plan(AppPlanArgs),
    /// List the stored plans of one or all applications
    Plans {
        /// Name of the application [default: all applications]
        name: Option<String>,
        /// Output format
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        transport: TransportArgs,
    },
    /// Approve a stored plan and start the sync that is waiting for the approval
    Approve(AppApproveArgs),
    /// Show what a sync of an application would change
    #[command(after_help = DIFF_EXIT_CODES)]
    Diff {
        /// Name of the application
        name: String,
        #[command(flatten)]
        revisions: RevisionArgs,
        /// Show the changes in the stored plan with this hash or hash prefix (at least 6 digits)
        #[arg(long, value_name = "HASH", conflicts_with_all = ["revision", "revisions"])]
        plan: Option<String>,
        /// Output format
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        transport: TransportArgs,
    },
    /// Terminate an application's running operation
    Terminate {
        /// Name of the application
        name: String,
        #[command(flatten)]
        reason: ReasonArgs,
        #[command(flatten)]
        transport: TransportArgs,
    },
    /// Explain the state of an application's operation
    Explain(SingleAppArgs),
    /// Delete applications and their objects, in reverse sync order
    Delete(AppDeleteArgs),
    /// Roll an application back to an earlier sync without running hooks, and wait for the result
    Rollback(AppRollbackArgs),
    /// Read an application's repository, compare it with the cluster, and wait for the result
    Refresh {
        /// Name of the application
        name: String,
        /// Render the manifests again instead of using cached manifests
        #[arg(long)]
        hard: bool,
        #[command(flatten)]
        transport: TransportArgs,
    },
    /// Wait until applications are Synced and Healthy and have no running operation
    Wait(AppWaitArgs),
}

const DIFF_EXIT_CODES: &str = "\
The command does not compare hooks, show Secret values, or write anything.

Exit codes:
  0  no differences
  1  differences
  2  error, including invalid input or usage";

/// Arguments for `app rollback`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A rollback is refused while automated sync is enabled, because the next sync would deploy the \
newest revision again.")]
pub struct AppRollbackArgs {
    /// Name of the application
    pub name: String,
    /// ID of the sync to roll back to, as listed by `tidegate app history` [default: the sync before the most
    /// recent one]
    #[arg(value_name = "ID")]
    pub id: Option<i64>,
    /// Delete objects that are not in the manifests of the earlier sync
    #[arg(long)]
    pub prune: bool,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub reason: ReasonArgs,
    #[command(flatten)]
    pub end: EndWaitArgs,
    #[command(flatten)]
    pub transport: TransportArgs,
}

/// Options for waiting until an operation ends.
#[derive(Clone, Debug, Args)]
pub struct EndWaitArgs {
    /// Return without waiting for the result
    #[arg(long = "async")]
    pub is_async: bool,
    /// Maximum time to wait for the result, such as 90s or 5m [default: unlimited]
    #[arg(long, value_name = "D", value_parser = values::parse_duration_arg)]
    pub timeout: Option<Duration>,
}

/// One application and the output format.
#[derive(Clone, Debug, Args)]
pub struct SingleAppArgs {
    /// Name of the application
    pub name: String,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub transport: TransportArgs,
}

/// Filters that select applications. Without filters, all applications are selected.
#[derive(Clone, Debug, Args)]
pub struct ApplicationFilterArgs {
    /// Select applications in this project (repeatable)
    #[arg(short, long = "project", value_name = "PROJECT")]
    pub projects: Vec<String>,
    /// Select applications with these labels: KEY, !KEY, KEY=VALUE or KEY!=VALUE, separated by commas
    #[arg(short = 'l', long = "selector", value_name = "LABELS", value_parser = values::parse_label_conditions)]
    pub labels: Option<LabelConditions>,
    /// Select applications with a source in this repository; any form of the repository's URL matches
    #[arg(short, long = "repo", value_name = "URL")]
    pub repository: Option<String>,
}

impl ApplicationFilterArgs {
    /// Returns true if no filter is set.
    pub fn is_empty(&self) -> bool {
        let Self { projects, labels, repository } = self;
        projects.is_empty() && labels.is_none() && repository.is_none()
    }
}

/// Revisions to sync an application to.
#[derive(Clone, Debug, Args)]
pub struct RevisionArgs {
    /// Branch, tag or commit to use [default: the application's target revision]
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Branch, tag or commit to use for one source of an application with several sources; --source-positions
    /// selects the source (repeatable)
    #[arg(long, value_name = "REVISION", conflicts_with = "revision", requires = "positions")]
    pub revisions: Vec<String>,
    /// Position of the source for --revisions; the first source has position 1 (repeatable). Specify one
    /// position for each revision, in the same order
    #[arg(long = "source-positions", value_name = "N", requires = "revisions")]
    pub positions: Vec<usize>,
}

/// Arguments for `app sync`.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("who").args(["names", "projects", "labels", "repository"]).required(true).multiple(true), after_help = "\
The command requests the syncs one by one and waits for all results. If one sync is refused, the \
others continue.

Examples:
  tidegate app sync backend
  tidegate app sync backend frontend --prune
  tidegate app sync -l team=payments --policy queue")]
pub struct AppSyncArgs {
    /// Names of the applications
    #[arg(value_name = "NAME", conflicts_with_all = ["projects", "labels", "repository"])]
    pub names: Vec<String>,
    #[command(flatten)]
    pub which: ApplicationFilterArgs,
    #[command(flatten)]
    pub revisions: RevisionArgs,
    /// Delete objects that are no longer in the manifests
    #[arg(long)]
    pub prune: bool,
    /// Have the API server validate the objects (server-side dry run) without writing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Sync only this resource, without hooks: GROUP:KIND:NAMESPACE/NAME (repeatable)
    #[arg(long = "resource", value_name = "RESOURCE", value_parser = values::parse_resource_selector)]
    pub resources: Vec<ResourceSelector>,
    /// Execute exactly the stored plan with this hash or hash prefix (at least 6 digits)
    #[arg(long, value_name = "HASH", conflicts_with_all = ["revision", "revisions", "prune", "dry_run", "resources", "policy", "projects", "labels", "repository"])]
    pub plan: Option<String>,
    /// Execute the stored plan even if fields that it does not set have changed in the cluster
    #[arg(long, requires = "plan")]
    pub allow_drift: bool,
    /// Action to take if the application already has a running operation: reject the new sync (refuse), start
    /// it after the operation ends (queue), or replace the operation once it is waiting or an attempt fails,
    /// but never during a hook (supersede)
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    pub policy: ConcurrencyPolicyArg,
    /// Print hook output to standard error while hooks are running
    #[arg(long, conflicts_with = "is_async")]
    pub follow_hooks: bool,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub reason: ReasonArgs,
    #[command(flatten)]
    pub end: EndWaitArgs,
    #[command(flatten)]
    pub transport: TransportArgs,
}

/// Arguments for `app plan`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The command does not change the cluster. To execute the plan later, run `tidegate app sync NAME \
--plan HASH`, which either executes exactly this plan or refuses it.

Examples:
  tidegate app plan backend
  tidegate app plan backend --prune -o json
  tidegate app plan backend 3f2a9c41d07b")]
pub struct AppPlanArgs {
    /// Name of the application
    pub name: String,
    /// Show the stored plan with this hash or hash prefix (at least 6 digits) instead of creating a plan
    #[arg(value_name = "HASH", conflicts_with_all = ["revision", "revisions", "prune", "resources"])]
    pub hash: Option<String>,
    #[command(flatten)]
    pub revisions: RevisionArgs,
    /// Delete objects that are no longer in the manifests
    #[arg(long)]
    pub prune: bool,
    /// Sync only this resource, without hooks: GROUP:KIND:NAMESPACE/NAME (repeatable)
    #[arg(long = "resource", value_name = "RESOURCE", value_parser = values::parse_resource_selector)]
    pub resources: Vec<ResourceSelector>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: PlanFormat,
    #[command(flatten)]
    pub transport: TransportArgs,
}

/// Arguments for `app approve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The tidegate.dev/approvers annotations of the application and its project list the users who may \
approve plans.

Examples:
  tidegate app approve backend 3f2a9c41d07b
  tidegate app approve backend 3f2a9c --reason \"checked with the database team\"")]
pub struct AppApproveArgs {
    /// Name of the application
    pub name: String,
    /// Hash of the plan, or a prefix of the hash (at least 6 digits)
    #[arg(value_name = "HASH")]
    pub hash: String,
    /// Reason for the request, recorded in the log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
    #[command(flatten)]
    pub transport: TransportArgs,
}

/// Action if a sync is requested while another operation is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ConcurrencyPolicyArg {
    // The sync is refused.
    #[default]
    Refuse,
    // The sync starts after the other operation.
    Queue,
    // The other operation is terminated after its running hooks, but only if it is waiting or has failed.
    Supersede,
}

impl From<ConcurrencyPolicyArg> for ClaimConflictPolicy {
    fn from(given: ConcurrencyPolicyArg) -> Self {
        match given {
            ConcurrencyPolicyArg::Refuse => Self::Refuse,
            ConcurrencyPolicyArg::Queue => Self::Queue,
            ConcurrencyPolicyArg::Supersede => Self::Supersede,
        }
    }
}

/// Arguments for `app wait`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
By default, the command waits for all three conditions. With --sync, --health or --operation, it \
waits only for the conditions that you select.

Examples:
  tidegate app wait
  tidegate app wait backend --health --timeout 5m")]
pub struct AppWaitArgs {
    /// Names of the applications [default: all applications]
    #[arg(value_name = "NAME", conflicts_with_all = ["projects", "labels", "repository"])]
    pub names: Vec<String>,
    #[command(flatten)]
    pub which: ApplicationFilterArgs,
    /// Wait until the applications are Synced
    #[arg(long)]
    pub sync: bool,
    /// Wait until the applications are Healthy
    #[arg(long)]
    pub health: bool,
    /// Wait until the applications' operations have finished
    #[arg(long)]
    pub operation: bool,
    /// Maximum time to wait, such as 90s or 5m [default: unlimited]
    #[arg(long, value_name = "D", value_parser = values::parse_duration_arg)]
    pub timeout: Option<Duration>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub transport: TransportArgs,
}

/// Arguments for `app delete`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate app delete backend
  tidegate app delete backend --yes
  tidegate app delete backend frontend --yes
  tidegate app delete backend --cascade orphan --yes")]
pub struct AppDeleteArgs {
    /// Names of the applications
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    #[arg(long, value_enum, value_name = "MODE", default_value_t, help = CASCADE_HELP)]
    pub cascade: CascadeArg,
    /// Do not run deletion hooks; --cascade orphan never runs them
    #[arg(long)]
    pub no_hooks: bool,
    /// Perform the deletion; without --yes, only print what would be deleted
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub reason: ReasonArgs,
    #[command(flatten)]
    pub end: EndWaitArgs,
    #[command(flatten)]
    pub transport: TransportArgs,
}
