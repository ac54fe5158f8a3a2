//! Namespaces that an operation deploys to, and the task that creates or updates the destination namespace.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value, json};
use tidegate_model::{Action, Gvk, Object, ObjectKey, Phase, SyncRequest, annotations};

use crate::draft::TaskDraft;
use crate::findings::{FindingSubject, Findings};
use crate::known_kinds::KnownKinds;
use crate::manifests::Target;
use crate::object_scope::object_scope;
use crate::pairing::{LiveIndex, live_ref};

/// Returns the key of a namespace.
pub(crate) fn namespace_key(name: &str) -> ObjectKey {
    ObjectKey::new("", "Namespace", "", name)
}

/// Returns true if the request needs the destination namespace. Deletions don't need it.
pub(crate) fn needs_namespace(request: &SyncRequest) -> bool {
    creates_destination(request) && request.deletion.is_none()
}

/// Returns true if the request creates the destination namespace.
fn creates_destination(request: &SyncRequest) -> bool {
    request.options.has("CreateNamespace=true") && !request.namespace.is_empty()
}

/// Returns the namespaces that an operation deploys to: those in its manifests, and those of its objects,
/// selected or not. Includes the destination namespace if the request creates it or the manifests use no
/// other namespace.
pub(crate) fn deployed_namespaces<'t>(
    request: &'t SyncRequest,
    targets: &'t [Target],
    kinds: &KnownKinds<'_>,
) -> BTreeSet<String> {
    let place = |target: &'t Target| match &target.object {
        namespace if namespace.group().is_empty() && namespace.kind() == "Namespace" => namespace.name(),
        object => object_scope(object, kinds, &request.namespace).namespace,
    };
    let named: HashSet<&str> = targets.iter().map(place).collect();
    let mut namespaces: BTreeSet<String> = named.into_iter().map(str::to_owned).collect();
    if namespaces.iter().all(String::is_empty) || creates_destination(request) {
        namespaces.insert(request.namespace.clone());
    }
    namespaces.remove("");
    namespaces
}

/// Returns the task that creates the destination namespace or updates its metadata.
///
/// An existing namespace is left alone unless the request has metadata for it. With metadata, the task runs
/// in every sync.
pub(crate) fn draft_namespace(request: &SyncRequest, live: &LiveIndex<'_>) -> Option<TaskDraft> {
    let key = namespace_key(&request.namespace);
    let existing = live.get(&key);
    if !needs_namespace(request) || (existing.is_some() && !has_namespace_metadata(request)) {
        return None;
    }
    let mut draft = TaskDraft::new(Phase::PreSync, 0, Gvk::new("", "v1", "Namespace"), &key);
    draft.task.action = if existing.is_some() { Action::Apply } else { Action::Create };
    draft.task.reason = "required by CreateNamespace=true".to_owned();
    draft.task.live = existing.as_deref().map(live_ref);
    draft.manifest = namespace_manifest(request);
    draft.subject = FindingSubject::for_requested(key);
    Some(draft)
}

/// Returns true if the request has metadata for the namespace.
pub(crate) fn has_namespace_metadata(request: &SyncRequest) -> bool {
    !request.options.namespace_labels.is_empty() || !request.options.namespace_annotations.is_empty()
}

/// Warns about objects that would be pruned or deleted with their namespace. The operation's state machine
/// decides whether that fails the operation.
pub(crate) fn review_namespaces(
    drafts: &[TaskDraft],
    terminating: &BTreeSet<String>,
    findings: &mut Findings,
) {
    let goes_in =
        |name: &str| drafts.iter().filter(|d| d.manifest.is_some()).find(|d| d.task.namespace == name);
    // PreDelete hooks may be in the namespace: they are removed before it is deleted.
    let stays_in = |name: &str| goes_in(name).filter(|d| d.task.phase != Phase::PreDelete);
    let pruned = |draft: &&TaskDraft| {
        draft.task.action == Action::Prune && draft.task.key() == namespace_key(&draft.task.name)
    };
    for draft in drafts.iter().filter(pruned) {
        if let Some(inside) = stays_in(&draft.task.name) {
            let message = format!(
                "the namespace would be pruned, but this operation applies objects in it, such as {}; the operation will fail before it writes anything; keep the namespace in the manifests, or move the objects to another namespace",
                inside.task.key()
            );
            findings.warn("namespace-pruned", &draft.subject, message);
        }
    }
    for name in terminating {
        if let Some(inside) = goes_in(name) {
            let message = format!(
                "the namespace is being deleted, but this operation applies objects in it, such as {}; the operation will fail; sync again once the deletion is complete, or use another namespace",
                inside.task.key()
            );
            findings.warn(
                "namespace-terminating",
                &FindingSubject::for_requested(namespace_key(name)),
                message,
            );
        }
    }
}

/// Returns the manifest of the requested namespace. It has no tracking ID, so the namespace is never pruned.
fn namespace_manifest(request: &SyncRequest) -> Option<Object> {
    let texts = |pairs: &[(String, String)]| -> Map<String, Value> {
        pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
    };
    let mut metadata = json!({"name": request.namespace});
    if has_namespace_metadata(request) {
        let labels = texts(&request.options.namespace_labels);
        let mut given = texts(&request.options.namespace_annotations);
        // Argo CD sets the same option, so either tool merges its metadata with the existing metadata after a
        // takeover.
        given.insert(annotations::SYNC_OPTIONS.to_owned(), Value::from("ServerSideApply=true"));
        if let Some(metadata) = metadata.as_object_mut() {
            if !labels.is_empty() {
                metadata.insert("labels".to_owned(), Value::Object(labels));
            }
            metadata.insert("annotations".to_owned(), Value::Object(given));
        }
    }
    Object::try_from(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).ok()
}
