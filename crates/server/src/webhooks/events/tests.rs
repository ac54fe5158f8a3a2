#![allow(clippy::unwrap_used, reason = "tests may panic")]

use super::super::proof::Proof;
use super::*;

fn parse_webhook(provider: Provider, event: &str, body: &str) -> WebhookEvent {
    let sender = Sender { provider, event: event.to_owned(), proof: Proof::Verified };
    parse_event(&sender, body.as_bytes()).unwrap()
}

/// Returns the pushes in the event with the given name.
fn parse_pushes(provider: Provider, event: &str, body: &str) -> Vec<PushEvent> {
    let webhook_event = parse_webhook(provider, event, body);
    assert_eq!(webhook_event.event, event);
    webhook_event.changes.pushes
}

fn shop_push() -> PushEvent {
    PushEvent::new(["https://example.com/org/shop", "git@example.com:org/shop.git"])
}

const BEFORE: &str = "95790bf891e76fee5e1747ab589903a6a1f80f22";
const NULL_COMMIT: &str = "0000000000000000000000000000000000000000";

/// Documented at <https://docs.github.com/en/webhooks/webhook-events-and-payloads#push>.
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
fn pushes_of_github_and_compatible_services_are_parsed() {
    let files = || ["a/new.yaml", "b.yaml", "c/old.yaml"].map(str::to_owned).to_vec();
    for (name, before, more, expected) in [
        ("refs/heads/main", BEFORE, "", shop_push().with_ref("main", true).with_files(files())),
        ("refs/heads/team/a", BEFORE, "", shop_push().with_ref("team/a", false).with_files(files())),
        ("refs/tags/main", BEFORE, "", shop_push().with_ref("main", false).with_files(files())),
        // The event does not list all of the changes.
        ("refs/heads/main", NULL_COMMIT, "", shop_push().with_ref("main", true)),
        ("refs/heads/main", BEFORE, ", \"forced\": true", shop_push().with_ref("main", true)),
        ("refs/heads/main", BEFORE, ", \"total_commits\": 7", shop_push().with_ref("main", true)),
        (
            "refs/heads/main",
            BEFORE,
            ", \"total_commits\": 2",
            shop_push().with_ref("main", true).with_files(files()),
        ),
    ] {
        let body = github(name, before, more);
        for provider in [Provider::GitHub, Provider::Gogs] {
            assert_eq!(
                parse_pushes(provider, "push", &body),
                std::slice::from_ref(&expected),
                "{provider:?} {name} {more}"
            );
        }
    }
    for event in ["ping", "issues", "star", ""] {
        assert!(parse_webhook(Provider::GitHub, event, "{}").changes.is_empty(), "{event}");
    }
    let many: Vec<String> = (0..1001).map(|number| format!("\"{number}\"")).collect();
    let body = github("refs/heads/main", BEFORE, "").replace("\"a/new.yaml\"", &many.join(","));
    let found = parse_pushes(Provider::GitHub, "push", &body);
    assert_eq!(found, [shop_push().with_ref("main", true)], "too many files, so their paths are ignored");
}

/// Documented at <https://docs.gitlab.com/user/project/integrations/webhook_events/>.
#[test]
fn pushes_of_gitlab_are_parsed() {
    let body = |before: &str, total: usize| {
        format!(
            r#"{{"object_kind": "push", "event_name": "push", "ref": "refs/heads/main", "before": "{before}", "after": "2",
            "project": {{"id": 1, "web_url": "https://example.com/org/shop", "git_ssh_url": "git@example.com:org/shop.git",
              "git_http_url": "https://example.com/org/shop.git", "default_branch": "main"}},
            "commits": [{{"id": "1", "added": ["a"], "modified": [], "removed": []}}], "total_commits_count": {total}}}"#
        )
    };
    let known = shop_push().with_ref("main", true).with_files(vec!["a".to_owned()]);
    for (event, before, total, expected) in [
        ("Push Hook", BEFORE, 1, known.clone()),
        ("System Hook", BEFORE, 1, known),
        ("Push Hook", BEFORE, 30, shop_push().with_ref("main", true)),
        ("Tag Push Hook", NULL_COMMIT, 1, shop_push().with_ref("main", true)),
    ] {
        assert_eq!(
            parse_pushes(Provider::GitLab, event, &body(before, total)),
            [expected],
            "{event} {total}"
        );
    }
    for (event, body) in [("System Hook", r#"{"event_name": "user_create"}"#), ("Note Hook", "{}")] {
        assert!(parse_webhook(Provider::GitLab, event, body).changes.is_empty(), "{event}");
    }
}

