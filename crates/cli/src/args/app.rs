//! `app`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use tidegate_model::{IfTaken, ResourceSelector};

use super::common::{Format, ReasonArgs};
use super::delete::CascadeArg;
use super::sync::PlanFormat;
use super::values::{self, Labels};
use super::way::WayArgs;

/// Lists, shows and syncs Applications.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Works through the `tidegate serve` at work in the state directory; with --server through the API
of one elsewhere; with --kube on the resources of a cluster, with no service asked. NAME is an
application's name, or NAMESPACE/NAME. With -o json or yaml, the resources themselves are printed.

Examples:
  tidegate app list
  tidegate app get backend -o yaml
  tidegate app sync backend
  tidegate app wait --timeout 5m
  tidegate app list --server https://tidegate.example.com --token-file token
  tidegate app sync backend --kube --context staging")]
pub struct AppArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: AppCommand,
}

/// What can be done with Applications.
#[derive(Clone, Debug, Subcommand)]
pub enum AppCommand {
    /// List applications
    List {
        #[command(flatten)]
        which: ListedArgs,
        /// How the result is printed
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        way: WayArgs,
    },
    /// Show an application: what is wanted, what is, and what is wrong
    Get(OneAppArgs),
    /// Show the syncs of an application that succeeded
    History(OneAppArgs),
    /// Sync applications, and wait for them
    Sync(AppSyncArgs),
    /// Plan a sync of an application and keep the plan under its hash, or show a plan that is kept
    Plan(AppPlanArgs),
    /// List the kept plans of an application, or of all
    Plans {
        /// Name of the application [default: all]
        name: Option<String>,
        /// How the result is printed
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        way: WayArgs,
    },
    /// Approve a kept plan; the sync that waits for it begins
    Approve(AppApproveArgs),
    /// Show what a sync of an application would change
    #[command(after_help = DIFF_CODES)]
    Diff {
        /// Name of the application
        name: String,
        #[command(flatten)]
        revisions: RevisionArgs,
        /// What a kept plan would change instead, by its hash or the beginning of it
        #[arg(long, value_name = "HASH", conflicts_with_all = ["revision", "revisions"])]
        plan: Option<String>,
        /// How the result is printed
        #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
        output: Format,
        #[command(flatten)]
        way: WayArgs,
    },
    /// End the operation of an application that is under way
    Terminate {
        /// Name of the application
        name: String,
        #[command(flatten)]
        why: ReasonArgs,
        #[command(flatten)]
        way: WayArgs,
    },
    /// Why the operation of an application is where it is
    Explain(OneAppArgs),
    /// Delete applications, and their objects in reverse order of their sync
    Delete(AppDeleteArgs),
    /// Go back to an earlier sync of an application, without hooks, and wait for it
    Rollback(AppRollbackArgs),
    /// Look at the repository, compare with the cluster, and wait until that is done
    Refresh {
        /// Name of the application
        name: String,
        /// Read and parse the manifests anew
        #[arg(long)]
        hard: bool,
        #[command(flatten)]
        way: WayArgs,
    },
    /// Wait until applications are Synced and Healthy, and no operation is under way
    Wait(AppWaitArgs),
}

const DIFF_CODES: &str = "\
Hooks are not compared, and values of Secrets are not shown. Writes nothing.

Exit codes:
  0  no differences
  1  differences
  2  an error, or bad input or usage";

/// Where to go back to.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Refused while the application is synced automatically: it would be synced to its newest revision again.")]
pub struct AppRollbackArgs {
    /// Name of the application
    pub name: String,
    /// Which sync, by its ID in `tidegate app history` [default: the one before the last]
    #[arg(value_name = "ID")]
    pub id: Option<i64>,
    /// Delete objects that were not there then
    #[arg(long)]
    pub prune: bool,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub why: ReasonArgs,
    #[command(flatten)]
    pub end: EndArgs,
    #[command(flatten)]
    pub way: WayArgs,
}

/// Whether the end of the operation is waited for, and how long.
#[derive(Clone, Debug, Args)]
pub struct EndArgs {
    /// Do not wait for the end
    #[arg(long = "async")]
    pub is_async: bool,
    /// How long to wait for the end
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub timeout: Option<Duration>,
}

/// One application, and how to print it.
#[derive(Clone, Debug, Args)]
pub struct OneAppArgs {
    /// Name of the application
    pub name: String,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub way: WayArgs,
}

/// Which applications are meant: all that nothing here excludes.
#[derive(Clone, Debug, Args)]
pub struct ListedArgs {
    /// Only of this project; repeat it for more
    #[arg(short, long = "project", value_name = "PROJECT")]
    pub projects: Vec<String>,
    /// Only with these labels: KEY, !KEY, KEY=VALUE or KEY!=VALUE, separated by commas
    #[arg(short = 'l', long = "selector", value_name = "LABELS", value_parser = values::labels)]
    pub labels: Option<Labels>,
    /// Only with a source of this repository, however its address is written
    #[arg(short, long = "repo", value_name = "URL")]
    pub repository: Option<String>,
}

impl ListedArgs {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        let Self { projects, labels, repository } = self;
        projects.is_empty() && labels.is_none() && repository.is_none()
    }
}

/// To which revisions an application is synced.
#[derive(Clone, Debug, Args)]
pub struct RevisionArgs {
    /// Branch, tag or commit, instead of the application's
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// The same of one of several sources: of that at the next --source-positions; repeat both for more
    #[arg(long, value_name = "REVISION", conflicts_with = "revision", requires = "positions")]
    pub revisions: Vec<String>,
    /// Which source is meant by the next --revisions, counted from 1
    #[arg(long = "source-positions", value_name = "N", requires = "revisions")]
    pub positions: Vec<usize>,
}

