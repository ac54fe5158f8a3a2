//! Changes that trigger a reconciliation.

use serde_json::{Value, json};
use tidegate_application::push_events::{PushEvent, WebhookChanges};
use tidegate_application::webhook_events::{ChangeSubject, RepositoryChange, ScmService};
use tidegate_applicationset::triggers::{
    ReconcileTrigger, is_affected_by_event, is_refresh_requested, trigger_of_application, trigger_of_appset,
};
use tidegate_model::argo::ApplicationSet;

use crate::{FINALIZER, appset, live_application, with_patch};

#[test]
fn changes_of_an_appset() {
    let changed = |patch: Value| -> ApplicationSet {
        let mut value = serde_json::to_value(appset(&json!({}))).unwrap();
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
        (nothing(), nothing(), ReconcileTrigger::Ignore),
        (nothing(), json!({"spec": {"goTemplate": true}}), ReconcileTrigger::Reconcile),
        (nothing(), json!({"metadata": {"labels": {"a": "b"}}}), ReconcileTrigger::Reconcile),
        (nothing(), json!({"metadata": {"finalizers": ["a/b"]}}), ReconcileTrigger::Reconcile),
        // The controller adds its own finalizer, but only other clients remove it.
        (nothing(), json!({"metadata": {"finalizers": [FINALIZER]}}), ReconcileTrigger::Ignore),
        (json!({"metadata": {"finalizers": [FINALIZER]}}), nothing(), ReconcileTrigger::Reconcile),
        (nothing(), json!({"metadata": {"annotations": {"a": "b"}}}), ReconcileTrigger::Reconcile),
        (
            nothing(),
            json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}}),
            ReconcileTrigger::Reconcile,
        ),
        (nothing(), json!({"metadata": {"uid": "u-2"}}), ReconcileTrigger::Reconcile),
        (nothing(), json!({"metadata": {"resourceVersion": "8"}}), ReconcileTrigger::Ignore),
        (nothing(), json!({"metadata": {"labels": {}, "finalizers": []}}), ReconcileTrigger::Ignore),
        (nothing(), json!({"status": {"resourcesCount": 3}}), ReconcileTrigger::Ignore),
        // Requesting a refresh triggers a reconciliation, but removing the request doesn't.
        (nothing(), refresh(), ReconcileTrigger::Reconcile),
        (refresh(), nothing(), ReconcileTrigger::Ignore),
        (
            refreshed(json!({"a": "b"})),
            json!({"metadata": {"annotations": {"a": "b"}}}),
            ReconcileTrigger::Ignore,
        ),
        (refresh(), json!({"metadata": {"annotations": {"a": "b"}}}), ReconcileTrigger::Reconcile),
    ] {
        assert_eq!(
            trigger_of_appset(Some(&changed(before.clone())), Some(&changed(now.clone()))),
            expected,
            "{before} {now}"
        );
    }
    let one = changed(nothing());
    assert_eq!(trigger_of_appset(None, Some(&one)), ReconcileTrigger::Reconcile);
    assert_eq!(trigger_of_appset(Some(&one), None), ReconcileTrigger::Reconcile);
    assert!(is_refresh_requested(&changed(refresh())) && !is_refresh_requested(&one));
}

