//! Options that select a command's cluster and user. Flattened into every command that needs a cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidegate_state::clusters::Connection;
use tidegate_state::shell_words::quote_shell_word;

use super::values;

/// Cluster to use: the kubeconfig's cluster, or the simulated cluster with --sim.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    /// Use the simulated cluster in the state directory
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "impersonate_user", "impersonate_groups"])]
    pub sim: bool,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// Connection to a real cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct ConnectionArgs {
    /// Path to the kubeconfig [default: KUBECONFIG, or ~/.kube/config; in a pod, the pod's service account]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig context [default: the current context]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub context: Option<String>,
    /// User to impersonate
    #[arg(long = "as", value_name = "USER", help_heading = HEADING)]
    pub impersonate_user: Option<String>,
    /// Group to impersonate (repeatable)
    #[arg(long = "as-group", value_name = "GROUP", requires = "impersonate_user", help_heading = HEADING)]
    pub impersonate_groups: Vec<String>,
    /// Timeout for each request to the cluster, except watches [default: 36s]
    #[arg(long, value_name = "D", value_parser = values::parse_duration_arg, help_heading = HEADING)]
    pub request_timeout: Option<Duration>,
}

impl ClusterArgs {
    /// Returns the connection to the selected cluster, or `None` for the simulated cluster.
    pub fn connection(&self) -> Option<Connection> {
        (!self.sim).then(|| self.connection.to_connection())
    }

    /// Returns the options that select the same cluster and user in a suggested command: ` --sim`, ` --context
    /// NAME`, or nothing.
    pub fn command_options(&self) -> String {
        if self.sim {
            return " --sim".to_owned();
        }
        self.connection.command_options()
    }
}

impl ConnectionArgs {
    /// Returns the connection for the service.
    pub fn to_connection(&self) -> Connection {
        Connection {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            impersonate_user: self.impersonate_user.clone(),
            impersonate_groups: self.impersonate_groups.clone(),
            request_timeout: self.request_timeout,
        }
    }

    /// Returns the options that select the same connection and user in a suggested command.
    pub fn command_options(&self) -> String {
        let ConnectionArgs { kubeconfig, context, impersonate_user, impersonate_groups, .. } = self;
        let file = kubeconfig.as_ref().map(|file| file.to_string_lossy().into_owned());
        let given = [("--kubeconfig", file.as_ref()), ("--context", context.as_ref())]
            .into_iter()
            .chain([("--as", impersonate_user.as_ref())])
            .chain(impersonate_groups.iter().map(|group| ("--as-group", Some(group))));
        given.filter_map(|(name, value)| Some(format!(" {name} {}", quote_shell_word(value?)))).collect()
    }
}

const HEADING: &str = "Cluster";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggested_command_uses_the_same_cluster_and_user() {
        let text = |text: &str| Some(text.to_owned());
        let connection = ConnectionArgs {
            kubeconfig: Some("a file".into()),
            context: text("prod"),
            impersonate_user: text("system:ann"),
            impersonate_groups: vec!["ops".to_owned(), "on call".to_owned()],
            ..ConnectionArgs::default()
        };
        for (sim, connection, hint) in [
            (true, ConnectionArgs::default(), " --sim"),
            (false, ConnectionArgs::default(), ""),
            (false, ConnectionArgs { context: text("prod"), ..ConnectionArgs::default() }, " --context prod"),
            (
                false,
                connection,
                " --kubeconfig 'a file' --context prod --as system:ann --as-group ops --as-group 'on call'",
            ),
        ] {
            assert_eq!(ClusterArgs { sim, connection }.command_options(), hint);
        }
    }
}
