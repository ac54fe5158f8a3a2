#![allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use super::super::proof::Proof;
use super::*;

fn heard(provider: Provider, event: &str, body: &str) -> Heard {
    let sender = Sender { provider, event: event.to_owned(), proof: Proof::Shown };
    hear(&sender, body.as_bytes()).unwrap()
}

/// What is pushed, by an event of this name.
fn pushed(provider: Provider, event: &str, body: &str) -> Vec<Push> {
    let heard = heard(provider, event, body);
    assert_eq!(heard.event, event);
    heard.told.pushes
}

fn shop() -> Push {
    Push::to(["https://example.com/org/shop", "git@example.com:org/shop.git"])
}

const BEFORE: &str = "95790bf891e76fee5e1747ab589903a6a1f80f22";
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// As <https://docs.github.com/en/webhooks/webhook-events-and-payloads#push> describes it.
fn github(name: &str, before: &str, more: &str) -> String {
    format!(
        r#"{{"ref": "{name}", "before": "{before}", "after": "da1560886d4f094c3e6c9ef40349f7d38b5d27d7", "created": false,
        "repository": {{"id": 1, "html_url": "https://example.com/org/shop", "url": "https://example.com/org/shop",
          "ssh_url": "git@example.com:org/shop.git", "default_branch": "main", "private": true}},
        "commits": [
          {{"id": "1", "message": "One", "added": ["a/new.yaml"], "removed": [], "modified": ["b.yaml"]}},
          {{"id": "2", "message": "Two", "added": [], "removed": ["c/old.yaml"], "modified": ["b.yaml"]}}
        ]{more}}}"#
    )
}

#[test]
fn pushes_of_github_and_of_those_who_do_as_it_does() {
    let files = || ["a/new.yaml", "b.yaml", "c/old.yaml"].map(str::to_owned).to_vec();
    for (name, before, more, expected) in [
        ("refs/heads/main", BEFORE, "", shop().of("main", true).changing(files())),
        ("refs/heads/team/a", BEFORE, "", shop().of("team/a", false).changing(files())),
        ("refs/tags/main", BEFORE, "", shop().of("main", false).changing(files())),
        // Nobody says all that has changed.
        ("refs/heads/main", NOTHING, "", shop().of("main", true)),
        ("refs/heads/main", BEFORE, ", \"forced\": true", shop().of("main", true)),
        ("refs/heads/main", BEFORE, ", \"total_commits\": 7", shop().of("main", true)),
        ("refs/heads/main", BEFORE, ", \"total_commits\": 2", shop().of("main", true).changing(files())),
    ] {
        let body = github(name, before, more);
        for provider in [Provider::GitHub, Provider::Gogs] {
            assert_eq!(
                pushed(provider, "push", &body),
                std::slice::from_ref(&expected),
                "{provider:?} {name} {more}"
            );
        }
    }
    for event in ["ping", "issues", "star", ""] {
        assert!(heard(Provider::GitHub, event, "{}").told.is_empty(), "{event}");
    }
    let many: Vec<String> = (0..1001).map(|number| format!("\"{number}\"")).collect();
    let body = github("refs/heads/main", BEFORE, "").replace("\"a/new.yaml\"", &many.join(","));
    let found = pushed(Provider::GitHub, "push", &body);
    assert_eq!(found, [shop().of("main", true)], "so many that it is not asked whom each is about");
}

/// As <https://docs.gitlab.com/user/project/integrations/webhook_events/> describes it.
#[test]
fn pushes_of_gitlab() {
    let body = |before: &str, total: usize| {
        format!(
            r#"{{"object_kind": "push", "event_name": "push", "ref": "refs/heads/main", "before": "{before}", "after": "2",
            "project": {{"id": 1, "web_url": "https://example.com/org/shop", "git_ssh_url": "git@example.com:org/shop.git",
              "git_http_url": "https://example.com/org/shop.git", "default_branch": "main"}},
            "commits": [{{"id": "1", "added": ["a"], "modified": [], "removed": []}}], "total_commits_count": {total}}}"#
        )
    };
    let known = shop().of("main", true).changing(vec!["a".to_owned()]);
    for (event, before, total, expected) in [
        ("Push Hook", BEFORE, 1, known.clone()),
        ("System Hook", BEFORE, 1, known),
        ("Push Hook", BEFORE, 30, shop().of("main", true)),
        ("Tag Push Hook", NOTHING, 1, shop().of("main", true)),
    ] {
        assert_eq!(pushed(Provider::GitLab, event, &body(before, total)), [expected], "{event} {total}");
    }
    for (event, body) in [("System Hook", r#"{"event_name": "user_create"}"#), ("Note Hook", "{}")] {
        assert!(heard(Provider::GitLab, event, body).told.is_empty(), "{event}");
    }
}

