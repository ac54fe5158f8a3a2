//! Preserved fields of Applications.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_applicationset::changes::{UnchangedReason, reconcile};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_model::argo::Application;

use crate::{
    APPSET_ANNOTATION, FINALIZER, OneCluster, appset, changes, describe_changes, generated_application,
    generated_output, live_application, with_patch,
};

fn annotations(value: &Value) -> Value {
    json!({"metadata": {"annotations": value}})
}

/// Returns the annotations without the owner annotation.
fn without_appset_annotation(application: &Application) -> BTreeMap<String, String> {
    let mut annotations = application.metadata.annotations.clone();
    assert_eq!(annotations.remove(APPSET_ANNOTATION).as_deref(), Some("fleet"));
    annotations
}

#[test]
fn annotations_and_labels() {
    let built_in = json!({
        "notified.notifications.argoproj.io": "{}", "argocd.argoproj.io/refresh": "normal",
        "argocd.argoproj.io/hydrate": "normal", "argocd.argoproj.io/deletion-approved": "2026-11-21T09:30:00Z",
    });
    let fields = json!({"preservedFields": {"annotations": ["mine"], "labels": ["team"]}});
    let options = AppSetRuleOptions {
        preserved_annotations: vec!["ours".to_owned()],
        preserved_labels: vec!["unit".to_owned()],
        ..AppSetRuleOptions::default()
    };
    let labels = |value: Value| json!({"metadata": {"labels": value}});
    for (there, wanted, expected) in [
        // Annotations that are always preserved.
        (annotations(&built_in), json!({}), ""),
        // Annotations that the ApplicationSet and the service preserve.
        (annotations(&json!({"mine": "1", "ours": "2"})), json!({}), ""),
        (labels(json!({"team": "1", "unit": "2"})), json!({}), ""),
        // The live value is preserved.
        (annotations(&json!({"mine": "1"})), annotations(&json!({"mine": "2"})), ""),
        // The template controls all other annotations.
        (annotations(&json!({"team": "1"})), json!({}), "~a: {}"),
        (
            annotations(&json!({"mine": "1", "x": "1"})),
            annotations(&json!({"y": "2"})),
            "~a: {\"mine\":\"1\",\"y\":\"2\"}",
        ),
        (labels(json!({"mine": "1"})), json!({}), "~a: {}"),
        (json!({}), annotations(&json!({"mine": "2"})), "~a: {\"mine\":\"2\"}"),
    ] {
        let wanted = generated_output(vec![with_patch(&generated_application("a"), &wanted)]);
        let done =
            reconcile(&appset(&fields), Ok(&wanted), &[live_application("a", &there)], &OneCluster, &options);
        let said: Vec<String> =
            done.update.iter().map(|one| format!("~a: {}", json!(without_appset_annotation(one)))).collect();
        assert_eq!(said.concat(), expected, "{there}");
    }
}

#[test]
fn finalizers_follow_the_template_except_hook_finalizers() {
    let (pre, post) =
        ("pre-delete-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io/cleanup");
    let background = "resources-finalizer.argocd.argoproj.io/background";
    for (there, wanted, expected) in [
        (json!([FINALIZER]), json!([FINALIZER]), json!([FINALIZER])),
        (json!([]), json!([FINALIZER]), json!([FINALIZER])),
        // `preserveResourcesOnDeletion` works by omitting the finalizer.
        (json!([FINALIZER]), json!([]), json!([])),
        (json!([FINALIZER, pre, post]), json!([FINALIZER]), json!([FINALIZER, pre, post])),
        (json!([pre]), json!([FINALIZER, pre]), json!([FINALIZER, pre])),
        (json!([FINALIZER, "example.com/x"]), json!([background]), json!([background])),
        (json!([post]), json!([]), json!([post])),
    ] {
        let wanted = generated_output(vec![with_patch(
            &generated_application("a"),
            &json!({"metadata": {"finalizers": wanted}}),
        )]);
        let there = live_application("a", &json!({"metadata": {"finalizers": there}}));
        let done = changes(&appset(&json!({})), &wanted, std::slice::from_ref(&there));
        let now = done.update.first().unwrap_or(&there);
        assert_eq!(json!(now.metadata.finalizers), expected, "{:?}", there.metadata.finalizers);
    }
}

