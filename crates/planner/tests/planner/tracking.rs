//! Tracking methods of an application, and changes from one method to another.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use tidegate_model::TrackingMethod::{self, Annotation, AnnotationAndLabel, Label};
use tidegate_model::annotations::{INSTANCE_LABEL, TRACKING_ID};
use tidegate_model::{Action, Object, Severity};

use crate::support::{Case, case, crd, manifest_text, manifest_texts};

const METHODS: [TrackingMethod; 3] = [Annotation, AnnotationAndLabel, Label];

/// Returns the plan's manifests as stored in the cluster after an apply.
fn manifests_after_apply(case: &Case) -> Vec<Object> {
    let mut objects = case.plan().manifests;
    for object in &mut objects {
        let labels = object.pointer("/metadata/labels").and_then(|labels| labels.as_object()).cloned();
        let labels: serde_json::Map<_, _> =
            labels.unwrap_or_default().keys().map(|key| (format!("f:{key}"), json!({}))).collect();
        let annotations = object.pointer("/metadata/annotations").and_then(|all| all.as_object()).cloned();
        let annotations: serde_json::Map<_, _> =
            annotations.unwrap_or_default().keys().map(|key| (format!("f:{key}"), json!({}))).collect();
        let fields = json!({"f:metadata": {"f:labels": labels, "f:annotations": annotations}});
        let entry = json!({"manager": "tidegate", "operation": "Apply", "fieldsV1": fields});
        object.metadata_mut().insert("managedFields".to_owned(), json!([entry]));
    }
    objects
}

fn both() -> String {
    manifest_texts(&[
        ("v1 ConfigMap keep", ""),
        ("v1 ConfigMap drop", ""),
        ("rbac.authorization.k8s.io/v1 ClusterRole drop", ""),
    ])
}

#[test]
fn manifests_are_marked_by_the_method() {
    for (method, id, label) in [
        (Annotation, Some("app:/ConfigMap:shop/a"), None),
        (AnnotationAndLabel, Some("app:/ConfigMap:shop/a"), Some("app")),
        (Label, None, Some("app")),
    ] {
        let yaml = manifest_text("v1 ConfigMap a", "tracking-id=other:/ConfigMap:x/y") + &crd("Widget", "");
        let planned = case(&yaml).tracked_by(method).plan();
        let marks = |kind: &str| {
            let manifest = planned.manifests.iter().find(|manifest| manifest.kind() == kind).unwrap();
            (
                manifest.annotation(TRACKING_ID).map(str::to_owned),
                manifest.label(INSTANCE_LABEL).map(str::to_owned),
            )
        };
        assert_eq!(marks("ConfigMap"), (id.map(str::to_owned), label.map(str::to_owned)), "{method:?}");
        assert_eq!(marks("CustomResourceDefinition"), (None, None), "{method:?}");
    }
}

#[test]
fn a_name_that_cannot_be_a_label_makes_the_plan_invalid() {
    for (method, application, codes) in [
        (Label, "my/shop", &["!untrackable-application"][..]),
        (Label, "my:shop", &["!untrackable-application"]),
        (AnnotationAndLabel, "my/shop", &["!untrackable-application"]),
        (Annotation, "my/shop", &[]),
        (Annotation, "my:shop", &["untrackable-application"]),
    ] {
        let mut case = case(&manifest_text("v1 ConfigMap a", "")).tracked_by(method);
        case.request.application = application.to_owned();
        assert_eq!(case.codes(), codes, "{method:?} {application}");
    }
}

#[test]
fn a_changed_method_keeps_ownership() {
    for before in METHODS {
        for after in METHODS {
            let mut case = case(&manifest_text("v1 ConfigMap keep", "")).tracked_by(after);
            case.live = manifests_after_apply(&crate::support::case(&both()).tracked_by(before));
            let mut stranger = case.live[0].clone();
            stranger.set_name("stranger");
            stranger.metadata_mut().insert("managedFields".to_owned(), json!([]));
            if stranger.annotation(TRACKING_ID).is_some() || after != Label {
                case.live.push(stranger);
            }
            let case = case.with_inventory();
            assert_eq!(
                case.tasks(),
                [
                    "Sync 0: prune ConfigMap shop/drop",
                    "Sync 0: apply ConfigMap shop/keep",
                    "Sync 0: prune ClusterRole drop",
                ],
                "{before:?} to {after:?}"
            );
            let only_out_of_sync = case.flags(&["ApplyOutOfSyncOnly=true"]);
            let written = only_out_of_sync.plan().plan.tasks.iter().any(|task| task.action == Action::Apply);
            assert_eq!(written, before != after, "{before:?} to {after:?}: the new marks are written");
        }
    }
}

#[test]
fn another_label_is_a_new_mark() {
    let mut case = case(&manifest_text("v1 ConfigMap keep", "")).tracked_by(Label);
    case.live = manifests_after_apply(&crate::support::case(&both()).tracked_by(Label));
    case.request.tracking.label = "example.com/app".to_owned();
    assert_eq!(
        case.tasks(),
        ["Sync 0: apply ConfigMap shop/keep"],
        "objects with the old marks are not found"
    );
}

#[test]
fn an_older_hook_is_known_by_its_label() {
    let hook = manifest_text("batch/v1 Job migrate", "hook=PreSync");
    let mut again = case(&hook).tracked_by(Label);
    again.live = manifests_after_apply(&again);
    assert!(again.codes().is_empty());
    again.live[0].set_label(INSTANCE_LABEL, "other");
    assert_eq!(again.codes(), ["!untracked-hook-object"]);
}