/// What is synced.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("who").args(["names", "projects", "labels", "repository"]).required(true).multiple(true), after_help = "\
Several are asked for one after the other, and waited for together; one that is refused does not keep back the others.

Examples:
  tidegate app sync backend
  tidegate app sync backend frontend --prune
  tidegate app sync -l team=payments --policy queue")]
pub struct AppSyncArgs {
    /// Names of the applications
    #[arg(value_name = "NAME", conflicts_with_all = ["projects", "labels", "repository"])]
    pub names: Vec<String>,
    #[command(flatten)]
    pub which: ListedArgs,
    #[command(flatten)]
    pub revisions: RevisionArgs,
    /// Delete objects that are no longer in the manifests
    #[arg(long)]
    pub prune: bool,
    /// Write nothing; the cluster judges everything
    #[arg(long)]
    pub dry_run: bool,
    /// Only this resource, without hooks: GROUP:KIND:NAMESPACE/NAME; repeat it for more
    #[arg(long = "resource", value_name = "RESOURCE", value_parser = values::selector)]
    pub resources: Vec<ResourceSelector>,
    /// Carry out this kept plan and nothing else: its hash, or the first digits of it
    #[arg(long, value_name = "HASH", conflicts_with_all = ["revision", "revisions", "prune", "dry_run", "resources", "policy", "projects", "labels", "repository"])]
    pub plan: Option<String>,
    /// Carry the plan out also where fields of its objects have changed that it says nothing about
    #[arg(long, requires = "plan")]
    pub allow_drift: bool,
    /// What happens while another operation of the application is under way: the sync is refused, or begins when that one is
    /// over, or that one is ended where it waits or has failed and none of its hooks runs
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    pub policy: PolicyArg,
    /// Show on standard error what hooks write while they run
    #[arg(long, conflicts_with = "is_async")]
    pub follow_hooks: bool,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub why: ReasonArgs,
    #[command(flatten)]
    pub end: EndArgs,
    #[command(flatten)]
    pub way: WayArgs,
}

/// What is planned.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Nothing is written to the cluster. `tidegate app sync NAME --plan HASH` carries the plan out later, as it is or not at all.

Examples:
  tidegate app plan backend
  tidegate app plan backend --prune -o json
  tidegate app plan backend 3f2a9c41d07b")]
pub struct AppPlanArgs {
    /// Name of the application
    pub name: String,
    /// Show this plan, by its hash or the first digits of it, instead of making one
    #[arg(value_name = "HASH", conflicts_with_all = ["revision", "revisions", "prune", "resources"])]
    pub hash: Option<String>,
    #[command(flatten)]
    pub revisions: RevisionArgs,
    /// Delete objects that are no longer in the manifests
    #[arg(long)]
    pub prune: bool,
    /// Only this resource, without hooks: GROUP:KIND:NAMESPACE/NAME; repeat it for more
    #[arg(long = "resource", value_name = "RESOURCE", value_parser = values::selector)]
    pub resources: Vec<ResourceSelector>,
    /// How the plan is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: PlanFormat,
    #[command(flatten)]
    pub way: WayArgs,
}

/// What is approved.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Who may approve is said by the annotation tidegate.dev/approvers of the application and of its project.

Examples:
  tidegate app approve backend 3f2a9c41d07b
  tidegate app approve backend 3f2a9c --reason \"checked with the database team\"")]
pub struct AppApproveArgs {
    /// Name of the application
    pub name: String,
    /// The plan: its hash, or the first digits of it
    #[arg(value_name = "HASH")]
    pub hash: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
    #[command(flatten)]
    pub way: WayArgs,
}

/// What becomes of a sync that is asked for while another operation is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    // It is not taken.
    #[default]
    Refuse,
    // It begins when that one is over.
    Queue,
    // That one is ended where it waits or has failed, once its running hooks have ended.
    Supersede,
}

impl From<PolicyArg> for IfTaken {
    fn from(given: PolicyArg) -> Self {
        match given {
            PolicyArg::Refuse => Self::Refuse,
            PolicyArg::Queue => Self::Queue,
            PolicyArg::Supersede => Self::Supersede,
        }
    }
}

/// What is waited for.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --sync, --health and --operation, all three are waited for.

Examples:
  tidegate app wait
  tidegate app wait backend --health --timeout 5m")]
pub struct AppWaitArgs {
    /// Names of the applications [default: all]
    #[arg(value_name = "NAME", conflicts_with_all = ["projects", "labels", "repository"])]
    pub names: Vec<String>,
    #[command(flatten)]
    pub which: ListedArgs,
    /// Until they are Synced
    #[arg(long)]
    pub sync: bool,
    /// Until they are Healthy
    #[arg(long)]
    pub health: bool,
    /// Until their operations are over
    #[arg(long)]
    pub operation: bool,
    /// How long to wait
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub way: WayArgs,
}

/// What is deleted.
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
    /// What becomes of its objects: deleted after what they own, deleted before what they own, or left as they are
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub cascade: CascadeArg,
    /// Do it; without this, what would be deleted is named, and nothing is done
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub why: ReasonArgs,
    #[command(flatten)]
    pub end: EndArgs,
    #[command(flatten)]
    pub way: WayArgs,
}
