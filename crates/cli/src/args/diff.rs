//! Arguments for `diff`.

use clap::Args;

use super::cluster::ClusterArgs;
use super::common::{Format, StateArgs};
use super::sync::{ApplicationSourceArgs, ComparisonArgs};

/// Shows how the cluster differs from the manifests.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The command does not compare hooks, show Secret values, or write anything.

Exit codes:
  0  no differences
  1  differences
  2  error, including invalid input or usage

Examples:
  tidegate diff examples/shop --sim
  tidegate diff shop/ --app shop -n shop --sim --ignore-differences ignore.yaml
  tidegate diff shop/ --app shop -o json")]
pub struct DiffArgs {
    #[command(flatten)]
    pub application: ApplicationSourceArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
    #[command(flatten)]
    pub state: StateArgs,
}
