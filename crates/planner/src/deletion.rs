//! What happens to the objects of an application that is deleted, and in which wave?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_model::argo::CONTROL_NAMESPACE;
use tidegate_model::{Action, Cascade, Object, ObjectKey, Phase, SyncRequest, annotations};

use crate::domain::{Decision, Domain, draft_of};
use crate::draft::Draft;
use crate::findings::Findings;
use crate::hooks::{Role, role_in_deletion};
use crate::kinds::{is_application, is_crd};
use crate::manifests::Target;
use crate::options::{self, DeleteOption};
use crate::requests::requests;

/// How many of the manifests are hooks of the application's deletion.
pub fn hooks_among(targets: &[Target]) -> usize {
    targets.iter().filter(|target| role_in_deletion(&target.object).runs()).count()
}

/// The phases of the application's deletion for which there are hooks among the manifests.
pub fn hook_phases_among(targets: &[Target]) -> BTreeSet<Phase> {
    let roles = targets.iter().map(|target| role_in_deletion(&target.object));
    let phases = roles.flat_map(|role| match role {
        Role::Hook(phases) => phases,
        _ => Vec::new(),
    });
    phases.collect()
}

/// The tasks of all objects of the application, those of earlier syncs' hooks too, in the waves of their own annotations.
pub(crate) fn drafts(domain: Domain<'_>, extraneous: &[Arc<Object>], cascade: Cascade) -> Vec<Draft> {
    let decide = |request: &SyncRequest, live: &Object| decide(request, live, cascade);
    let mut drafts: Vec<Draft> = extraneous
        .iter()
        .map(|live| {
            let mut draft = draft_of(domain, live, decide);
            // What is surprising was said when it was applied.
            draft.wave_timeout = requests(live, false, &mut Vec::new()).wave_timeout;
            draft
        })
        .collect();
    outlive_their_content(&mut drafts, &domain.request.namespace);
    drafts
}

/// A namespace is made before the first object in it, whatever its wave, and goes after the last. What is of the cluster
/// scope counts as living in the destination namespace, as it does in a sync.
fn outlive_their_content(drafts: &mut [Draft], destination: &str) {
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
            draft.task.reason.push_str("; moved behind the last object in it");
        }
    }
}

/// What is to stay and cannot, because its namespace goes.
pub(crate) fn review(drafts: &[Draft], findings: &mut Findings) {
    let goes =
        drafts.iter().filter(|draft| draft.task.action == Action::Prune && draft.task.gvk.is_namespace());
    for namespace in goes {
        let stays = |draft: &&Draft| {
            draft.task.namespace == namespace.task.name && draft.task.action == Action::PruneSkipped
        };
        if let Some(kept) = drafts.iter().find(stays) {
            let message = format!(
                "it is deleted with the application, and with it what is to stay, such as {}; keep the namespace too, with the sync option Delete=false",
                kept.task.key()
            );
            findings.warn("kept-object-in-deleted-namespace", &namespace.subject, message);
        }
    }
}

fn decide(request: &SyncRequest, live: &Object, cascade: Cascade) -> Decision {
    if let Some(reason) = reason_to_stay(request, live, cascade) {
        return (Action::PruneSkipped, false, reason);
    }
    let asks = options::delete(live, &request.options) == DeleteOption::Confirm
        || options::prune(live, &request.options) == options::PruneOption::Confirm;
    if asks && !request.options.prune_confirmed {
        (Action::Prune, true, "deleted with the application; waits for confirmation")
    } else if live.is_deleting() {
        (Action::Prune, false, "deleted with the application; already being deleted")
    } else {
        (Action::Prune, false, "deleted with the application")
    }
}

