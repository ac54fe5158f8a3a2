//! Options that select how `app` accesses Applications: through a service, or as resources in a cluster.

use std::collections::BTreeSet;

use clap::Args;
use tidegate_application::control_namespace;
use tidegate_state::shell_words::quote_shell_word;

use super::cluster::ConnectionArgs;
use super::common::ServiceArgs;

/// Value for all namespaces.
const ALL_NAMESPACES: &str = "*";
const HEADING: &str = "Direct access";

/// Access to the Applications.
#[derive(Clone, Debug, Default, Args)]
pub struct TransportArgs {
    #[command(flatten)]
    pub service: ServiceArgs,
    #[command(flatten)]
    pub direct: DirectArgs,
}

/// Direct access to the Applications of a cluster.
#[derive(Clone, Debug, Default, Args)]
pub struct DirectArgs {
    /// Access the Application resources in the kubeconfig's cluster directly, without a service
    #[arg(long, alias = "core", conflicts_with = "server", help_heading = HEADING)]
    pub kube: bool,
    /// Namespace of the Applications, or * for all namespaces (repeatable) [default: the value of
    /// TIDEGATE_CONTROL_NAMESPACE, or argocd if it is not set]
    #[arg(long, value_name = "NS", requires = "kube", help_heading = HEADING)]
    pub app_namespace: Vec<String>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

impl DirectArgs {
    /// Returns the namespaces of the Applications. An empty set means all namespaces.
    pub fn namespaces(&self) -> BTreeSet<String> {
        if self.app_namespace.iter().any(|one| one == ALL_NAMESPACES) {
            return BTreeSet::new();
        }
        match self.app_namespace.as_slice() {
            [] => BTreeSet::from([control_namespace().to_owned()]),
            named => named.iter().cloned().collect(),
        }
    }

    /// Returns the options that select the same access in a suggested command.
    pub fn command_options(&self) -> String {
        let namespaces =
            self.app_namespace.iter().map(|one| format!(" --app-namespace {}", quote_shell_word(one)));
        format!(" --kube{}{}", self.connection.command_options(), namespaces.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_applications_are_those_that_a_service_would_manage() {
        for (given, expected) in [
            (&[][..], &["argocd"][..]),
            (&["team"], &["team"]),
            (&["b", "a", "b"], &["a", "b"]),
            (&["*"], &[]),
            (&["a", "*"], &[]),
        ] {
            let app_namespace = given.iter().map(|one| (*one).to_owned()).collect();
            let args = DirectArgs { app_namespace, ..DirectArgs::default() };
            assert_eq!(
                args.namespaces().iter().map(String::as_str).collect::<Vec<_>>(),
                expected,
                "{given:?}"
            );
        }
    }

    #[test]
    fn a_suggested_command_uses_the_same_transport() {
        let connection = ConnectionArgs { context: Some("prod".to_owned()), ..ConnectionArgs::default() };
        let app_namespace = vec!["team".to_owned(), "*".to_owned()];
        let args = DirectArgs { kube: true, app_namespace, connection };
        assert_eq!(args.command_options(), " --kube --context prod --app-namespace team --app-namespace '*'");
    }
}
