//! Which way `app` goes to the Applications: through a service, or to their resources in a cluster.

use std::collections::BTreeSet;

use clap::Args;
use tidegate_application::CONTROL_NAMESPACE;
use tidegate_service::state_dir::shell_word;

use super::cluster::ConnectionArgs;
use super::common::ServiceArgs;

/// Stands for all namespaces.
const EVERY_NAMESPACE: &str = "*";
const HEADING: &str = "Without a service";

/// Which way to the Applications.
#[derive(Clone, Debug, Default, Args)]
pub struct WayArgs {
    #[command(flatten)]
    pub service: ServiceArgs,
    #[command(flatten)]
    pub direct: DirectArgs,
}

/// The Applications of a cluster themselves.
#[derive(Clone, Debug, Default, Args)]
pub struct DirectArgs {
    /// Ask no service: read and write the Applications themselves, as resources of the cluster of the kubeconfig
    #[arg(long, alias = "core", conflicts_with = "server", help_heading = HEADING)]
    pub kube: bool,
    /// Namespace of the Applications, or * for all; may be given several times [default: argocd]
    #[arg(long, value_name = "NS", requires = "kube", help_heading = HEADING)]
    pub app_namespace: Vec<String>,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

impl DirectArgs {
    /// The namespaces of the Applications; empty for all.
    pub fn namespaces(&self) -> BTreeSet<String> {
        if self.app_namespace.iter().any(|one| one == EVERY_NAMESPACE) {
            return BTreeSet::new();
        }
        match self.app_namespace.as_slice() {
            [] => BTreeSet::from([CONTROL_NAMESPACE.to_owned()]),
            named => named.iter().cloned().collect(),
        }
    }

    /// What a suggested command needs to go the same way.
    pub fn hint(&self) -> String {
        let namespaces = self.app_namespace.iter().map(|one| format!(" --app-namespace {}", shell_word(one)));
        format!(" --kube{}{}", self.connection.hint(), namespaces.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_applications_are_those_that_a_service_would_serve() {
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
    fn a_suggested_command_goes_the_same_way() {
        let connection = ConnectionArgs { context: Some("prod".to_owned()), ..ConnectionArgs::default() };
        let app_namespace = vec!["team".to_owned(), "*".to_owned()];
        let args = DirectArgs { kube: true, app_namespace, connection };
        assert_eq!(args.hint(), " --kube --context prod --app-namespace team --app-namespace '*'");
    }
}