/// Why an object outlives its application; `None` when it goes with it.
pub(crate) fn reason_to_stay(request: &SyncRequest, live: &Object, cascade: Cascade) -> Option<&'static str> {
    if !cascade.deletes() {
        Some("ignored (objects stay)")
    } else if is_itself(request, &live.key()) {
        Some("ignored (it is the application itself)")
    } else if is_crd(live.group(), live.kind()) {
        Some("ignored (definitions stay)")
    } else if options::delete(live, &request.options) == DeleteOption::Refused {
        Some("ignored (no delete)")
    } else if live.annotation(annotations::HELM_RESOURCE_POLICY).is_some_and(|policy| policy.trim() == "keep")
    {
        Some("ignored (helm.sh/resource-policy: keep)")
    } else {
        None
    }
}

/// Whether an object is the resource that the application is written down in, as an application of applications has it. One
/// of the control plane goes by its plain name, and those of its name in other namespaces are others.
fn is_itself(request: &SyncRequest, key: &ObjectKey) -> bool {
    let is_named = match key.namespace.as_str() {
        CONTROL_NAMESPACE => key.name == request.application,
        namespace => format!("{namespace}_{}", key.name) == request.application,
    };
    is_application(&key.group, &key.kind) && is_named
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
    fn what_goes_and_what_stays() {
        const CONFIG: (&str, &str) = ("v1", "ConfigMap");
        let sync = |value: &str| json!({"argocd.argoproj.io/sync-options": value});
        let (goes, asks) =
            ("deleted with the application", "deleted with the application; waits for confirmation");
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
            (("apiextensions.k8s.io/v1", "CustomResourceDefinition"), json!({}), &[], "ignored (definitions stay)"),
        ];
        for (kind, annotations, flags, expected) in table {
            let live = object(kind, annotations.clone());
            let (action, confirm, reason) = decide(&request(flags), &live, Cascade::Foreground);
            assert_eq!(reason, expected, "{kind:?} {annotations} {flags:?}");
            assert_eq!((action == Action::Prune, confirm), (!reason.starts_with("ignored"), reason == asks));
            let (action, _, reason) = decide(&request(flags), &live, Cascade::Orphan);
            assert_eq!((action, reason), (Action::PruneSkipped, "ignored (objects stay)"));
        }
        let mut confirmed = request(&[]);
        confirmed.options.prune_confirmed = true;
        let live = object(CONFIG, sync("Delete=confirm"));
        assert_eq!(decide(&confirmed, &live, Cascade::Background), (Action::Prune, false, goes));
    }

    #[test]
    fn an_application_does_not_delete_itself_and_spares_no_other_of_its_name() {
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
            let kept = reason_to_stay(&request, &live, Cascade::Foreground);
            assert_eq!(kept.is_some(), is_itself, "{instance} {namespace}/{name}");
        }
    }

    #[test]
    fn what_cannot_stay_is_named() {
        let draft = |kind: &str, namespace: &str, name: &str, action| {
            let key = ObjectKey::new("", kind, namespace, name);
            let mut draft = Draft::new(Phase::Sync, 0, Gvk::new("", "v1", kind), &key);
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
            review(&drafts, &mut findings);
            let warnings = findings.into_warnings();
            assert_eq!(warnings.iter().any(|one| one.message.contains("shop/kept")), warned, "{warnings:?}");
        }
    }

    #[test]
    fn a_namespace_goes_after_what_is_in_it() {
        let draft = |kind: &str, namespace: &str, name: &str, wave| {
            let key = ObjectKey::new("", kind, namespace, name);
            Draft::new(Phase::Sync, wave, Gvk::new("", "v1", kind), &key)
        };
        let mut drafts = vec![
            draft("Namespace", "", "shop", 5),
            draft("Namespace", "", "early", -3),
            draft("Namespace", "", "empty", 7),
            draft("ConfigMap", "shop", "a", 3),
            draft("ConfigMap", "shop", "b", 1),
            draft("ConfigMap", "early", "c", 0),
        ];
        outlive_their_content(&mut drafts, "shop");
        let waves: Vec<i64> = drafts.iter().map(|draft| draft.task.wave).collect();
        assert_eq!(waves, [1, -3, 7, 3, 1, 0]);
    }
}
