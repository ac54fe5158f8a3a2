//! The cluster that is served, and the Secrets that declare it: they give it a name and a project, and no rights.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_kube::{Declaration, Declared};
use tidegate_model::DeployTarget;

use super::{IN_CLUSTER, IN_CLUSTER_SERVER, Meaningless, Meant, Place, Places, several, unusable};

impl Places {
    /// Whether other things are said of the cluster that is served; what of them cannot be used is logged.
    pub(super) fn is_own_different(&self, before: &[Declaration], now: &[Declaration]) -> bool {
        let is_own = |one: &&Declaration| self.is_own(&one.declared.server);
        for one in now.iter().filter(is_own).filter(|one| !before.contains(*one)) {
            if let Some(problem) = &one.problem {
                let secret = one.secret.as_str();
                tracing::warn!(secret, problem, "a Secret for the cluster that is served cannot be used");
            }
        }
        before.iter().filter(is_own).ne(now.iter().filter(is_own))
    }

    /// Finds what of a Secret may not be used here.
    pub(super) fn review(&self, declaration: &mut Declaration) {
        if !self.is_own(&declaration.declared.server) {
            return self.forbid(declaration);
        }
        // Whoever wrote them down wants no other rights to be used.
        if declaration.problem.is_none()
            && let Some(given) = identity(&declaration.declared)
        {
            declaration.problem = Some(format!(
                "its config has {given}, and on the cluster that is served this process acts with its own rights alone; take \
                 that out of the config, or begin `tidegate serve` with such credentials"
            ));
        }
        declaration.declared.exec = None;
    }

    /// The cluster that is served, with what Secrets say of it: no rights, so those that are for less than all of it, or for
    /// somebody else, do not let it be used.
    pub(super) fn served(asked: &str, by: &[&Declaration]) -> Result<Meant, Meaningless> {
        for one in by {
            if let Some(problem) = &one.problem {
                return Err(unusable(asked, one, problem));
            }
        }
        let projects: BTreeSet<&str> = by.iter().map(|one| one.project.as_str()).collect();
        match projects.len() {
            0 | 1 => Ok(Meant::Own(projects.into_iter().collect())),
            _ => Err(several(asked, by)),
        }
    }

    /// Whether Secrets are waited for that may say something of the cluster that is served.
    pub(super) fn awaits_secrets(&self) -> bool {
        let known = self.known();
        if known.is_waited_for {
            known.is_own_awaited.store(true, Ordering::Relaxed);
        }
        known.is_waited_for
    }

    /// The cluster that is served, for a project.
    pub(super) fn own_place(&self, namespace: String, project: String) -> Place {
        let (destination, cluster) = (self.0.destination.clone(), Arc::clone(&self.0.cluster));
        let mut servers = vec![IN_CLUSTER_SERVER.to_owned()];
        servers.extend(self.other_own_server().map(str::to_owned));
        let target =
            DeployTarget { servers, name: IN_CLUSTER.to_owned(), project, namespace: namespace.clone() };
        Place { destination, cluster, namespace, target }
    }
}

/// What of a Secret proves who asks.
fn identity(declared: &Declared) -> Option<&'static str> {
    let Declared { token, username, password, cert_data, exec, .. } = declared;
    let all = [
        ("bearerToken", !token.is_empty()),
        ("username and password", !(username.is_empty() && password.is_empty())),
        ("certData and keyData", !cert_data.is_empty()),
        ("execProviderConfig", exec.is_some()),
    ];
    all.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
}
