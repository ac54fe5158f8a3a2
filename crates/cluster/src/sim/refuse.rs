//! Refusals, in the words of a real API server.

use tidegate_model::{Gvk, ObjectKey};

use crate::{ClusterError, ErrorKind};

/// The plural in which URLs and messages name a kind.
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

/// `deployments.apps`, or `configmaps` for core kinds.
pub(crate) fn resource(group: &str, kind: &str) -> String {
    let plural = plural(kind);
    if group.is_empty() { plural } else { format!("{plural}.{group}") }
}

/// `deployment.apps/api`, as kubectl names what it wrote.
pub(crate) fn kubectl_name(key: &ObjectKey) -> String {
    let kind = key.kind.to_lowercase();
    if key.group.is_empty() {
        format!("{kind}/{}", key.name)
    } else {
        format!("{kind}.{}/{}", key.group, key.name)
    }
}

pub(crate) fn not_found(key: &ObjectKey) -> ClusterError {
    let words = format!("{} {:?} not found", resource(&key.group, &key.kind), key.name);
    ClusterError::new(ErrorKind::NotFound, words)
}

pub(crate) fn unknown_kind(gvk: &Gvk) -> ClusterError {
    let words = format!(
        "no matches for kind {:?} in version {:?}: ensure CRDs are installed first",
        gvk.kind,
        gvk.api_version()
    );
    ClusterError::new(ErrorKind::UnknownKind, words)
}

pub(crate) fn namespace_missing(namespace: &str) -> ClusterError {
    ClusterError::new(ErrorKind::NamespaceMissing, format!("namespaces {namespace:?} not found"))
}

pub(crate) fn namespace_terminating(key: &ObjectKey) -> ClusterError {
    let why =
        format!("unable to create new content in namespace {} because it is being terminated", key.namespace);
    ClusterError::new(ErrorKind::NamespaceTerminating, forbidden(key, &why).message)
}

pub(crate) fn forbidden(key: &ObjectKey, why: &str) -> ClusterError {
    let words = format!("{} {:?} is forbidden: {why}", resource(&key.group, &key.kind), key.name);
    ClusterError::new(ErrorKind::Forbidden, words)
}

pub(crate) fn already_exists(key: &ObjectKey) -> ClusterError {
    let words = format!("{} {:?} already exists", resource(&key.group, &key.kind), key.name);
    ClusterError::new(ErrorKind::AlreadyExists, words)
}

/// The same for one that is on its way out.
pub(crate) fn still_exists(key: &ObjectKey) -> ClusterError {
    let error = already_exists(key);
    ClusterError::new(error.kind, format!("object is being deleted: {}", error.message))
}

pub(crate) fn conflict(key: &ObjectKey, why: &str) -> ClusterError {
    let resource = resource(&key.group, &key.kind);
    let words = format!("Operation cannot be fulfilled on {resource} {:?}: {why}", key.name);
    ClusterError::new(ErrorKind::Conflict, words)
}

/// A write of a version that is not the newest.
pub(crate) fn modified(key: &ObjectKey) -> ClusterError {
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    conflict(key, why)
}

/// A deletion of an object that is another one by now.
pub(crate) fn another_uid(key: &ObjectKey, wanted: &str, found: &str) -> ClusterError {
    let might = "have been deleted and then recreated";
    precondition(key, ("UID", might), wanted, found)
}

/// A deletion of a version that is not the newest.
pub(crate) fn another_version(key: &ObjectKey, wanted: &str, found: &str) -> ClusterError {
    precondition(key, ("ResourceVersion", "have been modified"), wanted, found)
}

/// Of deletions the server names the kind, not the resource.
fn precondition(key: &ObjectKey, (field, might): (&str, &str), wanted: &str, found: &str) -> ClusterError {
    let kind = if key.group.is_empty() { key.kind.clone() } else { format!("{}.{}", key.kind, key.group) };
    let words = format!(
        "Operation cannot be fulfilled on {kind} {:?}: the {field} in the precondition ({wanted}) does not match the \
         {field} in record ({found}). The object might {might}",
        key.name
    );
    ClusterError::new(ErrorKind::Conflict, words)
}

/// `Deployment.apps "api" is invalid: spec.selector: Required value`
pub(crate) fn invalid(key: &ObjectKey, why: &str) -> ClusterError {
    let kind = if key.group.is_empty() { key.kind.clone() } else { format!("{}.{}", key.kind, key.group) };
    ClusterError::new(ErrorKind::Invalid, format!("{kind} {:?} is invalid: {why}", key.name))
}

pub(crate) fn bad_request(why: impl Into<String>) -> ClusterError {
    ClusterError::new(ErrorKind::Invalid, why)
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