/// Documented at <https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/#Push> and on the page of
/// the same name for Bitbucket Data Center.
#[test]
fn pushes_of_bitbucket_and_bitbucket_server_are_parsed() {
    let body = r#"{"actor": {}, "repository": {"full_name": "org/shop", "links": {"self": {"href": "https://api.example.com"},
        "html": {"href": "https://example.com/org/shop"}}},
        "push": {"changes": [
          {"new": {"type": "branch", "name": "main", "target": {}}, "old": {"type": "branch", "name": "main"}, "forced": false},
          {"new": null, "old": {"type": "tag", "name": "v1"}, "closed": true}
        ]}}"#;
    let shop = PushEvent::new(["https://example.com/org/shop"]);
    let expected = [shop.clone().with_ref("main", true), shop.clone().with_ref("v1", true)];
    assert_eq!(parse_pushes(Provider::Bitbucket, "repo:push", body), expected);
    assert!(parse_webhook(Provider::Bitbucket, "issue:created", "{}").changes.is_empty());
    let body = r#"{"eventKey": "repo:refs_changed", "repository": {"slug": "shop", "project": {"key": "ORG"}, "links": {
        "clone": [{"href": "https://example.com/org/shop.git", "name": "http"},
                  {"href": "ssh://git@example.com:7999/org/shop.git", "name": "ssh"}]}},
        "changes": [{"ref": {"id": "refs/heads/main", "displayId": "main", "type": "BRANCH"}, "type": "UPDATE"}]}"#;
    assert_eq!(
        parse_pushes(Provider::BitbucketServer, "repo:refs_changed", body),
        [shop.with_ref("main", true)]
    );
    assert!(
        parse_webhook(Provider::BitbucketServer, "diagnostics:ping", r#"{"test": true}"#).changes.is_empty()
    );
}

/// Documented at <https://learn.microsoft.com/en-us/azure/devops/service-hooks/events#code-pushed>.
#[test]
fn pushes_of_azure_devops_are_parsed() {
    let body = r#"{"eventType": "git.push", "publisherId": "tfs", "resource": {
        "refUpdates": [{"name": "refs/heads/main", "oldObjectId": "a", "newObjectId": "b"}, {"name": "refs/heads/x"}],
        "repository": {"id": "1", "name": "shop", "defaultBranch": "refs/heads/main",
          "remoteUrl": "https://dev.azure.com/org/team/_git/shop"}}}"#;
    let shop = PushEvent::new(["https://dev.azure.com/org/team/_git/shop"]);
    let found = parse_webhook(Provider::AzureDevOps, "", body);
    assert_eq!(found.changes.pushes, [shop.clone().with_ref("main", true), shop.with_ref("x", false)]);
    let other =
        parse_webhook(Provider::AzureDevOps, "", r#"{"eventType": "build.complete", "resource": {"id": 1}}"#);
    assert_eq!(
        other,
        WebhookEvent { event: "build.complete".to_owned(), changes: WebhookChanges::default() }
    );
}

#[test]
fn pushes_of_custom_programs_are_parsed() {
    for (body, expected) in [
        (r#"{"repository": "./repo"}"#, PushEvent::new(["./repo"])),
        (
            r#"{"repository": "./repo", "revision": "main"}"#,
            PushEvent::new(["./repo"]).with_ref("main", true),
        ),
        (
            r#"{"repository": "./repo", "revision": "refs/tags/v1", "files": ["a"]}"#,
            PushEvent::new(["./repo"]).with_ref("v1", true).with_files(vec!["a".to_owned()]),
        ),
    ] {
        assert_eq!(parse_webhook(Provider::Generic, "", body).changes.pushes, [expected], "{body}");
    }
    let sender = Sender { provider: Provider::Generic, event: String::new(), proof: Proof::Verified };
    assert!(
        parse_event(&sender, br#"{"repository": "a", "branch": "main"}"#).is_err(),
        "an unreadable event must be reported"
    );
}
