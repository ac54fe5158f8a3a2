//! What does not count as a difference.

use std::path::PathBuf;

use clap::Args;

/// Differences that do not count.
#[derive(Clone, Debug, Default, Args)]
pub struct IgnoreArgs {
    /// File of differences that do not count: a YAML list in the form of Argo CD's spec.ignoreDifferences
    #[arg(long, value_name = "FILE")]
    pub ignore_differences: Option<PathBuf>,
}
