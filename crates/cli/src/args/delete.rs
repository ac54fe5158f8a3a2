//! Arguments for `delete`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tidegate_model::Cascade;

use super::cluster::ClusterArgs;
use super::common::{ReasonArgs, StateArgs};
use super::health::CustomizationArgs;
use super::sync::{ClaimArgs, OptionArgs, WaitingArgs};
use super::tracking::TrackingArgs;
use super::values;

/// Help text of `--cascade`.
pub(super) const CASCADE_HELP: &str = "Deletion policy for the application's objects: delete each object after its \
    dependents (foreground) or before its dependents (background), or keep all objects (orphan)";

/// Deletes an application.
#[derive(Clone, Debug, Args)]
#[command(after_help = delete_help_footer())]
pub struct DeleteArgs {
    /// Name of the application
    #[arg(long, value_name = "NAME", value_parser = values::parse_application_name)]
    pub app: String,
    /// Files and folders with deletion hooks (PreDelete, PostDelete) [default: the last sync's manifests, as
    /// recorded in the log]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Namespace for objects without a namespace [default: the namespace of the last sync, or the context's
    /// namespace if there is none]
    #[arg(short, long, value_name = "NS", value_parser = values::parse_namespace)]
    pub namespace: Option<String>,
    /// Perform the deletion; without --yes, only show what would be deleted
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub reason: ReasonArgs,
    #[arg(long, value_enum, value_name = "MODE", default_value_t, help = CASCADE_HELP)]
    pub cascade: CascadeArg,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Have the API server validate the hooks (server-side dry run) without writing or deleting anything
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Do not run deletion hooks; --cascade orphan never runs them
    #[arg(long)]
    pub no_hooks: bool,
    /// Confirm in advance that objects with the Delete=confirm or Prune=confirm sync option may be deleted
    #[arg(long)]
    pub confirm: bool,
    /// Also delete objects that are marked as part of the application but might belong to another application
    #[arg(long)]
    pub adopt: bool,
    #[command(flatten)]
    pub options: OptionArgs,
    #[command(flatten)]
    pub tracking: TrackingArgs,
    #[command(flatten)]
    pub claim: ClaimArgs,
    #[command(flatten)]
    pub scripts: CustomizationArgs,
    /// Maximum number of retries; a negative number means unlimited. Each retry starts at the failed wave
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub retry: i64,
    /// Maximum duration of the deletion, including retries, before it fails [default: unlimited]
    #[arg(long, value_name = "D", value_parser = values::parse_duration_arg)]
    pub deadline: Option<Duration>,
    #[command(flatten)]
    pub waiting: WaitingArgs,
    #[command(flatten)]
    pub state: StateArgs,
}

/// Handling of a deleted application's objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CascadeArg {
    // Each object is deleted after the objects it owns.
    #[default]
    Foreground,
    // Owned objects are deleted after their owner.
    Background,
    // The objects are kept.
    Orphan,
}

impl From<CascadeArg> for Cascade {
    fn from(given: CascadeArg) -> Self {
        match given {
            CascadeArg::Foreground => Self::Foreground,
            CascadeArg::Background => Self::Background,
            CascadeArg::Orphan => Self::Orphan,
        }
    }
}

fn delete_help_footer() -> String {
    format!(
        "\
PreDelete hooks run first. Then Tidegate deletes the objects wave by wave, starting with the last \
wave, and waits until all objects in a wave are gone before it deletes the next wave. PostDelete \
hooks run last.

Examples:
  tidegate delete --app shop --sim
  tidegate delete --app shop --sim --yes
  tidegate delete shop/ --app shop -n shop --context staging --yes --deadline 10m
  tidegate delete --app shop --cascade orphan --yes

{}",
        super::common::EXIT_CODES
    )
}