#[test]
fn ignored_fields_of_live_applications() {
    let pointers = |pointers: Value| json!([{"jsonPointers": pointers}]);
    let jq = |expressions: Value| json!([{"jqPathExpressions": expressions}]);
    let revision = |revision: &str| json!({"spec": {"source": {"targetRevision": revision}}});
    let parameters = |a: &str, b: &str| {
        let parameters = json!([{"name": "a", "value": a}, {"name": "b", "value": b}]);
        json!({"spec": {"source": {"helm": {"parameters": parameters}}}})
    };
    let select = r#".spec.source.helm.parameters[] | select(.name == "a") | .value"#;
    for (rules, there, wanted, expected) in [
        (json!([]), revision("v1"), revision("main"), Some(revision("main"))),
        (pointers(json!(["/spec/source/targetRevision"])), revision("v1"), revision("main"), None),
        (jq(json!([".spec.source.targetRevision"])), revision("v1"), revision("main"), None),
        // The rule applies to only one of the Applications.
        (
            json!([{"name": "a", "jsonPointers": ["/spec/source/targetRevision"]}]),
            revision("v1"),
            revision("main"),
            None,
        ),
        (
            json!([{"name": "b", "jsonPointers": ["/spec/source/targetRevision"]}]),
            revision("v1"),
            revision("main"),
            Some(revision("main")),
        ),
        // Another field changes, and the ignored field is kept.
        (
            pointers(json!(["/spec/source/targetRevision"])),
            revision("v1"),
            json!({"spec": {"project": "shop"}}),
            Some(json!({"spec": {"project": "shop", "source": {"targetRevision": "v1"}}})),
        ),
        // The item is in a list with other changes.
        (jq(json!([select])), parameters("live", "1"), parameters("made", "1"), None),
        (
            jq(json!([select])),
            parameters("live", "1"),
            parameters("made", "2"),
            Some(parameters("live", "2")),
        ),
        // The list has a different length and order.
        (
            jq(json!([r#".spec.source.helm.parameters[] | select(.name == "b")"#])),
            json!({"spec": {"source": {"helm": {"parameters": [{"name": "b", "value": "live"}]}}}}),
            parameters("1", "made"),
            Some(parameters("1", "live")),
        ),
        // If the field is absent, it stays absent.
        (
            pointers(json!(["/spec/syncPolicy/automated"])),
            json!({}),
            json!({"spec": {"syncPolicy": {"automated": {"prune": true}}}}),
            None,
        ),
        (
            pointers(json!(["/spec/syncPolicy"])),
            json!({"spec": {"syncPolicy": {"automated": {"prune": true}}}}),
            json!({}),
            None,
        ),
        (
            pointers(json!(["/metadata/labels/team"])),
            json!({"metadata": {"labels": {"team": "x"}}}),
            json!({}),
            None,
        ),
        // An Application's identity and owner can't be ignored.
        (
            jq(json!([".metadata", ".kind", ".operation"])),
            json!({"metadata": {"labels": {"team": "x"}}}),
            json!({}),
            Some(json!({"metadata": {"labels": null}})),
        ),
    ] {
        let spec = json!({"ignoreApplicationDifferences": rules});
        let wanted = generated_output(vec![with_patch(&generated_application("a"), &wanted)]);
        let there = live_application("a", &there);
        let done = changes(&appset(&spec), &wanted, std::slice::from_ref(&there));
        let expected: Vec<_> = expected.iter().map(|patch| with_patch(&there, patch)).collect();
        assert_eq!(done.update, expected, "{rules}");
    }
}

#[test]
fn an_invalid_ignore_rule_changes_nothing() {
    let there =
        [live_application("a", &json!({"spec": {"project": "shop"}})), live_application("old", &json!({}))];
    let wanted = generated_output(vec![generated_application("a"), generated_application("new")]);
    for rules in [json!([{"jqPathExpressions": [".spec | del(.x)"]}]), json!([{"jsonPointers": ["spec"]}])] {
        let spec = json!({"ignoreApplicationDifferences": rules});
        let done = changes(&appset(&spec), &wanted, &there);
        assert_eq!(describe_changes(&done), "+new -old", "{rules}");
        assert_eq!(done.unchanged["a"], UnchangedReason::Blocked);
        let said = done.failure().unwrap().message;
        assert!(said.contains("ignoreApplicationDifferences: entry 1"), "{said}");
    }
    let empty = json!({"ignoreApplicationDifferences": [{"name": "a"}]});
    assert_eq!(
        describe_changes(&changes(&appset(&empty), &wanted, &there)),
        "+new ~a -old",
        "a rule without fields has no effect"
    );
}
