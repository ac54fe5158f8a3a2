//! `appset runs`, `appset show-run` and `appset export-run`.

use std::path::PathBuf;

use clap::Args;

use super::common::{Format, ServiceArgs};
use super::ops::{RecordFormat, record_format};
use super::values;

/// Which rollouts and deletions are listed.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Oldest first. What is not under way any more is listed as long as the log keeps it: `--history` and
`--summaries` of `tidegate serve` say how long. Without a process at work the log itself is read.

Examples:
  tidegate appset runs fleet
  tidegate appset runs fleet --limit 1 -o json
  tidegate appset runs --server https://tidegate.example.com")]
pub struct RunsArgs {
    /// Name of the ApplicationSet, which may be gone [default: all]
    pub name: Option<String>,
    /// Only so many of the newest
    #[arg(long, value_name = "N", value_parser = values::count())]
    pub limit: Option<usize>,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Which rollout or deletion is shown.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tidegate appset show-run fleet
  tidegate appset show-run 019a1b2c --log
  tidegate appset show-run fleet -o json | jq '.decisions'")]
pub struct ShowRunArgs {
    /// Its id, the beginning of one, or an ApplicationSet's name for what is under way of it, or else the newest
    pub id: String,
    /// Print everything that was recorded about it instead
    #[arg(long)]
    pub log: bool,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Which rollout or deletion is written, and where to.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The file needs nothing else, and asks nobody for anything: no scripts, no links, no pictures from elsewhere.

Examples:
  tidegate appset export-run fleet -o rollout.html
  tidegate appset export-run 019a1b2c --format json > rollout.json")]
pub struct ExportRunArgs {
    /// Its id, the beginning of one, or an ApplicationSet's name
    pub id: String,
    /// For programs, or for people [default: what the name of FILE ends in, or json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<RecordFormat>,
    /// File that is written; one that is there is replaced; `-` is standard output [default: -]
    #[arg(short, long, value_name = "FILE", value_parser = values::path())]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub service: ServiceArgs,
}

impl ExportRunArgs {
    /// How it is written.
    pub fn format(&self) -> RecordFormat {
        record_format(self.format, self.output.as_deref())
    }
}
