//! Arguments for `plan` and `sync`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tidegate_model::ResourceSelector;
use tidegate_oplog::Retention;

use super::cluster::ClusterArgs;
use super::common::{Format, ReasonArgs, StateArgs};
use super::health::CustomizationArgs;
use super::ignore::IgnoreArgs;
use super::tracking::TrackingArgs;
use super::values;

/// Manifests to deploy, and their namespace.
#[derive(Clone, Debug, Args)]
pub struct SourceArgs {
    /// Files and folders with YAML or JSON manifests, or - for standard input
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Namespace for objects without a namespace [default: the context's namespace, or `default` if it has
    /// none]
    #[arg(short, long, value_name = "NS", value_parser = values::parse_namespace)]
    pub namespace: Option<String>,
    /// Accept input without any objects
    #[arg(long)]
    pub allow_empty: bool,
}

impl SourceArgs {
    /// Returns the requirements for the input.
    pub fn input_requirements(&self) -> crate::input::requirements::InputRequirements {
        crate::input::requirements::InputRequirements {
            can_be_empty: self.allow_empty,
            is_synced: true,
            can_be_unnamed: false,
        }
    }
}

/// Manifests of an application, and the name of the application.
#[derive(Clone, Debug, Args)]
pub struct ApplicationSourceArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Name of the application [default: the name of the first folder]
    #[arg(long, value_name = "NAME", value_parser = values::parse_application_name)]
    pub app: Option<String>,
}

/// Sync options of the application.
#[derive(Clone, Debug, Default, Args)]
pub struct OptionArgs {
    /// Sync option in Argo CD's format, such as CreateNamespace=true or PruneLast=true (repeatable). Force=true and
    /// SkipHooks=true apply to this operation only
    #[arg(long = "sync-option", value_name = "NAME=VALUE", value_parser = values::parse_sync_option)]
    pub sync_options: Vec<String>,
    /// Label for the namespace that CreateNamespace=true creates or updates (repeatable)
    #[arg(long = "namespace-label", value_name = "KEY=VALUE", value_parser = values::parse_key_value)]
    pub namespace_labels: Vec<(String, String)>,
    /// Annotation for the namespace that CreateNamespace=true creates or updates (repeatable)
    #[arg(long = "namespace-annotation", value_name = "KEY=VALUE", value_parser = values::parse_key_value)]
    pub namespace_annotations: Vec<(String, String)>,
}

/// Options that affect how objects are compared with their manifests.
#[derive(Clone, Debug, Default, Args)]
pub struct ComparisonArgs {
    #[command(flatten)]
    pub options: OptionArgs,
    #[command(flatten)]
    pub tracking: TrackingArgs,
    #[command(flatten)]
    pub ignore: IgnoreArgs,
}

/// Objects to sync, and options for syncing them.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionArgs {
    /// Delete the application's objects that are no longer in the manifests
    #[arg(long)]
    pub prune: bool,
    /// Adopt objects that are marked as part of the application, even in namespaces that this operation does
    /// not deploy to. With --prune, adopted objects that are not in the manifests are deleted
    #[arg(long)]
    pub adopt: bool,
    /// Confirm in advance that objects with the Prune=confirm sync option may be pruned
    #[arg(long)]
    pub confirm_prune: bool,
    /// Sync only this object, without hooks: GROUP:KIND:NAMESPACE/NAME, where GROUP is empty for core kinds
    /// (repeatable)
    #[arg(long = "resource", value_name = "GROUP:KIND:NS/NAME", value_parser = values::parse_resource_selector)]
    pub resources: Vec<ResourceSelector>,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    /// Gate for every wave, such as approval or soak:10m, in addition to the gates that the wave's resources
    /// specify (repeatable)
    #[arg(long = "gate", value_name = "NAME", value_parser = values::parse_gate)]
    pub gates: Vec<String>,
    /// YAML file with gate definitions (sync windows, groups, endpoints, expressions), stored with the operation; see
    /// docs/guides/gates-and-approvals.md
    #[arg(long = "gates", value_name = "FILE")]
    pub definitions: Option<PathBuf>,
    /// Treat the plan's warnings as errors
    #[arg(long)]
    pub strict: bool,
}

/// Options for waiting and output.
#[derive(Clone, Debug, Args)]
pub struct WaitingArgs {
    /// Maximum time to wait, such as 90s or 5m; after that, the command exits with code 3 and the operation can be
    /// resumed [default: unlimited]
    #[arg(long, value_name = "D", value_parser = values::parse_duration_arg)]
    pub timeout: Option<Duration>,
    /// Print hook output to standard error while hooks are running
    #[arg(long)]
    pub follow_hooks: bool,
    #[command(flatten)]
    pub retention: RetentionArgs,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
}

/// Retention of finished operations in the log.
#[derive(Clone, Debug, Args)]
pub struct RetentionArgs {
    /// Number of finished operations to retain in full for each application; older operations are reduced to
    /// a summary
    #[arg(long, value_name = "N", default_value_t = Retention::default().history)]
    pub history: usize,
    /// Total number of finished operations to retain for each application, including those reduced to a
    /// summary; older operations are removed
    #[arg(long, value_name = "N", default_value_t = Retention::default().summaries)]
    pub summaries: usize,
    /// Time to keep the summaries of finished operations, such as 720h [default: 90 days]
    #[arg(long, value_name = "D", value_parser = values::parse_duration_arg)]
    pub summaries_for: Option<Duration>,
}

impl RetentionArgs {
    pub fn retention(&self) -> Retention {
        let usual = Retention::default();
        Retention {
            history: self.history,
            summaries: self.summaries,
            age: self.summaries_for.unwrap_or(usual.age),
            ..usual
        }
    }
}