#[test]
fn changes_of_an_application() {
    let sync =
        |status: &str, revision: &str| json!({"status": {"sync": {"status": status, "revision": revision}}});
    let operation = |phase: &str, at: &str| json!({"status": {"operationState": {"operation": {}, "phase": phase, "startedAt": at}}});
    let (first, second) = ("2026-11-21T09:30:00Z", "2026-11-21T09:31:00Z");
    let nothing = || json!({});
    for (before, now, expected) in [
        (nothing(), nothing(), ReconcileTrigger::Ignore),
        (nothing(), json!({"spec": {"project": "x"}}), ReconcileTrigger::Reconcile),
        (nothing(), json!({"metadata": {"labels": {"a": "b"}}}), ReconcileTrigger::Reconcile),
        (nothing(), json!({"metadata": {"annotations": {"a": "b"}}}), ReconcileTrigger::Reconcile),
        (nothing(), json!({"metadata": {"finalizers": []}}), ReconcileTrigger::Reconcile),
        (nothing(), json!({"metadata": {"ownerReferences": null}}), ReconcileTrigger::Reconcile),
        (nothing(), json!({"metadata": {"resourceVersion": "8"}}), ReconcileTrigger::Ignore),
        (nothing(), json!({"operation": {"sync": {}}}), ReconcileTrigger::Ignore),
        (nothing(), json!({"status": {"sourceType": "Helm"}}), ReconcileTrigger::Ignore),
        (nothing(), sync("Synced", "a"), ReconcileTrigger::Status),
        (sync("Synced", "a"), sync("OutOfSync", "a"), ReconcileTrigger::Status),
        (sync("Synced", "a"), sync("Synced", "b"), ReconcileTrigger::Status),
        (nothing(), json!({"status": {"health": {"status": "Healthy"}}}), ReconcileTrigger::Status),
        (nothing(), operation("Running", first), ReconcileTrigger::Status),
        (operation("Running", first), operation("Succeeded", first), ReconcileTrigger::Status),
        (operation("Running", first), operation("Running", second), ReconcileTrigger::Status),
        (operation("Running", first), nothing(), ReconcileTrigger::Status),
        (nothing(), json!({"status": {"reconciledAt": first}}), ReconcileTrigger::Status),
    ] {
        let one = |patch: &Value| with_patch(&live_application("a", &json!({})), patch);
        assert_eq!(trigger_of_application(Some(&one(&before)), Some(&one(&now))), expected, "{before} {now}");
    }
    let one = live_application("a", &json!({}));
    assert_eq!(trigger_of_application(None, Some(&one)), ReconcileTrigger::Status);
    assert_eq!(trigger_of_application(Some(&one), None), ReconcileTrigger::Reconcile);
}

#[test]
fn push_events() {
    let git =
        |url: &str, revision: &str| json!({"git": {"repoURL": url, "revision": revision, "directories": []}});
    let push = PushEvent::new(["https://git.example/shop.git"]).with_ref("refs/heads/main", true);
    let told = WebhookChanges { pushes: vec![push], changes: Vec::new() };
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
        let mut asking = appset(&json!({}));
        asking.spec.generators = serde_json::from_value(generators.clone()).unwrap();
        assert_eq!(is_affected_by_event(&asking, &told, &|_, _| false), expected, "{generators}");
    }
}

