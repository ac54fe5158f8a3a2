//! Which cluster a command works on, and as whom. Flattened into every command that needs a cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidegate_service::clusters::Connection;
use tidegate_service::state_dir::shell_word;

use super::values;

/// Which cluster: that of the kubeconfig, unless the simulated one is asked for.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    /// Work on the simulated cluster of the state directory
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "impersonate_user", "impersonate_groups"])]
    pub sim: bool,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// The way to a real cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct ConnectionArgs {
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config; in a pod its service account]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub context: Option<String>,
    /// Act as this user
    #[arg(long = "as", value_name = "USER", help_heading = HEADING)]
    pub impersonate_user: Option<String>,
    /// Act as a member of this group; repeat it for more
    #[arg(long = "as-group", value_name = "GROUP", requires = "impersonate_user", help_heading = HEADING)]
    pub impersonate_groups: Vec<String>,
    /// Longest time of one request, watches apart [default: 36s]
    #[arg(long, value_name = "D", value_parser = values::duration, help_heading = HEADING)]
    pub request_timeout: Option<Duration>,
}

impl ClusterArgs {
    /// The way to the cluster that is meant; none to the simulated one.
    pub fn connection(&self) -> Option<Connection> {
        (!self.sim).then(|| self.connection.to_connection())
    }

    /// What a suggested command needs to work on the same cluster, as the same user: ` --sim`, ` --context NAME`, or nothing.
    pub fn hint(&self) -> String {
        if self.sim {
            return " --sim".to_owned();
        }
        self.connection.hint()
    }
}

impl ConnectionArgs {
    /// As the service takes it.
    pub fn to_connection(&self) -> Connection {
        Connection {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            impersonate_user: self.impersonate_user.clone(),
            impersonate_groups: self.impersonate_groups.clone(),
            request_timeout: self.request_timeout,
        }
    }

    /// What a suggested command needs to go the same way, as the same user.
    pub fn hint(&self) -> String {
        let ConnectionArgs { kubeconfig, context, impersonate_user, impersonate_groups, .. } = self;
        let file = kubeconfig.as_ref().map(|file| file.to_string_lossy().into_owned());
        let given = [("--kubeconfig", file.as_ref()), ("--context", context.as_ref())]
            .into_iter()
            .chain([("--as", impersonate_user.as_ref())])
            .chain(impersonate_groups.iter().map(|group| ("--as-group", Some(group))));
        given.filter_map(|(name, value)| Some(format!(" {name} {}", shell_word(value?)))).collect()
    }
}

const HEADING: &str = "Cluster";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggested_command_reaches_the_same_cluster_as_the_same_user() {
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
            assert_eq!(ClusterArgs { sim, connection }.hint(), hint);
        }
    }
}
