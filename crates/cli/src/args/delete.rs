//! `delete`.

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

/// Deletes an application.
#[derive(Clone, Debug, Args)]
#[command(after_help = delete_help_end())]
pub struct DeleteArgs {
    /// Name of the application
    #[arg(long, value_name = "NAME", value_parser = values::application)]
    pub app: String,
    /// Files and folders with the hooks of the deletion (PreDelete, PostDelete) [default: the manifests of the last
    /// sync, as the log keeps them]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Namespace of objects that name none [default: that of the last sync, else of the context]
    #[arg(short, long, value_name = "NS", value_parser = values::namespace)]
    pub namespace: Option<String>,
    /// Do it; without this, what would be deleted is shown, and nothing is done
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub why: ReasonArgs,
    /// What becomes of its objects: deleted after what they own, deleted before what they own, or left as they are
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub cascade: CascadeArg,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Try the hooks on the server and write nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Leave out the hooks of the deletion
    #[arg(long)]
    pub no_hooks: bool,
    /// Approve the deletion of objects that carry Delete=confirm or Prune=confirm
    #[arg(long)]
    pub confirm: bool,
    /// Take in objects that bear the application's mark where nothing proves them to be its own, and delete them
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
    /// How often to try again after a failure, from the failed wave; negative: without end
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub retry: i64,
    /// Longest time the deletion may take, retries included; then it has failed
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub deadline: Option<Duration>,
    #[command(flatten)]
    pub waiting: WaitingArgs,
    #[command(flatten)]
    pub state: StateArgs,
}

/// What becomes of the objects of an application that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CascadeArg {
    // Each after what it owns.
    #[default]
    Foreground,
    // What they own goes after them.
    Background,
    // They stay.
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

fn delete_help_end() -> String {
    format!(
        "\
PreDelete hooks run first, then the objects go, the last wave first and each wave awaited to be gone, then PostDelete
hooks run.

Examples:
  tidegate delete --app shop --sim
  tidegate delete --app shop --sim --yes
  tidegate delete shop/ --app shop -n shop --context staging --yes --deadline 10m
  tidegate delete --app shop --cascade orphan --yes

{}",
        super::common::CODES
    )
}