/// Shows what a sync would do.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate plan examples/shop --sim
  tidegate plan shop/ --context staging
  tidegate plan base/ overlay.yaml --app shop -n shop --offline -o mermaid
  kustomize build . | tidegate plan - --app shop --sim --strict
  tidegate plan examples/shop --offline -o svg > plan.svg
  tidegate plan shop/ --prune --save shop.plan && tidegate sync --plan shop.plan")]
pub struct PlanArgs {
    #[command(flatten)]
    pub application: ApplicationSourceArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Plan without a cluster, as if no objects existed
    #[arg(long, conflicts_with_all = ["sim", "kubeconfig", "context", "impersonate_user", "impersonate_groups"])]
    pub offline: bool,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    /// File to save the plan to, for `tidegate sync --plan FILE`. The file contains the plan, its manifests,
    /// and the live objects that the plan is based on. Tidegate also stores the plan in the state directory,
    /// under its hash
    #[arg(long, value_name = "FILE", conflicts_with = "offline")]
    pub save: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: PlanFormat,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Output format of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    #[default]
    #[value(alias = "text")]
    Tree,
    Json,
    Yaml,
    // A Mermaid diagram for Markdown.
    Mermaid,
    Svg,
}

/// Options for concurrent operations for the same application on a real cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct ClaimArgs {
    /// If another operation for the application is unfinished, wait until it ends instead of failing, even if
    /// it was started from another state directory. An unfinished operation in this state directory is
    /// resumed first
    #[arg(long, conflicts_with_all = ["supersede", "no_claim"])]
    pub queue: bool,
    /// If another operation for the application is unfinished, terminate it and start once it ends, even if
    /// it was started from another state directory
    #[arg(long, conflicts_with = "no_claim")]
    pub supersede: bool,
    /// Namespace of the Lease that prevents concurrent operations for the application [default: the objects'
    /// namespace]
    #[arg(long, value_name = "NS", value_parser = values::parse_namespace, conflicts_with = "no_claim")]
    pub claim_namespace: Option<String>,
    /// Run without a Lease, even if another operation for the application is running
    #[arg(long)]
    pub no_claim: bool,
}

/// Runs a sync.
#[derive(Clone, Debug, Args)]
#[command(after_help = sync_help_footer())]
#[command(mut_arg("paths", |paths| paths.required(false).required_unless_present("plan")))]
pub struct SyncArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Name of the application
    #[arg(long, value_name = "NAME", value_parser = values::parse_application_name, required_unless_present = "plan")]
    pub app: Option<String>,
    /// Execute exactly this stored plan: a file written by `tidegate plan --save`, or the hash or hash prefix
    /// (at least 6 digits) of a plan in the state directory. Tidegate refuses the plan if a change in the
    /// cluster affects it
    #[arg(long, value_name = "FILE|HASH", conflicts_with_all = PLAN_DETERMINED_OPTIONS)]
    pub plan: Option<String>,
    /// Execute the stored plan even if fields that it does not set have changed in the cluster
    #[arg(long, requires = "plan")]
    pub allow_drift: bool,
    #[command(flatten)]
    pub reason: ReasonArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub claim: ClaimArgs,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    /// Have the API server validate all objects (server-side dry run) without writing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Skip the server-side dry run of all objects before the sync
    #[arg(long, alias = "skip-dry-run", conflicts_with = "dry_run")]
    pub no_dry_run: bool,
    /// Maximum number of retries; a negative number means unlimited. Each retry starts at the failed wave
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub retry: i64,
    /// Delay before the first retry
    #[arg(long, value_name = "D", default_value = "5s", value_parser = values::parse_duration_arg)]
    pub retry_backoff: Duration,
    /// Factor by which the delay grows with each additional retry; 1 keeps the delay constant
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub retry_factor: u32,
    /// Maximum delay before a retry
    #[arg(long, value_name = "D", default_value = "3m", value_parser = values::parse_duration_arg)]
    pub retry_max: Duration,
    /// Maximum duration of the operation, including retries, before it fails [default: unlimited]
    #[arg(long, value_name = "D", value_parser = values::parse_duration_arg)]
    pub deadline: Option<Duration>,
    /// State that the last wave must reach for the operation to succeed: synced (applied) or healthy (applied
    /// and healthy)
    #[arg(long, value_enum, value_name = "STATE", default_value_t)]
    pub wait: WaitArg,
    #[command(flatten)]
    pub waiting: WaitingArgs,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Options that conflict with `--plan`, because a stored plan determines their values.
const PLAN_DETERMINED_OPTIONS: [&str; 18] = [
    "paths",
    "app",
    "namespace",
    "allow_empty",
    "prune",
    "adopt",
    "confirm_prune",
    "resources",
    "sync_options",
    "namespace_labels",
    "namespace_annotations",
    "tracking",
    "tracking_label",
    "installation_id",
    "ignore_differences",
    "gates",
    "definitions",
    "strict",
];

/// State that the last wave must reach for a sync to succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WaitArg {
    // As in Argo CD, the sync doesn't wait for the last wave to become healthy.
    #[default]
    Synced,
    // The last wave must also become healthy.
    Healthy,
}

fn sync_help_footer() -> String {
    format!(
        "\
Environment:
  ARGOCD_SYNC_WAVE_DELAY  minimum number of seconds between waves; 0 means no delay

Examples:
  tidegate sync examples/shop --app shop --sim
  tidegate sync shop/ --app shop -n shop --context staging --prune --retry 3 --deadline 10m
  tidegate sync shop/ --app shop --resource apps:Deployment:shop/api --wait healthy
  tidegate sync shop/ --app shop --follow-hooks
  tidegate sync shop/ --app shop --timeout 30s || tidegate explain shop

{}",
        super::common::EXIT_CODES
    )
}
