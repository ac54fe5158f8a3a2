//! Arguments for `replicas`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::app::EndWaitArgs;
use super::common::Format;
use super::values;

/// Lists and stops the services that share an operation log.
#[derive(Clone, Debug, Args)]
pub struct ReplicasArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: ReplicasCommand,
}

/// Subcommands of `replicas`.
#[derive(Clone, Debug, Subcommand)]
pub enum ReplicasCommand {
    /// List the services that share an operation log
    #[command(after_help = "\
Example:
  tidegate replicas list --log postgres://tidegate@db/tidegate --log-password password.txt")]
    List(ListReplicasArgs),
    /// Ask a service to hand over its operations and exit
    ///
    /// The service finishes the requests that it has sent to clusters, hands over, and exits with code 0. A standby
    /// continues the operations from the exact step. The command waits until the service has left the log. If no
    /// other service could take over, the command changes nothing and exits with code 4.
    #[command(after_help = "\
Examples:
  tidegate replicas drain node-1
  tidegate replicas drain 'pid 41 on node-1' --timeout 30s
  tidegate replicas drain 7c0e")]
    Drain(DrainReplicaArgs),
}

/// Location of a shared operation log.
#[derive(Clone, Debug, Args)]
pub struct SharedLogArgs {
    /// URL of the PostgreSQL database that stores the operation log
    #[arg(long, value_name = "URL", env = "TIDEGATE_LOG_URL", hide_env_values = true)]
    pub log: String,
    /// File with the password for --log
    #[arg(long, value_name = "FILE", value_parser = values::path_parser())]
    pub log_password: Option<PathBuf>,
}

/// Arguments for `replicas list`.
#[derive(Clone, Debug, Args)]
pub struct ListReplicasArgs {
    #[command(flatten)]
    pub location: SharedLogArgs,
    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t)]
    pub output: Format,
}

/// Arguments for `replicas drain`.
#[derive(Clone, Debug, Args)]
pub struct DrainReplicaArgs {
    /// Name or host of the service, or the beginning of its ID, from `tidegate replicas list`
    pub name: String,
    #[command(flatten)]
    pub location: SharedLogArgs,
    #[command(flatten)]
    pub waiting: EndWaitArgs,
}
