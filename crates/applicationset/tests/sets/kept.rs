//! What of an Application stays, whatever is generated (specification, 3.3, 5.1, 5.2).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_applicationset::changes::{Left, reconcile};
use tidegate_applicationset::policy::Options;
use tidegate_model::argo::Application;

use crate::{FINALIZER, Here, MARK, all, changes, generated, live, set, with, words};

fn annotations(value: &Value) -> Value {
    json!({"metadata": {"annotations": value}})
}

/// The annotations, apart from the one that says whose it is.
fn without_mark(application: &Application) -> BTreeMap<String, String> {
    let mut annotations = application.metadata.annotations.clone();
    assert_eq!(annotations.remove(MARK).as_deref(), Some("fleet"));
    annotations
}

#[test]
fn annotations_and_labels() {
    let built_in = json!({
        "notified.notifications.argoproj.io": "{}", "argocd.argoproj.io/refresh": "normal",
        "argocd.argoproj.io/hydrate": "normal", "argocd.argoproj.io/deletion-approved": "2026-11-21T09:30:00Z",
    });
    let fields = json!({"preservedFields": {"annotations": ["mine"], "labels": ["team"]}});
    let options = Options {
        preserved_annotations: vec!["ours".to_owned()],
        preserved_labels: vec!["unit".to_owned()],
        ..Options::default()
    };
    let labels = |value: Value| json!({"metadata": {"labels": value}});
    for (there, wanted, expected) in [
        // Those of everybody.
        (annotations(&built_in), json!({}), ""),
        // Those of the set, and of the service.
        (annotations(&json!({"mine": "1", "ours": "2"})), json!({}), ""),
        (labels(json!({"team": "1", "unit": "2"})), json!({}), ""),
        // The value that is there counts.
        (annotations(&json!({"mine": "1"})), annotations(&json!({"mine": "2"})), ""),
        // Any others are the template's.
        (annotations(&json!({"team": "1"})), json!({}), "~a: {}"),
        (
            annotations(&json!({"mine": "1", "x": "1"})),
            annotations(&json!({"y": "2"})),
            "~a: {\"mine\":\"1\",\"y\":\"2\"}",
        ),
        (labels(json!({"mine": "1"})), json!({}), "~a: {}"),
        (json!({}), annotations(&json!({"mine": "2"})), "~a: {\"mine\":\"2\"}"),
    ] {
        let wanted = all(vec![with(&generated("a"), &wanted)]);
        let done = reconcile(&set(&fields), Ok(&wanted), &[live("a", &there)], &Here, &options);
        let said: Vec<String> =
            done.update.iter().map(|one| format!("~a: {}", json!(without_mark(one)))).collect();
        assert_eq!(said.concat(), expected, "{there}");
    }
}

#[test]
fn finalizers_are_the_templates_but_for_those_of_hooks() {
    let (pre, post) =
        ("pre-delete-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io/cleanup");
    let background = "resources-finalizer.argocd.argoproj.io/background";
    for (there, wanted, expected) in [
        (json!([FINALIZER]), json!([FINALIZER]), json!([FINALIZER])),
        (json!([]), json!([FINALIZER]), json!([FINALIZER])),
        // preserveResourcesOnDeletion works by leaving an Application without.
        (json!([FINALIZER]), json!([]), json!([])),
        (json!([FINALIZER, pre, post]), json!([FINALIZER]), json!([FINALIZER, pre, post])),
        (json!([pre]), json!([FINALIZER, pre]), json!([FINALIZER, pre])),
        (json!([FINALIZER, "example.com/x"]), json!([background]), json!([background])),
        (json!([post]), json!([]), json!([post])),
    ] {
        let wanted = all(vec![with(&generated("a"), &json!({"metadata": {"finalizers": wanted}}))]);
        let there = live("a", &json!({"metadata": {"finalizers": there}}));
        let done = changes(&set(&json!({})), &wanted, std::slice::from_ref(&there));
        let now = done.update.first().unwrap_or(&there);
        assert_eq!(json!(now.metadata.finalizers), expected, "{:?}", there.metadata.finalizers);
    }
}

#[test]
fn fields_that_others_may_change() {
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
        // For one Application only.
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
        // Something else changes, and the field stays.
        (
            pointers(json!(["/spec/source/targetRevision"])),
            revision("v1"),
            json!({"spec": {"project": "shop"}}),
            Some(json!({"spec": {"project": "shop", "source": {"targetRevision": "v1"}}})),
        ),
        // Also inside of a list of which something else changes.
        (jq(json!([select])), parameters("live", "1"), parameters("made", "1"), None),
        (
            jq(json!([select])),
            parameters("live", "1"),
            parameters("made", "2"),
            Some(parameters("live", "2")),
        ),
        // However long the list was, and whatever its order.
        (
            jq(json!([r#".spec.source.helm.parameters[] | select(.name == "b")"#])),
            json!({"spec": {"source": {"helm": {"parameters": [{"name": "b", "value": "live"}]}}}}),
            parameters("1", "made"),
            Some(parameters("1", "live")),
        ),
        // One that is not there stays away.
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
        // An Application stays the one it is, and its set answers for it.
        (
            jq(json!([".metadata", ".kind", ".operation"])),
            json!({"metadata": {"labels": {"team": "x"}}}),
            json!({}),
            Some(json!({"metadata": {"labels": null}})),
        ),
    ] {
        let spec = json!({"ignoreApplicationDifferences": rules});
        let wanted = all(vec![with(&generated("a"), &wanted)]);
        let there = live("a", &there);
        let done = changes(&set(&spec), &wanted, std::slice::from_ref(&there));
        let expected: Vec<_> = expected.iter().map(|patch| with(&there, patch)).collect();
        assert_eq!(done.update, expected, "{rules}");
    }
}

#[test]
fn a_rule_that_means_nothing_loses_nothing() {
    let there = [live("a", &json!({"spec": {"project": "shop"}})), live("old", &json!({}))];
    let wanted = all(vec![generated("a"), generated("new")]);
    for rules in [json!([{"jqPathExpressions": [".spec | del(.x)"]}]), json!([{"jsonPointers": ["spec"]}])] {
        let spec = json!({"ignoreApplicationDifferences": rules});
        let done = changes(&set(&spec), &wanted, &there);
        assert_eq!(words(&done), "+new -old", "{rules}");
        assert_eq!(done.left["a"], Left::Waits);
        let said = done.failure().unwrap().message;
        assert!(said.contains("ignoreApplicationDifferences: entry 1"), "{said}");
    }
    let empty = json!({"ignoreApplicationDifferences": [{"name": "a"}]});
    assert_eq!(words(&changes(&set(&empty), &wanted, &there)), "+new ~a -old", "it keeps nothing");
}