#[test]
fn objects_of_another_application_are_noticed_by_their_label() {
    let yaml = manifest_text("v1 ConfigMap a", "");
    let mut theirs = case(&yaml).tracked_by(Label);
    theirs.request.application = "other".to_owned();
    let mut ours = case(&yaml).tracked_by(Label).flags(&["FailOnSharedResource=true"]);
    ours.live = manifests_after_apply(&theirs);
    let warnings = ours.plan().plan.warnings;
    assert_eq!(warnings[0].severity, Severity::Error);
    assert_eq!(
        warnings[0].message,
        "Shared resource found: ConfigMap/a is part of applications app and other"
    );
}

/// Generates objects with all combinations of marks, label owners and owner references.
fn any_live() -> impl Strategy<Value = Vec<Object>> {
    let pick = prop::sample::select::<&str>;
    let one = (
        pick(vec!["v1 ConfigMap shop/", "v1 Secret other/", "v1 Namespace ", "example.com/v1 Widget shop/"]),
        pick(vec!["a", "b", "c", "d", "e"]),
        pick(vec!["", "app:self", "other:self", "app:elsewhere", "nonsense"]),
        pick(vec!["", "app", "other", "app2"]),
        pick(vec!["", "tidegate", "helm", "kube-controller-manager"]),
        any::<bool>(),
        pick(vec!["", "b"]),
    );
    let one = one.prop_map(|(place, name, id, label, writer, owned, installation)| {
        let text = manifest_text(&format!("{place}{name}"), "");
        let mut object = crate::support::targets(&text).remove(0).object;
        let home = if object.namespace().is_empty() { "shop" } else { object.namespace() }.to_owned();
        let id = match id.split_once(':') {
            Some((application, "self")) => {
                format!("{application}:{}/{}:{home}/{name}", object.group(), object.kind())
            }
            Some((application, _)) => format!("{application}:/ConfigMap:shop/original"),
            None => id.to_owned(),
        };
        if !id.is_empty() {
            object.set_annotation(TRACKING_ID, id);
        }
        if !label.is_empty() {
            object.set_label(INSTANCE_LABEL, label);
        }
        if !writer.is_empty() {
            let fields = json!({"f:metadata": {"f:labels": {format!("f:{INSTANCE_LABEL}"): {}}}});
            object
                .metadata_mut()
                .insert("managedFields".to_owned(), json!([{"manager": writer, "fieldsV1": fields}]));
        }
        if owned {
            object.metadata_mut().insert("ownerReferences".to_owned(), json!([{"uid": "x"}]));
        }
        if !installation.is_empty() {
            object.set_annotation("argocd.argoproj.io/installation-id", installation);
        }
        object
    });
    prop::collection::vec(one, 0..12).prop_map(|mut all| {
        let mut seen = BTreeSet::new();
        all.retain(|object| seen.insert(object.key()));
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// With every tracking method, a plan never deletes an object that lacks the application's marks, that
    /// belongs to another application or installation, or that is a copy of another object. A plan writes
    /// only objects in the manifests.
    #[test]
    fn unrelated_objects_are_never_touched(
        live in any_live(),
        method in prop::sample::select(METHODS.to_vec()),
        wanted in prop::sample::subsequence(vec!["a", "b"], 0..=2),
        known in any::<bool>(),
    ) {
        let yaml: String = wanted.iter().map(|name| manifest_text(&format!("v1 ConfigMap {name}"), "")).collect();
        let mut case = case(&yaml).tracked_by(method);
        case.live = live;
        if known {
            case = case.with_inventory();
        }
        let planned = case.plan();
        let mut pruned = BTreeSet::new();
        for task in &planned.plan.tasks {
            let named = task.gvk.kind == "ConfigMap" && wanted.contains(&task.name.as_str());
            if named && task.namespace == "shop" {
                prop_assert!(!task.action.is_prune());
                continue;
            }
            let is_certain = known || task.namespace == "shop";
            let expected = if is_certain { Action::Prune } else { Action::PruneSkipped };
            prop_assert_eq!(task.action, expected, "no manifest contains {}", task.key());
            pruned.insert(task.key());
            let object = case.live.iter().find(|object| object.key() == task.key()).unwrap();
            let id = object.annotation(TRACKING_ID).unwrap_or_default();
            let home = if object.namespace().is_empty() { "shop" } else { object.namespace() };
            let own = format!("app:{}/{}:{home}/{}", object.group(), object.kind(), object.name());
            let by_label = object.label(INSTANCE_LABEL) == Some("app") && id.split(':').count() != 3;
            prop_assert!(id == own || by_label, "{:?} does not belong to the application", object);
            let writer = object.text("/metadata/managedFields/0/manager");
            let provable = match method {
                Label => writer != "kube-controller-manager",
                _ => writer == "tidegate",
            };
            prop_assert!(id == own || provable, "{:?} got its label from another program", object);
            prop_assert!(!object.has_owner());
            prop_assert_eq!(object.annotation("argocd.argoproj.io/installation-id"), None);
        }
        // Objects that certainly belong to the application are deleted.
        for object in &case.live {
            let id = object.annotation(TRACKING_ID).unwrap_or_default();
            let home = if object.namespace().is_empty() { "shop" } else { object.namespace() };
            let own = format!("app:{}/{}:{home}/{}", object.group(), object.kind(), object.name());
            let in_manifests = object.kind() == "ConfigMap" && wanted.contains(&object.name());
            let foreign = object.annotation("argocd.argoproj.io/installation-id").is_some();
            if id == own && !object.has_owner() && !in_manifests && !foreign {
                prop_assert!(pruned.contains(&object.key()), "{} is lost", object.key());
            }
        }
    }
}