/// As <https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/#Push> and the page of the same name of Bitbucket
/// Data Center describe them.
#[test]
fn pushes_of_bitbucket_and_its_server() {
    let body = r#"{"actor": {}, "repository": {"full_name": "org/shop", "links": {"self": {"href": "https://api.example.com"},
        "html": {"href": "https://example.com/org/shop"}}},
        "push": {"changes": [
          {"new": {"type": "branch", "name": "main", "target": {}}, "old": {"type": "branch", "name": "main"}, "forced": false},
          {"new": null, "old": {"type": "tag", "name": "v1"}, "closed": true}
        ]}}"#;
    let shop = Push::to(["https://example.com/org/shop"]);
    let expected = [shop.clone().of("main", true), shop.clone().of("v1", true)];
    assert_eq!(pushed(Provider::Bitbucket, "repo:push", body), expected);
    assert!(heard(Provider::Bitbucket, "issue:created", "{}").told.is_empty());
    let body = r#"{"eventKey": "repo:refs_changed", "repository": {"slug": "shop", "project": {"key": "ORG"}, "links": {
        "clone": [{"href": "https://example.com/org/shop.git", "name": "http"},
                  {"href": "ssh://git@example.com:7999/org/shop.git", "name": "ssh"}]}},
        "changes": [{"ref": {"id": "refs/heads/main", "displayId": "main", "type": "BRANCH"}, "type": "UPDATE"}]}"#;
    assert_eq!(pushed(Provider::BitbucketServer, "repo:refs_changed", body), [shop.of("main", true)]);
    assert!(heard(Provider::BitbucketServer, "diagnostics:ping", r#"{"test": true}"#).told.is_empty());
}

/// As <https://learn.microsoft.com/en-us/azure/devops/service-hooks/events#code-pushed> describes it.
#[test]
fn pushes_of_azure_devops() {
    let body = r#"{"eventType": "git.push", "publisherId": "tfs", "resource": {
        "refUpdates": [{"name": "refs/heads/main", "oldObjectId": "a", "newObjectId": "b"}, {"name": "refs/heads/x"}],
        "repository": {"id": "1", "name": "shop", "defaultBranch": "refs/heads/main",
          "remoteUrl": "https://dev.azure.com/org/team/_git/shop"}}}"#;
    let shop = Push::to(["https://dev.azure.com/org/team/_git/shop"]);
    let found = heard(Provider::AzureDevOps, "", body);
    assert_eq!(found.told.pushes, [shop.clone().of("main", true), shop.of("x", false)]);
    let other = heard(Provider::AzureDevOps, "", r#"{"eventType": "build.complete", "resource": {"id": 1}}"#);
    assert_eq!(other, Heard { event: "build.complete".to_owned(), told: Told::default() });
}

#[test]
fn pushes_that_somebody_tells_of_by_themselves() {
    for (body, expected) in [
        (r#"{"repository": "./repo"}"#, Push::to(["./repo"])),
        (r#"{"repository": "./repo", "revision": "main"}"#, Push::to(["./repo"]).of("main", true)),
        (
            r#"{"repository": "./repo", "revision": "refs/tags/v1", "files": ["a"]}"#,
            Push::to(["./repo"]).of("v1", true).changing(vec!["a".to_owned()]),
        ),
    ] {
        assert_eq!(heard(Provider::Generic, "", body).told.pushes, [expected], "{body}");
    }
    let sender = Sender { provider: Provider::Generic, event: String::new(), proof: Proof::Shown };
    assert!(hear(&sender, br#"{"repository": "a", "branch": "main"}"#).is_err(), "not missed in silence");
}
