//! Namespaces that an operation writes to. Deleting a namespace deletes its objects.

use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::{NamespaceObservation, ObjectIdentity};
use tidegate_model::Gvk;

/// Maximum number of namespaces that an operation observes. Few operations deploy to more.
const NAMESPACES_MAX: usize = 64;

/// Returns the kind `Namespace`.
pub(crate) fn kind() -> Gvk {
    Gvk::new("", "v1", "Namespace")
}

/// Observes these namespaces if the user may read them. Makes one call at a time, because the caller holds
/// only one permit.
pub async fn observe_namespaces(
    cluster: &dyn Cluster,
    names: impl IntoIterator<Item = &str>,
) -> Vec<NamespaceObservation> {
    let mut observations = Vec::new();
    for name in names.into_iter().filter(|name| !name.is_empty()).take(NAMESPACES_MAX) {
        if let Ok(found) = cluster.get(&kind(), "", name).await {
            observations.push(NamespaceObservation {
                name: name.to_owned(),
                is_terminating: found.as_ref().is_some_and(tidegate_model::Object::is_deleting),
                identity: found.map(|object| ObjectIdentity {
                    uid: object.uid().to_owned(),
                    resource_version: object.resource_version().to_owned(),
                }),
            });
        }
    }
    observations
}
