//! Arguments for `appset runs`, `appset show-run` and `appset export-run`.

use clap::Args;

use super::common::{Format, ServiceArgs};
use super::ops::RecordFileArgs;
use super::values;

/// Arguments for `appset runs`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Runs are listed from oldest to newest. Finished runs are listed until they are removed from the \
log; the `--history` and `--summaries` options of `tidegate serve` set the limits. If no service is \
running, the command reads the log directly.

Examples:
  tidegate appset runs fleet
  tidegate appset runs fleet --limit 1 -o json
  tidegate appset runs --server https://tidegate.example.com")]
pub struct RunsArgs {
    /// Name of the ApplicationSet, which may have been deleted [default: all ApplicationSets]
    pub name: Option<String>,
    /// List only the newest N runs [default: all]
    #[arg(long, value_name = "N", value_parser = values::count_parser())]
    pub limit: Option<usize>,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Arguments for `appset show-run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate appset show-run fleet
  tidegate appset show-run 019a1b2c --log
  tidegate appset show-run fleet -o json | jq '.decisions'")]
pub struct ShowRunArgs {
    /// Run ID, a prefix of an ID, or an ApplicationSet's name. A name selects the current run or, if there is
    /// none, the newest run
    pub id: String,
    /// Print all log records of the run instead of the overview
    #[arg(long)]
    pub log: bool,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Arguments for `appset export-run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The file is self-contained, without scripts, links or external images.

Examples:
  tidegate appset export-run fleet -o rollout.html
  tidegate appset export-run 019a1b2c --format json > rollout.json")]
pub struct ExportRunArgs {
    /// Run ID, a prefix of an ID, or an ApplicationSet's name
    pub id: String,
    #[command(flatten)]
    pub file: RecordFileArgs,
    #[command(flatten)]
    pub service: ServiceArgs,
}
