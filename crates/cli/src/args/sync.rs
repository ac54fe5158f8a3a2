//! `plan` and `sync`.

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

/// What to deploy, and where to.
#[derive(Clone, Debug, Args)]
pub struct SourceArgs {
    /// Files and folders of YAML or JSON manifests; - reads standard input
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Namespace of objects that name none [default: that of the context, else default]
    #[arg(short, long, value_name = "NS", value_parser = values::namespace)]
    pub namespace: Option<String>,
    /// Take input without any object for what it is: the application is to have none
    #[arg(long)]
    pub allow_empty: bool,
}

impl SourceArgs {
    /// What is asked of the input.
    pub fn wanted(&self) -> crate::input::wanted::Wanted {
        crate::input::wanted::Wanted { empty: self.allow_empty, synced: true, unnamed: false }
    }
}

/// What the options of the application are.
#[derive(Clone, Debug, Default, Args)]
pub struct OptionArgs {
    /// A sync option as Argo CD writes it, such as CreateNamespace=true or PruneLast=true; repeat it for more.
    /// Force=true and SkipHooks=true hold for this operation
    #[arg(long = "sync-option", value_name = "NAME=VALUE", value_parser = values::sync_option)]
    pub sync_options: Vec<String>,
    /// A label of the namespace that CreateNamespace=true makes or keeps; repeat it for more
    #[arg(long = "namespace-label", value_name = "KEY=VALUE", value_parser = values::pair)]
    pub namespace_labels: Vec<(String, String)>,
    /// An annotation of the namespace that CreateNamespace=true makes or keeps; repeat it for more
    #[arg(long = "namespace-annotation", value_name = "KEY=VALUE", value_parser = values::pair)]
    pub namespace_annotations: Vec<(String, String)>,
}

/// What is done with it.
#[derive(Clone, Debug, Default, Args)]
pub struct SelectionArgs {
    /// Delete objects of the application that are no longer in the manifests
    #[arg(long)]
    pub prune: bool,
    /// Take in objects that bear the application's mark where this operation does not deploy, as its own; with --prune
    /// they are deleted unless the manifests have them
    #[arg(long)]
    pub adopt: bool,
    /// Approve the pruning of objects that carry Prune=confirm
    #[arg(long)]
    pub confirm_prune: bool,
    /// Only this object, as GROUP:KIND:NAMESPACE/NAME (GROUP is empty for core kinds); repeat it for more. Hooks do not
    /// run
    #[arg(long = "resource", value_name = "GROUP:KIND:NS/NAME", value_parser = values::selector)]
    pub resources: Vec<ResourceSelector>,
    #[command(flatten)]
    pub options: OptionArgs,
    #[command(flatten)]
    pub tracking: TrackingArgs,
    #[command(flatten)]
    pub ignore: IgnoreArgs,
    /// A gate that every wave waits for, besides those its resources name: approval, soak:10m; repeat it for more
    #[arg(long = "gate", value_name = "NAME", value_parser = values::gate)]
    pub gates: Vec<String>,
    /// What the names of gates stand for: a YAML file with sync windows, groups, endpoints and expressions (see docs/gates.md); kept with the operation
    #[arg(long = "gates", value_name = "FILE")]
    pub definitions: Option<PathBuf>,
    /// Refuse input with findings instead of only warning about them
    #[arg(long)]
    pub strict: bool,
}

/// How long, and for what.
#[derive(Clone, Debug, Args)]
pub struct WaitingArgs {
    /// How long this command waits, such as 90s or 5m; then it exits with 3 and the operation can be resumed
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    /// Show on standard error what hooks write while they run
    #[arg(long)]
    pub follow_hooks: bool,
    #[command(flatten)]
    pub keep: KeepArgs,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
}

/// What the log keeps of operations that are over.
#[derive(Clone, Debug, Args)]
pub struct KeepArgs {
    /// How many finished operations of each application keep all their facts; of older ones a summary is left
    #[arg(long, value_name = "N", default_value_t = Retention::default().history)]
    pub history: usize,
    /// How many of them are listed at all; older ones are forgotten
    #[arg(long, value_name = "N", default_value_t = Retention::default().summaries)]
    pub summaries: usize,
    /// How long a summary without facts is kept, such as 720h [default: 90 days]
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub summaries_for: Option<Duration>,
}

