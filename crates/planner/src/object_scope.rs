//! Scope and namespace of objects.

use tidegate_model::Object;

use crate::known_kinds::KnownKinds;

/// Scope and namespace of an object.
pub(crate) struct ObjectScope<'o> {
    /// True if the object's kind is namespaced, or `None` if its scope is unknown.
    pub namespaced: Option<bool>,
    /// Namespace (default: the destination namespace). Empty for cluster-scoped kinds.
    pub namespace: &'o str,
}

/// Returns the scope and namespace of an object.
pub(crate) fn object_scope<'o>(
    object: &'o Object,
    kinds: &KnownKinds<'_>,
    destination: &'o str,
) -> ObjectScope<'o> {
    let namespaced = kinds.is_namespaced(object.group(), object.kind());
    let namespace = match object.namespace() {
        _ if namespaced == Some(false) => "",
        "" => destination,
        named => named,
    };
    ObjectScope { namespaced, namespace }
}
