//! Which cluster it is that answers.

use std::sync::Arc;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_model::Gvk;

use crate::KubeCluster;
use crate::answer::About;
use crate::discovery::catalog::Resource;
use crate::paths::Target;
use crate::server::Call;

/// Every cluster has this namespace from its first moment to its last, so its UID is as good as one of the cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";

impl KubeCluster {
    /// What tells this cluster from another one at the same URL: the UID of its namespace `kube-system`. `None` where it
    /// may not be read. Asks for nothing else; the kind is served everywhere.
    pub async fn identity(&self) -> Result<Option<String>, ClusterError> {
        let gvk = Gvk::new("", "v1", "Namespace");
        let resource = Resource {
            plural: "namespaces".to_owned(),
            namespaced: false,
            listable: true,
            status_apart: true,
        };
        let target = Target::one(&gvk, Arc::new(resource), "", SYSTEM_NAMESPACE)?;
        let answer = self.http().call_patiently(&Call::get(target.path())).await?;
        match answer.object(About::from(&target)) {
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
}
