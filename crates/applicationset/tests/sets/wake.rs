//! Which changes are a reason to look at a set again (specification, 2.1).

use serde_json::{Value, json};
use tidegate_application::pushes::Push;
use tidegate_applicationset::wake::{Wake, is_pushed, is_refresh_asked, of_application, of_set};
use tidegate_model::argo::ApplicationSet;

use crate::{FINALIZER, live, set, with};

#[test]
fn of_a_set() {
    let changed = |patch: Value| -> ApplicationSet {
        let mut value = serde_json::to_value(set(&json!({}))).unwrap();
        crate::merge(&mut value, &patch);
        serde_json::from_value(value).unwrap()
    };
    let refresh =
        || json!({"metadata": {"annotations": {"argocd.argoproj.io/application-set-refresh": "true"}}});
    let refreshed = |more: Value| {
        let mut all = refresh();
        crate::merge(&mut all, &json!({"metadata": {"annotations": more}}));
        all
    };
    let nothing = || json!({});
    for (before, now, expected) in [
        (nothing(), nothing(), Wake::Nothing),
        (nothing(), json!({"spec": {"goTemplate": true}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"labels": {"a": "b"}}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"finalizers": ["a/b"]}}), Wake::Reconcile),
        // Our own finalizer comes by our own doing, and goes by that of somebody else.
        (nothing(), json!({"metadata": {"finalizers": [FINALIZER]}}), Wake::Nothing),
        (json!({"metadata": {"finalizers": [FINALIZER]}}), nothing(), Wake::Reconcile),
        (nothing(), json!({"metadata": {"annotations": {"a": "b"}}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"uid": "u-2"}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"resourceVersion": "8"}}), Wake::Nothing),
        (nothing(), json!({"metadata": {"labels": {}, "finalizers": []}}), Wake::Nothing),
        (nothing(), json!({"status": {"resourcesCount": 3}}), Wake::Nothing),
        // What asks for a refresh wakes; that it was taken away does not.
        (nothing(), refresh(), Wake::Reconcile),
        (refresh(), nothing(), Wake::Nothing),
        (refreshed(json!({"a": "b"})), json!({"metadata": {"annotations": {"a": "b"}}}), Wake::Nothing),
        (refresh(), json!({"metadata": {"annotations": {"a": "b"}}}), Wake::Reconcile),
    ] {
        assert_eq!(
            of_set(Some(&changed(before.clone())), Some(&changed(now.clone()))),
            expected,
            "{before} {now}"
        );
    }
    let one = changed(nothing());
    assert_eq!(of_set(None, Some(&one)), Wake::Reconcile);
    assert_eq!(of_set(Some(&one), None), Wake::Reconcile);
    assert!(is_refresh_asked(&changed(refresh())) && !is_refresh_asked(&one));
}

#[test]
fn of_an_application() {
    let sync =
        |status: &str, revision: &str| json!({"status": {"sync": {"status": status, "revision": revision}}});
    let operation = |phase: &str, at: &str| json!({"status": {"operationState": {"operation": {}, "phase": phase, "startedAt": at}}});
    let (first, second) = ("2026-11-21T09:30:00Z", "2026-11-21T09:31:00Z");
    let nothing = || json!({});
    for (before, now, expected) in [
        (nothing(), nothing(), Wake::Nothing),
        (nothing(), json!({"spec": {"project": "x"}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"labels": {"a": "b"}}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"annotations": {"a": "b"}}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"finalizers": []}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"ownerReferences": null}}), Wake::Reconcile),
        (nothing(), json!({"metadata": {"resourceVersion": "8"}}), Wake::Nothing),
        (nothing(), json!({"operation": {"sync": {}}}), Wake::Nothing),
        (nothing(), json!({"status": {"sourceType": "Helm"}}), Wake::Nothing),
        (nothing(), sync("Synced", "a"), Wake::Status),
        (sync("Synced", "a"), sync("OutOfSync", "a"), Wake::Status),
        (sync("Synced", "a"), sync("Synced", "b"), Wake::Status),
        (nothing(), json!({"status": {"health": {"status": "Healthy"}}}), Wake::Status),
        (nothing(), operation("Running", first), Wake::Status),
        (operation("Running", first), operation("Succeeded", first), Wake::Status),
        (operation("Running", first), operation("Running", second), Wake::Status),
        (operation("Running", first), nothing(), Wake::Status),
        (nothing(), json!({"status": {"reconciledAt": first}}), Wake::Status),
    ] {
        let one = |patch: &Value| with(&live("a", &json!({})), patch);
        assert_eq!(of_application(Some(&one(&before)), Some(&one(&now))), expected, "{before} {now}");
    }
    let one = live("a", &json!({}));
    assert_eq!(of_application(None, Some(&one)), Wake::Status);
    assert_eq!(of_application(Some(&one), None), Wake::Reconcile);
}

#[test]
fn of_a_push() {
    let git =
        |url: &str, revision: &str| json!({"git": {"repoURL": url, "revision": revision, "directories": []}});
    let push = Push::to(["https://git.example/shop.git"]).of("refs/heads/main", true);
    let shop = "https://git.example/shop";
    for (generators, expected) in [
        (json!([git(shop, "HEAD")]), true),
        (json!([git(shop, "main")]), true),
        (json!([git(shop, "next")]), false),
        (json!([git("https://git.example/other", "HEAD")]), false),
        (json!([{"list": {"elements": []}}]), false),
        (json!([{"list": {"elements": []}}, git(shop, "main")]), true),
        (json!([{"matrix": {"generators": [{"clusters": {}}, git(shop, "main")]}}]), true),
        (json!([{"matrix": {"generators": [{"clusters": {}}, git("{{url}}", "{{revision}}")]}}]), true),
        (
            json!([{"merge": {"mergeKeys": ["a"], "generators": [git("https://git.example/other", "main")]}}]),
            false,
        ),
    ] {
        let mut asking = set(&json!({}));
        asking.spec.generators = serde_json::from_value(generators.clone()).unwrap();
        assert_eq!(is_pushed(&asking, &push, &|_, _| false), expected, "{generators}");
    }
}
