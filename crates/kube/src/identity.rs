//! Identity of a cluster.

use std::sync::Arc;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_model::Gvk;

use crate::call::Call;
use crate::discovery::catalog::Resource;
use crate::paths::Target;
use crate::response::{ApiResponse, CallSubject};

/// Namespace with the UID that identifies the cluster. It is created with the cluster and never deleted.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// Returns the call that reads the identity.
pub(crate) fn identity_call() -> Result<Call, ClusterError> {
    with_identity_target(|target| Call::get(target.path()))
}

/// Parses the identity from the response.
pub(crate) fn parse_identity(answer: &ApiResponse) -> Result<Option<String>, ClusterError> {
    match with_identity_target(|target| answer.decode_object(CallSubject::from(target)))? {
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

fn with_identity_target<T>(read: impl FnOnce(&Target<'_>) -> T) -> Result<T, ClusterError> {
    let gvk = Gvk::new("", "v1", "Namespace");
    let resource = Resource {
        plural: "namespaces".to_owned(),
        namespaced: false,
        listable: true,
        has_status_subresource: true,
    };
    Ok(read(&Target::for_object(&gvk, Arc::new(resource), "", SYSTEM_NAMESPACE)?))
}
