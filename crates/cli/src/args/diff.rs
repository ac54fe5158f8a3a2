//! `diff`, and what does not count as a difference.

use std::path::PathBuf;

use clap::Args;

use super::{ClusterArgs, Format, OptionArgs, SourceArgs, StateArgs, TrackingArgs, values};

/// Differences that do not count.
#[derive(Clone, Debug, Default, Args)]
pub struct IgnoreArgs {
    /// File of differences that do not count: a YAML list in the form of Argo CD's spec.ignoreDifferences
    #[arg(long, value_name = "FILE")]
    pub ignore_differences: Option<PathBuf>,
}

/// Shows how the cluster differs from the manifests.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Hooks are not compared, and values of Secrets are not shown. Writes nothing.

Exit codes:
  0  no differences
  1  differences
  2  an error, or bad input or usage

Examples:
  tidegate diff examples/shop --sim
  tidegate diff shop/ --app shop -n shop --sim --ignore-differences ignore.yaml
  tidegate diff shop/ --app shop -o json")]
pub struct DiffArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Name of the application [default: the name of the first folder]
    #[arg(long, value_name = "NAME", value_parser = values::application)]
    pub app: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub options: OptionArgs,
    #[command(flatten)]
    pub tracking: TrackingArgs,
    #[command(flatten)]
    pub ignore: IgnoreArgs,
    /// How the result is printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub state: StateArgs,
}