#[test]
fn changes_of_pull_requests_and_repositories() {
    let requests = |generator: Value| json!({"pullRequest": generator});
    let provider = |generator: Value| json!({"scmProvider": generator});
    let github = json!({"owner": "Org", "repo": "shop"});
    let of_github = |change: Value| {
        let mut github = github.clone();
        github.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        requests(json!({"github": github}))
    };
    let within = |generator: Value| {
        let first = json!({"list": {"elements": [{}]}});
        let merge = json!({"merge": {"mergeKeys": ["a"], "generators": [first, generator]}});
        json!({"matrix": {"generators": [first, merge]}})
    };
    let api = "https://example.com/api";
    let opened = |service, address: &str| {
        RepositoryChange::from_address(service, ChangeSubject::PullRequests, address)
    };
    let pushed =
        |service, address: &str| RepositoryChange::from_address(service, ChangeSubject::Repository, address);
    let public = || opened(ScmService::GitHub, "https://github.com/org/shop");
    let merged = || {
        let news = RepositoryChange::from_name(
            ScmService::GitLab,
            ChangeSubject::PullRequests,
            ["org", "team", "shop"],
        );
        news.with_server_of("https://example.com").with_number(Some(7))
    };
    let deep = || pushed(ScmService::GitLab, "https://example.com/org/team/shop");
    let azure = "https://dev.azure.com/org/team/_git/shop";
    let gitlab = |project: &str| requests(json!({"gitlab": {"project": project, "api": api}}));
    let group = |group: &str, deep: bool| {
        provider(json!({"gitlab": {"group": group, "includeSubgroups": deep, "api": api}}))
    };
    let of_azure = |project: &str| {
        provider(
            json!({"azureDevOps": {"organization": "org", "teamProject": project, "accessTokenRef": {"secretName": "a", "key": "b"}}}),
        )
    };
    for (generator, news, expected) in [
        (of_github(json!({})), public(), true),
        (within(of_github(json!({}))), public(), true),
        (of_github(json!({"repo": "other"})), public(), false),
        (of_github(json!({"owner": "other"})), public(), false),
        (of_github(json!({"owner": "{{ .org }}"})), public(), true),
        // An event from a server other than the public one.
        (of_github(json!({})), opened(ScmService::GitHub, "https://example.com/org/shop"), false),
        (of_github(json!({"api": api})), opened(ScmService::GitHub, "https://example.com/org/shop"), true),
        // An event about a different subject.
        (of_github(json!({})), pushed(ScmService::GitHub, "https://github.com/org/shop"), false),
        (of_github(json!({})), opened(ScmService::GitLab, "https://github.com/org/shop"), false),
        (
            requests(json!({"gitea": {"owner": "org", "repo": "shop", "api": api}})),
            opened(ScmService::Gitea, "https://x/org/shop"),
            true,
        ),
        (
            requests(json!({"bitbucket": {"owner": "org", "repo": "shop"}})),
            opened(ScmService::Bitbucket, "https://bitbucket.org/org/shop"),
            true,
        ),
        (
            requests(json!({"bitbucketServer": {"project": "ORG", "repo": "shop", "api": api}})),
            RepositoryChange::from_name(
                ScmService::BitbucketServer,
                ChangeSubject::PullRequests,
                ["org", "shop"],
            ),
            true,
        ),
        (
            requests(json!({"azuredevops": {"organization": "org", "project": "team", "repo": "shop"}})),
            opened(ScmService::AzureDevOps, azure),
            true,
        ),
        (
            requests(json!({"azuredevops": {"organization": "org", "project": "team", "repo": "other"}})),
            opened(ScmService::AzureDevOps, azure),
            false,
        ),
        (gitlab("org/team/shop"), merged(), true),
        (gitlab("7"), merged(), true),
        (gitlab("8"), merged(), false),
        (gitlab("org/shop"), merged(), false),
        // Generators that search repositories by owner.
        (
            provider(json!({"github": {"organization": "org"}})),
            pushed(ScmService::GitHub, "https://github.com/Org/any"),
            true,
        ),
        (
            within(provider(json!({"github": {"organization": "org"}}))),
            pushed(ScmService::GitHub, "https://github.com/org/any"),
            true,
        ),
        (
            provider(json!({"github": {"organization": "org"}})),
            pushed(ScmService::GitHub, "https://github.com/other/any"),
            false,
        ),
        (provider(json!({"github": {"organization": "org"}})), public(), false),
        (
            provider(json!({"gitea": {"owner": "org", "api": api}})),
            pushed(ScmService::Gitea, "https://x/org/any"),
            true,
        ),
        (
            provider(json!({"bitbucketServer": {"project": "ORG", "api": api}})),
            pushed(ScmService::BitbucketServer, "https://x/scm/org/any.git"),
            true,
        ),
        (of_azure("team"), pushed(ScmService::AzureDevOps, azure), true),
        (of_azure("other"), pushed(ScmService::AzureDevOps, azure), false),
        (group("org", true), deep(), true),
        (group("org", false), deep(), false),
        (group("org/team", false), deep(), true),
        (group("other", true), deep(), false),
        (group("12", false), deep(), true),
        (json!({"list": {"elements": []}}), public(), false),
        (json!({"plugin": {"configMapRef": {"name": "a"}}}), public(), true),
    ] {
        let mut asking = appset(&json!({}));
        asking.spec.generators = serde_json::from_value(json!([generator])).unwrap();
        let told = WebhookChanges { pushes: Vec::new(), changes: vec![news.clone()] };
        assert_eq!(is_affected_by_event(&asking, &told, &|_, _| false), expected, "{generator} {news:?}");
        assert!(
            !is_affected_by_event(&asking, &WebhookChanges::default(), &|_, _| false),
            "{generator}: nothing has happened"
        );
    }
}
