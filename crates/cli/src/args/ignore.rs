//! Options for ignoring differences.

use std::path::PathBuf;

use clap::Args;

/// Ignored differences.
#[derive(Clone, Debug, Default, Args)]
pub struct IgnoreArgs {
    /// File with differences to ignore: a YAML list in the same format as Argo CD's spec.ignoreDifferences
    #[arg(long, value_name = "FILE")]
    pub ignore_differences: Option<PathBuf>,
}
