//! Which changes are a reason to look at a set again (specification, 2.1).

use serde_json::{Value, json};
use tidegate_application::hosted::{About, News, Service};
use tidegate_application::pushes::{Push, Told};
use tidegate_applicationset::wake::{Wake, is_refresh_asked, is_told, of_application, of_set};
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
    let told = Told { pushes: vec![push], news: Vec::new() };
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
        assert_eq!(is_told(&asking, &told, &|_, _| false), expected, "{generators}");
    }
}

#[test]
fn of_pull_requests_and_repositories() {
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
    let opened = |service, address: &str| News::at(service, About::PullRequests, address);
    let pushed = |service, address: &str| News::at(service, About::Repository, address);
    let public = || opened(Service::GitHub, "https://github.com/org/shop");
    let merged = || {
        let news = News::named(Service::GitLab, About::PullRequests, ["org", "team", "shop"]);
        news.on_server_of("https://example.com").with_number(Some(7))
    };
    let deep = || pushed(Service::GitLab, "https://example.com/org/team/shop");
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
        // Another server than the public one.
        (of_github(json!({})), opened(Service::GitHub, "https://example.com/org/shop"), false),
        (of_github(json!({"api": api})), opened(Service::GitHub, "https://example.com/org/shop"), true),
        // What is about something else.
        (of_github(json!({})), pushed(Service::GitHub, "https://github.com/org/shop"), false),
        (of_github(json!({})), opened(Service::GitLab, "https://github.com/org/shop"), false),
        (
            requests(json!({"gitea": {"owner": "org", "repo": "shop", "api": api}})),
            opened(Service::Gitea, "https://x/org/shop"),
            true,
        ),
        (
            requests(json!({"bitbucket": {"owner": "org", "repo": "shop"}})),
            opened(Service::Bitbucket, "https://bitbucket.org/org/shop"),
            true,
        ),
        (
            requests(json!({"bitbucketServer": {"project": "ORG", "repo": "shop", "api": api}})),
            News::named(Service::BitbucketServer, About::PullRequests, ["org", "shop"]),
            true,
        ),
        (
            requests(json!({"azuredevops": {"organization": "org", "project": "team", "repo": "shop"}})),
            opened(Service::AzureDevOps, azure),
            true,
        ),
        (
            requests(json!({"azuredevops": {"organization": "org", "project": "team", "repo": "other"}})),
            opened(Service::AzureDevOps, azure),
            false,
        ),
        (gitlab("org/team/shop"), merged(), true),
        (gitlab("7"), merged(), true),
        (gitlab("8"), merged(), false),
        (gitlab("org/shop"), merged(), false),
        // Those that find repositories by their owner.
        (
            provider(json!({"github": {"organization": "org"}})),
            pushed(Service::GitHub, "https://github.com/Org/any"),
            true,
        ),
        (
            within(provider(json!({"github": {"organization": "org"}}))),
            pushed(Service::GitHub, "https://github.com/org/any"),
            true,
        ),
        (
            provider(json!({"github": {"organization": "org"}})),
            pushed(Service::GitHub, "https://github.com/other/any"),
            false,
        ),
        (provider(json!({"github": {"organization": "org"}})), public(), false),
        (
            provider(json!({"gitea": {"owner": "org", "api": api}})),
            pushed(Service::Gitea, "https://x/org/any"),
            true,
        ),
        (
            provider(json!({"bitbucketServer": {"project": "ORG", "api": api}})),
            pushed(Service::BitbucketServer, "https://x/scm/org/any.git"),
            true,
        ),
        (of_azure("team"), pushed(Service::AzureDevOps, azure), true),
        (of_azure("other"), pushed(Service::AzureDevOps, azure), false),
        (group("org", true), deep(), true),
        (group("org", false), deep(), false),
        (group("org/team", false), deep(), true),
        (group("other", true), deep(), false),
        (group("12", false), deep(), true),
        (json!({"list": {"elements": []}}), public(), false),
        (json!({"plugin": {"configMapRef": {"name": "a"}}}), public(), true),
    ] {
        let mut asking = set(&json!({}));
        asking.spec.generators = serde_json::from_value(json!([generator])).unwrap();
        let told = Told { pushes: Vec::new(), news: vec![news.clone()] };
        assert_eq!(is_told(&asking, &told, &|_, _| false), expected, "{generator} {news:?}");
        assert!(!is_told(&asking, &Told::default(), &|_, _| false), "{generator}: nothing has happened");
    }
}
