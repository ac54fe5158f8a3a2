//! The namespaces that an operation writes into: what is put into one goes with it.

use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::{Identity, NamespaceSight};
use tidegate_model::Gvk;

/// How many namespaces one operation looks at; few deploy to more.
const LOOKS_MAX: usize = 64;

/// Namespaces are of this kind.
pub(crate) fn kind() -> Gvk {
    Gvk::new("", "v1", "Namespace")
}

/// What stands in the places of these namespaces, as far as that can be seen: whoever may not see one is not told. One call
/// at a time: whoever asks has one place among the calls under way.
pub async fn look_at(cluster: &dyn Cluster, names: impl IntoIterator<Item = &str>) -> Vec<NamespaceSight> {
    let mut sights = Vec::new();
    for name in names.into_iter().filter(|name| !name.is_empty()).take(LOOKS_MAX) {
        if let Ok(found) = cluster.get(&kind(), "", name).await {
            sights.push(NamespaceSight {
                name: name.to_owned(),
                terminating: found.as_ref().is_some_and(tidegate_model::Object::is_deleting),
                found: found.map(|object| Identity {
                    uid: object.uid().to_owned(),
                    resource_version: object.resource_version().to_owned(),
                }),
            });
        }
    }
    sights
}
