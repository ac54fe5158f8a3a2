//! The managed cluster, and the Secrets that declare it. These Secrets specify a name and a project for the
//! cluster, but no credentials.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_kube::{ClusterConnection, ClusterSecret};
use tidegate_model::DeployTarget;

use super::{
    ClusterLookupError, DestinationCluster, Destinations, IN_CLUSTER_NAME, IN_CLUSTER_SERVER,
    ResolvedDestination, ambiguous_error, unusable_error,
};

impl Destinations {
    /// Returns true if the managed cluster's Secrets have changed. Logs the Secrets that can't be used.
    pub(super) fn has_managed_changed(&self, before: &[ClusterSecret], now: &[ClusterSecret]) -> bool {
        let is_own = |one: &&ClusterSecret| self.is_managed_server(&one.connection.server);
        for one in now.iter().filter(is_own).filter(|one| !before.contains(*one)) {
            if let Some(problem) = &one.problem {
                let secret = one.secret_name.as_str();
                tracing::warn!(secret, problem, "invalid Secret for the local cluster");
            }
        }
        before.iter().filter(is_own).ne(now.iter().filter(is_own))
    }

    /// Marks a Secret as unusable if it contains settings that must not be used.
    pub(super) fn check_settings(&self, declaration: &mut ClusterSecret) {
        if !self.is_managed_server(&declaration.connection.server) {
            return self.reject_exec_plugins(declaration);
        }
        // The Secret requires credentials that differ from those of this process.
        if declaration.problem.is_none()
            && let Some(given) = user_credential(&declaration.connection)
        {
            declaration.problem = Some(format!(
                "config contains {given}, but this process accesses the local cluster only with its own \
                 credentials; remove these settings from the config, or start `tidegate serve` with these \
                 credentials"
            ));
        }
        declaration.connection.exec = None;
    }

    /// Returns the managed cluster with the project that its Secrets specify. Rejects Secrets that can't be
    /// used, for example because they restrict access or contain credentials.
    pub(super) fn managed_for(
        requested: &str,
        by: &[&ClusterSecret],
    ) -> Result<DestinationCluster, ClusterLookupError> {
        for one in by {
            if let Some(problem) = &one.problem {
                return Err(unusable_error(requested, one, problem));
            }
        }
        let projects: BTreeSet<&str> = by.iter().map(|one| one.project.as_str()).collect();
        match projects.len() {
            0 | 1 => Ok(DestinationCluster::Managed(projects.into_iter().collect())),
            _ => Err(ambiguous_error(requested, by)),
        }
    }

    /// Returns true if Secrets that may declare the managed cluster haven't been read yet.
    pub(super) fn awaits_secrets(&self) -> bool {
        let state = self.state();
        if state.are_secrets_awaited {
            state.is_managed_awaited.store(true, Ordering::Relaxed);
        }
        state.are_secrets_awaited
    }

    /// Returns the managed cluster as a destination, restricted to a project.
    pub(super) fn managed_destination(&self, namespace: String, project: String) -> ResolvedDestination {
        let (destination, cluster) = (self.0.destination.clone(), Arc::clone(&self.0.cluster));
        let mut servers = vec![IN_CLUSTER_SERVER.to_owned()];
        servers.extend(self.other_managed_server().map(str::to_owned));
        let target =
            DeployTarget { servers, name: IN_CLUSTER_NAME.to_owned(), project, namespace: namespace.clone() };
        ResolvedDestination { destination, cluster, namespace, target }
    }
}

/// Returns the names of the Secret's settings that contain a user's credentials, if any.
fn user_credential(declared: &ClusterConnection) -> Option<&'static str> {
    let ClusterConnection { token, username, password, cert_data, exec, .. } = declared;
    let all = [
        ("bearerToken", !token.is_empty()),
        ("username and password", !(username.is_empty() && password.is_empty())),
        ("certData and keyData", !cert_data.is_empty()),
        ("execProviderConfig", exec.is_some()),
    ];
    all.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
}