impl KeepArgs {
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
    pub source: SourceArgs,
    /// Name of the application [default: the name of the first folder]
    #[arg(long, value_name = "NAME", value_parser = values::application)]
    pub app: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Compare with no cluster: nothing is there yet
    #[arg(long, conflicts_with_all = ["sim", "kubeconfig", "context", "impersonate_user", "impersonate_groups"])]
    pub offline: bool,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    /// Keep the plan in this file, with its manifests and the objects it was made of, so that `sync --plan FILE` carries out
    /// exactly this; it is kept in the state directory too, under its hash
    #[arg(long, value_name = "FILE", conflicts_with = "offline")]
    pub save: Option<PathBuf>,
    /// How the plan is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: PlanFormat,
    #[command(flatten)]
    pub state: StateArgs,
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    // For people.
    #[default]
    #[value(alias = "text")]
    Tree,
    // For programs.
    Json,
    // For programs.
    Yaml,
    // A diagram for Markdown.
    Mermaid,
    // A picture.
    Svg,
}

/// How operations of one application are kept apart on a real cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct ClaimArgs {
    /// Wait while another operation of the application is not over, begun from whatever state directory, instead of being
    /// refused; one that lies in this state directory is gone on with first
    #[arg(long, conflicts_with_all = ["supersede", "no_claim"])]
    pub queue: bool,
    /// End another operation of the application that is not over, begun from whatever state directory, and go on when it has
    /// ended
    #[arg(long, conflicts_with = "no_claim")]
    pub supersede: bool,
    /// The namespace of the Lease that says which operation works on the application [default: that of the objects]
    #[arg(long, value_name = "NS", value_parser = values::namespace, conflicts_with = "no_claim")]
    pub claim_namespace: Option<String>,
    /// Do not care whether another operation of the application runs
    #[arg(long)]
    pub no_claim: bool,
}

/// Runs a sync.
#[derive(Clone, Debug, Args)]
#[command(after_help = sync_help_end())]
#[command(mut_arg("paths", |paths| paths.required(false).required_unless_present("plan")))]
pub struct SyncArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Name of the application
    #[arg(long, value_name = "NAME", value_parser = values::application, required_unless_present = "plan")]
    pub app: Option<String>,
    /// Carry out a plan that `plan --save` has kept, exactly as it is: a file, or the hash of one in the state directory or
    /// its beginning. Where the cluster has moved in a way that changes it, nothing is done
    #[arg(long, value_name = "FILE|HASH", conflicts_with_all = SAID_BY_THE_PLAN)]
    pub plan: Option<String>,
    /// Carry it out also where objects have moved in fields that the plan says nothing about
    #[arg(long, requires = "plan")]
    pub allow_drift: bool,
    #[command(flatten)]
    pub why: ReasonArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub claim: ClaimArgs,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    /// Try everything on the server and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Begin without trying everything on the server first
    #[arg(long, alias = "skip-dry-run", conflicts_with = "dry_run")]
    pub no_dry_run: bool,
    /// How often to try again after a failure, from the failed wave; negative: without end
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub retry: i64,
    /// Wait before the first retry
    #[arg(long, value_name = "D", default_value = "5s", value_parser = values::duration)]
    pub retry_backoff: Duration,
    /// By how much the wait grows for each further retry; 1: it stays
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub retry_factor: u32,
    /// Longest wait before a retry
    #[arg(long, value_name = "D", default_value = "3m", value_parser = values::duration)]
    pub retry_max: Duration,
    /// Longest time the operation may take, retries included; then it has failed
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub deadline: Option<Duration>,
    /// When the operation is over: synced does not wait for the health of the last wave, healthy does
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub wait: WaitArg,
    #[command(flatten)]
    pub waiting: WaitingArgs,
    #[command(flatten)]
    pub state: StateArgs,
}

/// What a kept plan has said already.
const SAID_BY_THE_PLAN: [&str; 18] = [
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

/// When an operation is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WaitArg {
    // As Argo CD: the last wave is not waited for.
    #[default]
    Synced,
    // The last wave is healthy as well.
    Healthy,
}

fn sync_help_end() -> String {
    format!(
        "\
Environment:
  ARGOCD_SYNC_WAVE_DELAY  seconds between waves, instead of waiting for evidence of health; 0: none

Examples:
  tidegate sync examples/shop --app shop --sim
  tidegate sync shop/ --app shop -n shop --context staging --prune --retry 3 --deadline 10m
  tidegate sync shop/ --app shop --resource apps:Deployment:shop/api --wait healthy
  tidegate sync shop/ --app shop --follow-hooks
  tidegate sync shop/ --app shop --timeout 30s || tidegate explain shop

{}",
        super::common::CODES
    )
}
