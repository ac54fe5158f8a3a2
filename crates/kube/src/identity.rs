//! Which cluster it is that answers.

use std::sync::Arc;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_model::Gvk;

use crate::KubeCluster;
use crate::answer::{About, Answer};
use crate::discovery::catalog::Resource;
use crate::paths::Target;
use crate::server::Call;

/// Every cluster has this namespace from its first moment to its last, so its UID is as good as one of the cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";

impl KubeCluster {
    /// What tells this cluster from another one at the same URL: the UID of its namespace `kube-system`. `None` where it
    /// may not be read. Asks for nothing else; the kind is served everywhere.
    pub async fn identity(&self) -> Result<Option<String>, ClusterError> {
        answered(&self.http().call_patiently(&question()?).await?)
    }

    /// From now on nothing is asked of another cluster than the one with this [identity](Self::identity): each connection is
    /// asked first who is at its other end. When it is another one, this cluster is closed.
    pub fn is_only(&self, identity: &str) {
        self.http().transport().meant().is_only(identity.to_owned());
    }

    /// From now on calls fail with this reason, as if it could not be reached. Watches that are under way go on.
    pub fn close(&self, reason: String) {
        self.http().transport().meant().close(Some(reason));
    }

    /// From now on it is called again.
    pub fn open(&self) {
        self.http().transport().meant().close(None);
    }

    /// Why it is not called.
    pub fn closed(&self) -> Option<String> {
        self.http().transport().meant().closed()
    }
}

/// The call that asks for it.
pub(crate) fn question() -> Result<Call, ClusterError> {
    with_target(|target| Call::get(target.path()))
}

/// What the answer says.
pub(crate) fn answered(answer: &Answer) -> Result<Option<String>, ClusterError> {
    match with_target(|target| answer.object(About::from(target)))? {
        Ok(namespace) => Ok(Some(namespace.uid().to_owned()).filter(|uid| !uid.is_empty())),
        Err(error)
            if matches!(
                error.kind,
                ErrorKind::Forbidden
                    | ErrorKind::NotFound
                    | ErrorKind::NamespaceMissing
                    | ErrorKind::UnknownKind
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn with_target<T>(look: impl FnOnce(&Target<'_>) -> T) -> Result<T, ClusterError> {
    let gvk = Gvk::new("", "v1", "Namespace");
    let resource =
        Resource { plural: "namespaces".to_owned(), namespaced: false, listable: true, status_apart: true };
    Ok(look(&Target::one(&gvk, Arc::new(resource), "", SYSTEM_NAMESPACE)?))
}
