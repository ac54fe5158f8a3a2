//! Errors with the same messages as a real API server.

use tidegate_model::{Gvk, ObjectKey};

use crate::{ClusterError, ErrorKind, Refusal};

/// Returns the plural of a kind, as used in URLs and messages.
pub(crate) fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    if lower == "endpoints" {
        lower
    } else if let Some(stem) = lower.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o'])) {
        format!("{stem}ies")
    } else if lower.ends_with(['s', 'x']) || lower.ends_with("ch") {
        format!("{lower}es")
    } else {
        format!("{lower}s")
    }
}

/// Returns a resource such as `deployments.apps`, or `configmaps` for core kinds.
pub(crate) fn resource(group: &str, kind: &str) -> String {
    let plural = plural(kind);
    if group.is_empty() { plural } else { format!("{plural}.{group}") }
}

/// Returns the name of an object in kubectl's format, such as `deployment.apps/api`.
pub(crate) fn kubectl_name(key: &ObjectKey) -> String {
    let kind = key.kind.to_lowercase();
    if key.group.is_empty() {
        format!("{kind}/{}", key.name)
    } else {
        format!("{kind}.{}/{}", key.group, key.name)
    }
}

pub(crate) fn not_found(key: &ObjectKey) -> ClusterError {
    let text = format!("{} {:?} not found", resource(&key.group, &key.kind), key.name);
    ClusterError::new(ErrorKind::NotFound, text)
}

pub(crate) fn unknown_kind(gvk: &Gvk) -> ClusterError {
    let text = format!(
        "no matches for kind {:?} in version {:?}: ensure CRDs are installed first",
        gvk.kind,
        gvk.api_version()
    );
    ClusterError::new(ErrorKind::UnknownKind, text)
}

pub(crate) fn namespace_missing(namespace: &str) -> ClusterError {
    ClusterError::new(ErrorKind::NamespaceMissing, format!("namespaces {namespace:?} not found"))
}

pub(crate) fn namespace_terminating(key: &ObjectKey) -> ClusterError {
    let reason =
        format!("unable to create new content in namespace {} because it is being terminated", key.namespace);
    ClusterError::new(ErrorKind::NamespaceTerminating, forbidden(key, &reason).message)
}

pub(crate) fn forbidden(key: &ObjectKey, reason: &str) -> ClusterError {
    let text = format!("{} {:?} is forbidden: {reason}", resource(&key.group, &key.kind), key.name);
    ClusterError::new(ErrorKind::Forbidden, text)
}

pub(crate) fn already_exists(key: &ObjectKey) -> ClusterError {
    let text = format!("{} {:?} already exists", resource(&key.group, &key.kind), key.name);
    ClusterError::new(ErrorKind::AlreadyExists, text)
}

/// Returns the `AlreadyExists` error for an object that is being deleted.
pub(crate) fn still_exists(key: &ObjectKey) -> ClusterError {
    let error = already_exists(key);
    ClusterError::new(error.kind, format!("object is being deleted: {}", error.message))
}

pub(crate) fn conflict(key: &ObjectKey, reason: &str) -> ClusterError {
    let resource = resource(&key.group, &key.kind);
    let text = format!("Operation cannot be fulfilled on {resource} {:?}: {reason}", key.name);
    ClusterError::new(ErrorKind::Conflict, text)
}

/// Returns the error for a write to an outdated version.
pub(crate) fn modified(key: &ObjectKey) -> ClusterError {
    let reason =
        "the object has been modified; please apply your changes to the latest version and try again";
    conflict(key, reason)
}

/// Returns the error for a deletion with an outdated UID.
pub(crate) fn uid_mismatch(key: &ObjectKey, wanted: &str, found: &str) -> ClusterError {
    let might = "have been deleted and then recreated";
    precondition_failed(key, "UID", might, wanted, found)
}

/// Returns the error for a deletion of an outdated version.
pub(crate) fn version_mismatch(key: &ObjectKey, wanted: &str, found: &str) -> ClusterError {
    precondition_failed(key, "ResourceVersion", "have been modified", wanted, found)
}

/// Returns the error for a failed precondition of a deletion. As on a real server, this error contains the
/// kind instead of the resource.
fn precondition_failed(key: &ObjectKey, field: &str, might: &str, wanted: &str, found: &str) -> ClusterError {
    let kind = if key.group.is_empty() { key.kind.clone() } else { format!("{}.{}", key.kind, key.group) };
    let text = format!(
        "Operation cannot be fulfilled on {kind} {:?}: the {field} in the precondition ({wanted}) does not match the \
         {field} in record ({found}). The object might {might}",
        key.name
    );
    ClusterError::new(ErrorKind::Conflict, text)
}

/// Returns an error such as `Deployment.apps "api" is invalid: spec.selector: Required value`.
pub(crate) fn invalid(key: &ObjectKey, reason: &str) -> ClusterError {
    let kind = if key.group.is_empty() { key.kind.clone() } else { format!("{}.{}", key.kind, key.group) };
    ClusterError::new(ErrorKind::Invalid, format!("{kind} {:?} is invalid: {reason}", key.name))
}

pub(crate) fn bad_request(reason: impl Into<String>) -> ClusterError {
    ClusterError::new(ErrorKind::Invalid, reason)
}

/// Returns the error for list items that server-side apply cannot tell apart.
pub(crate) fn repeated(key: &ObjectKey, gvk: &Gvk, list: &str, item: &str) -> ClusterError {
    let (namespace, name, version, kind) = (&key.namespace, &key.name, gvk.api_version(), &gvk.kind);
    let text = format!(
        "failed to create typed patch object ({namespace}/{name}; {version}, Kind={kind}): {list}: duplicate entries for key {item}"
    );
    ClusterError::new(ErrorKind::Invalid, text).with_refusal(Refusal::DuplicateItems)
}

pub(crate) fn gone(revision: u64, oldest: u64) -> ClusterError {
    ClusterError::new(ErrorKind::Gone, format!("too old resource version: {revision} ({oldest})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_kubernetes() {
        for (kind, expected) in [
            ("Deployment", "deployments"),
            ("Ingress", "ingresses"),
            ("IngressClass", "ingressclasses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Endpoints", "endpoints"),
            ("Gateway", "gateways"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }
}
