//! Deletion of an application: the actions and waves of its objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_model::argo::instance_name;
use tidegate_model::{Action, Cascade, Object, ObjectKey, Phase, SyncRequest, annotations};

use crate::draft::TaskDraft;
use crate::findings::Findings;
use crate::hooks::{SyncRole, deletion_role};
use crate::known_kinds::{is_application, is_crd};
use crate::manifests::Target;
use crate::object_settings::object_settings;
use crate::ownership::{Decision, OwnershipScope, draft_owned};
use crate::sync_options::{self, DeleteOption};

/// Counts the deletion hooks in the manifests.
pub fn count_deletion_hooks(targets: &[Target]) -> usize {
    targets.iter().filter(|target| deletion_role(&target.object).runs_as_hook()).count()
}

/// Returns the deletion phases with hooks in the manifests.
pub fn deletion_hook_phases(targets: &[Target]) -> BTreeSet<Phase> {
    let roles = targets.iter().map(|target| deletion_role(&target.object));
    let phases = roles.flat_map(|role| match role {
        SyncRole::Hook(phases) => phases,
        _ => Vec::new(),
    });
    phases.collect()
}

/// Returns the deletion tasks for all of the application's objects, including those left by earlier hooks.
/// Each object goes into the wave given by its own annotations.
pub(crate) fn draft_deletions(
    domain: OwnershipScope<'_>,
    extraneous: &[Arc<Object>],
    cascade: Cascade,
) -> Vec<TaskDraft> {
    let decide = |request: &SyncRequest, live: &Object| decide_deletion(request, live, cascade);
    let mut drafts: Vec<TaskDraft> = extraneous
        .iter()
        .map(|live| {
            let mut draft = draft_owned(domain, live, decide);
            // Problems with these settings were already reported when the object was applied.
            draft.wave_timeout = object_settings(live, false, &mut Vec::new()).wave_timeout;
            draft
        })
        .collect();
    delay_namespaces(&mut drafts, &domain.request.namespace);
    drafts
}

/// Moves namespaces so that they outlive their objects. A sync creates a namespace before the first object in
/// it, whatever the namespace's own wave; a deletion therefore deletes it after the last one. As in a sync,
/// cluster-scoped objects count as members of the destination namespace.
fn delay_namespaces(drafts: &mut [TaskDraft], destination: &str) {
    let mut first: BTreeMap<String, i64> = BTreeMap::new();
    for draft in drafts.iter().filter(|draft| !draft.task.gvk.is_namespace()) {
        let namespace = match draft.task.namespace.as_str() {
            "" => destination,
            namespace => namespace,
        };
        let wave = first.entry(namespace.to_owned()).or_insert(draft.task.wave);
        *wave = draft.task.wave.min(*wave);
    }
    for draft in drafts.iter_mut().filter(|draft| draft.task.gvk.is_namespace()) {
        if let Some(earliest) = first.get(&draft.task.name).filter(|earliest| **earliest < draft.task.wave) {
            draft.task.wave = *earliest;
            draft.task.reason.push_str("; moved after the last object in the namespace");
        }
    }
}

/// Reports objects that should be kept but can't be, because their namespace is deleted.
pub(crate) fn review_retained(drafts: &[TaskDraft], findings: &mut Findings) {
    let goes =
        drafts.iter().filter(|draft| draft.task.action == Action::Prune && draft.task.gvk.is_namespace());
    for namespace in goes {
        let stays = |draft: &&TaskDraft| {
            draft.task.namespace == namespace.task.name && draft.task.action == Action::PruneSkipped
        };
        if let Some(kept) = drafts.iter().find(stays) {
            let message = format!(
                "the namespace will be deleted with the application, including objects that should be kept, such as {}; to keep them, set the sync option Delete=false on the namespace too",
                kept.task.key()
            );
            findings.warn("kept-object-in-deleted-namespace", &namespace.subject, message);
        }
    }
}

fn decide_deletion(request: &SyncRequest, live: &Object, cascade: Cascade) -> Decision {
    if let Some(reason) = retention_reason(request, live, cascade) {
        return (Action::PruneSkipped, false, reason);
    }
    let asks = sync_options::delete_option(live, &request.options) == DeleteOption::Confirm
        || sync_options::prune_option(live, &request.options) == sync_options::PruneOption::Confirm;
    if asks && !request.options.prune_confirmed {
        (Action::Prune, true, "deleted with the application; waiting for confirmation")
    } else if live.is_deleting() {
        (Action::Prune, false, "deleted with the application; already being deleted")
    } else {
        (Action::Prune, false, "deleted with the application")
    }
}

/// Returns the reason an object survives the deletion of its application, or `None` if it is deleted too.
pub(crate) fn retention_reason(
    request: &SyncRequest,
    live: &Object,
    cascade: Cascade,
) -> Option<&'static str> {
    if !cascade.deletes_objects() {
        Some("ignored (objects are kept)")
    } else if is_own_application(request, &live.key()) {
        Some("ignored (the application itself)")
    } else if is_crd(live.group(), live.kind()) {
        Some("ignored (definitions are kept)")
    } else if sync_options::delete_option(live, &request.options) == DeleteOption::Denied {
        Some("ignored (no delete)")
    } else if live.annotation(annotations::HELM_RESOURCE_POLICY).is_some_and(|policy| policy.trim() == "keep")
    {
        Some("ignored (helm.sh/resource-policy: keep)")
    } else {
        None
    }
}

