//! Which namespaces does an operation deploy to, and does the destination namespace have to be made or kept in shape?

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value, json};
use tidegate_model::{Action, Gvk, Object, ObjectKey, Phase, SyncRequest, annotations};

use crate::draft::Draft;
use crate::findings::{Findings, Subject};
use crate::kinds::Kinds;
use crate::manifests::Target;
use crate::pairing::{Live, live_ref};
use crate::targets::scope;

/// The key of a namespace.
pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("", "Namespace", "", name)
}

/// Whether the request asks for the destination namespace to be there. An application that is deleted needs none.
pub(crate) fn is_requested(request: &SyncRequest) -> bool {
    is_destination_made(request) && request.deletion.is_none()
}

/// Whether the destination namespace is made by operations like this one.
fn is_destination_made(request: &SyncRequest) -> bool {
    request.options.has("CreateNamespace=true") && !request.namespace.is_empty()
}

/// The namespaces that an operation deploys to: those that are or hold objects of its manifests, selected or not, and the
/// destination where it is made, or where the manifests name no other.
pub(crate) fn deployed_to<'t>(
    request: &'t SyncRequest,
    targets: &'t [Target],
    kinds: &Kinds<'_>,
) -> BTreeSet<String> {
    let place = |target: &'t Target| match &target.object {
        namespace if namespace.group().is_empty() && namespace.kind() == "Namespace" => namespace.name(),
        object => scope(object, kinds, &request.namespace).namespace,
    };
    let named: HashSet<&str> = targets.iter().map(place).collect();
    let mut namespaces: BTreeSet<String> = named.into_iter().map(str::to_owned).collect();
    if namespaces.iter().all(String::is_empty) || is_destination_made(request) {
        namespaces.insert(request.namespace.clone());
    }
    namespaces.remove("");
    namespaces
}

/// The task that makes the destination namespace, or brings its metadata into shape.
///
/// An existing namespace is left alone unless there is metadata to keep; then the task runs in every sync.
pub(crate) fn draft(request: &SyncRequest, live: &Live<'_>) -> Option<Draft> {
    let key = key(&request.namespace);
    let existing = live.get(&key);
    if !is_requested(request) || (existing.is_some() && !has_metadata(request)) {
        return None;
    }
    let mut draft = Draft::new(Phase::PreSync, 0, Gvk::new("", "v1", "Namespace"), &key);
    draft.task.action = if existing.is_some() { Action::Apply } else { Action::Create };
    draft.task.reason = "automatic namespace".to_owned();
    draft.task.live = existing.as_deref().map(live_ref);
    draft.manifest = manifest(request);
    draft.subject = Subject::requested(key);
    Some(draft)
}

/// Whether the request has metadata for the namespace.
pub(crate) fn has_metadata(request: &SyncRequest) -> bool {
    !request.options.namespace_labels.is_empty() || !request.options.namespace_annotations.is_empty()
}

/// What goes into a namespace that is deleted goes with it. The plan warns; that the operation fails is for its machine
/// to see to.
pub(crate) fn review(drafts: &[Draft], terminating: &BTreeSet<String>, findings: &mut Findings) {
    let goes_in =
        |name: &str| drafts.iter().filter(|d| d.manifest.is_some()).find(|d| d.task.namespace == name);
    // What ends before anything is pruned may be in it.
    let stays_in = |name: &str| goes_in(name).filter(|d| d.task.phase != Phase::PreDelete);
    let pruned =
        |draft: &&Draft| draft.task.action == Action::Prune && draft.task.key() == key(&draft.task.name);
    for draft in drafts.iter().filter(pruned) {
        if let Some(inside) = stays_in(&draft.task.name) {
            let message = format!(
                "it is to be pruned, and objects of this operation go into it, such as {}; the operation will fail before it writes anything: keep the namespace among the manifests, or move them to another one",
                inside.task.key()
            );
            findings.warn("namespace-pruned", &draft.subject, message);
        }
    }
    for name in terminating {
        if let Some(inside) = goes_in(name) {
            let message = format!(
                "it is being deleted, and objects of this operation go into it, such as {}; the operation will fail: sync again when it is gone, or choose another namespace",
                inside.task.key()
            );
            findings.warn("namespace-terminating", &Subject::requested(key(name)), message);
        }
    }
}

/// The namespace as it should be. It carries no tracking id, so it is never pruned.
fn manifest(request: &SyncRequest) -> Option<Object> {
    let texts = |pairs: &[(String, String)]| -> Map<String, Value> {
        pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
    };
    let mut metadata = json!({"name": request.namespace});
    if has_metadata(request) {
        let labels = texts(&request.options.namespace_labels);
        let mut given = texts(&request.options.namespace_annotations);
        // As Argo CD writes it, so that either tool merges with foreign metadata when it takes over.
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