/// Returns true if an object is the application's own resource, as in an app of apps. Applications in the
/// control plane's namespace use their plain name; the same name in another namespace is a different
/// application.
fn is_own_application(request: &SyncRequest, key: &ObjectKey) -> bool {
    is_application(&key.group, &key.kind) && instance_name(&key.namespace, &key.name) == request.application
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidegate_model::{Destination, Gvk, Phase};

    use super::*;

    fn object(kind: (&str, &str), annotations: Value) -> Object {
        let metadata = json!({"name": "shop", "namespace": "shop", "annotations": annotations});
        Object::try_from(json!({"apiVersion": kind.0, "kind": kind.1, "metadata": metadata})).unwrap()
    }

    fn request(flags: &[&str]) -> SyncRequest {
        let mut request = SyncRequest::new("shop", "shop", Destination::Simulated);
        request.options.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        request
    }

    #[test]
    fn deleted_and_retained_objects() {
        const CONFIG: (&str, &str) = ("v1", "ConfigMap");
        let sync = |value: &str| json!({"argocd.argoproj.io/sync-options": value});
        let (goes, asks) =
            ("deleted with the application", "deleted with the application; waiting for confirmation");
        #[rustfmt::skip]
        let table = [
            (CONFIG, json!({}), &[][..], goes),
            (CONFIG, sync("Delete=false"), &[], "ignored (no delete)"),
            (CONFIG, sync("Prune=false"), &[], goes),
            (CONFIG, sync("Replace=true, Delete=false"), &[], "ignored (no delete)"),
            (CONFIG, json!({}), &["Delete=false"], "ignored (no delete)"),
            (CONFIG, sync("Delete=true"), &["Delete=false"], goes),
            (CONFIG, sync("Delete=confirm"), &[], asks),
            (CONFIG, sync("Prune=confirm"), &[], asks),
            (CONFIG, json!({}), &["Delete=confirm"], asks),
            (CONFIG, json!({}), &["Prune=confirm"], asks),
            (CONFIG, json!({"helm.sh/resource-policy": "keep"}), &[], "ignored (helm.sh/resource-policy: keep)"),
            (CONFIG, json!({"helm.sh/resource-policy": "other"}), &[], goes),
            (CONFIG, json!({"argocd.argoproj.io/hook": "PreSync"}), &[], goes),
            (CONFIG, json!({"argocd.argoproj.io/hook": "Skip"}), &[], goes),
            (("argoproj.io/v1alpha1", "Application"), json!({}), &[], goes),
            (("apiextensions.k8s.io/v1", "CustomResourceDefinition"), json!({}), &[], "ignored (definitions are kept)"),
        ];
        for (kind, annotations, flags, expected) in table {
            let live = object(kind, annotations.clone());
            let (action, confirm, reason) = decide_deletion(&request(flags), &live, Cascade::Foreground);
            assert_eq!(reason, expected, "{kind:?} {annotations} {flags:?}");
            assert_eq!((action == Action::Prune, confirm), (!reason.starts_with("ignored"), reason == asks));
            let (action, _, reason) = decide_deletion(&request(flags), &live, Cascade::Orphan);
            assert_eq!((action, reason), (Action::PruneSkipped, "ignored (objects are kept)"));
        }
        let mut confirmed = request(&[]);
        confirmed.options.prune_confirmed = true;
        let live = object(CONFIG, sync("Delete=confirm"));
        assert_eq!(decide_deletion(&confirmed, &live, Cascade::Background), (Action::Prune, false, goes));
    }

    #[test]
    fn an_application_does_not_delete_itself_but_others_of_its_name() {
        for (instance, namespace, name, is_itself) in [
            ("root", "argocd", "root", true),
            ("root", "tenant", "root", false),
            ("tenant_root", "tenant", "root", true),
            ("tenant_root", "argocd", "root", false),
            ("tenant_root", "other", "root", false),
            ("root", "argocd", "other", false),
        ] {
            let live = Object::try_from(json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
                "metadata": {"name": name, "namespace": namespace},
            }))
            .unwrap();
            let request = SyncRequest::new(instance, "shop", Destination::Simulated);
            let kept = retention_reason(&request, &live, Cascade::Foreground);
            assert_eq!(kept.is_some(), is_itself, "{instance} {namespace}/{name}");
        }
    }

    #[test]
    fn objects_that_cannot_be_retained_are_reported() {
        let draft = |kind: &str, namespace: &str, name: &str, action| {
            let key = ObjectKey::new("", kind, namespace, name);
            let mut draft = TaskDraft::new(Phase::Sync, 0, Gvk::new("", "v1", kind), &key);
            draft.task.action = action;
            draft
        };
        for (place, warned) in [("shop", true), ("other", false)] {
            let mut findings = Findings::default();
            let drafts = [
                draft("Namespace", "", "shop", Action::Prune),
                draft("ConfigMap", "shop", "goes", Action::Prune),
                draft("ConfigMap", place, "kept", Action::PruneSkipped),
            ];
            review_retained(&drafts, &mut findings);
            let warnings = findings.into_warnings();
            assert_eq!(warnings.iter().any(|one| one.message.contains("shop/kept")), warned, "{warnings:?}");
        }
    }

    #[test]
    fn a_namespace_is_deleted_after_its_objects() {
        let draft = |kind: &str, namespace: &str, name: &str, wave| {
            let key = ObjectKey::new("", kind, namespace, name);
            TaskDraft::new(Phase::Sync, wave, Gvk::new("", "v1", kind), &key)
        };
        let mut drafts = vec![
            draft("Namespace", "", "shop", 5),
            draft("Namespace", "", "early", -3),
            draft("Namespace", "", "empty", 7),
            draft("ConfigMap", "shop", "a", 3),
            draft("ConfigMap", "shop", "b", 1),
            draft("ConfigMap", "early", "c", 0),
        ];
        delay_namespaces(&mut drafts, "shop");
        let waves: Vec<i64> = drafts.iter().map(|draft| draft.task.wave).collect();
        assert_eq!(waves, [1, -3, 7, 3, 1, 0]);
    }
}
