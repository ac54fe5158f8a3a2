//! Events for repositories, branches and pull requests, as documented by the providers.

use tidegate_application::webhook_events::{ChangeSubject, RepositoryChange, ScmService};

use super::super::proof::Proof;
use super::{Provider, Sender, parse_event};

fn parsed_changes(provider: Provider, event: &str, body: &str) -> Vec<RepositoryChange> {
    let sender = Sender { provider, event: event.to_owned(), proof: Proof::Verified };
    let changes = parse_event(&sender, body.as_bytes()).unwrap().changes;
    assert_eq!(changes.pushes, [], "{event}");
    changes.changes
}

const SHOP: &str = "https://example.com/org/shop";

/// Documented at <https://docs.github.com/en/webhooks/webhook-events-and-payloads#pull_request>, and Gitea's
/// equivalents.
#[test]
fn github_and_gitea_events_are_parsed() {
    let body = |action: &str| {
        format!(
            r#"{{"action": "{action}", "number": 2, "pull_request": {{"state": "open", "head": {{"sha": "ec26c3e"}}}},
            "repository": {{"id": 1, "full_name": "Org/Shop", "html_url": "https://example.com/Org/Shop", "default_branch": "main"}}}}"#
        )
    };
    for (event, action, expected) in [
        ("pull_request", "opened", Some(ChangeSubject::PullRequests)),
        ("pull_request", "closed", Some(ChangeSubject::PullRequests)),
        ("pull_request", "synchronize", Some(ChangeSubject::PullRequests)),
        ("pull_request", "labeled", Some(ChangeSubject::PullRequests)),
        ("pull_request", "unlabeled", Some(ChangeSubject::PullRequests)),
        ("pull_request", "reopened", Some(ChangeSubject::PullRequests)),
        ("pull_request", "edited", Some(ChangeSubject::PullRequests)),
        ("pull_request", "assigned", None),
        ("pull_request", "review_requested", None),
        ("pull_request_label", "label_updated", Some(ChangeSubject::PullRequests)),
        ("pull_request_sync", "synchronized", Some(ChangeSubject::PullRequests)),
        ("pull_request_review", "submitted", None),
        ("repository", "created", Some(ChangeSubject::Repository)),
        ("repository", "deleted", Some(ChangeSubject::Repository)),
        ("delete", "", Some(ChangeSubject::Repository)),
        ("issues", "opened", None),
    ] {
        for (provider, service) in
            [(Provider::GitHub, ScmService::GitHub), (Provider::Gogs, ScmService::Gitea)]
        {
            let expected: Vec<_> =
                expected.iter().map(|about| RepositoryChange::from_address(service, *about, SHOP)).collect();
            assert_eq!(
                parsed_changes(provider, event, &body(action)),
                expected,
                "{provider:?} {event} {action}"
            );
        }
    }
}

/// Documented at <https://docs.gitlab.com/user/project/integrations/webhook_events/#merge-request-events>,
/// and <https://docs.gitlab.com/administration/system_hooks/>.
#[test]
fn gitlab_events_are_parsed() {
    let body = |action: &str| {
        format!(
            r#"{{"object_kind": "merge_request", "event_type": "merge_request", "object_attributes": {{"iid": 1{action}}},
            "project": {{"id": 7, "web_url": "https://example.com/gitlab/org/team/shop", "path_with_namespace": "org/team/shop"}}}}"#
        )
    };
    let changed =
        RepositoryChange::from_name(ScmService::GitLab, ChangeSubject::PullRequests, ["org", "team", "shop"]);
    let changed = changed.with_server_of("https://example.com").with_number(Some(7));
    for (action, is_news) in [
        (r#", "action": "open""#, true),
        (r#", "action": "close""#, true),
        (r#", "action": "reopen""#, true),
        (r#", "action": "update""#, true),
        (r#", "action": "merge""#, true),
        (r#", "action": "approved""#, false),
        ("", false),
    ] {
        let expected: Vec<_> = is_news.then(|| changed.clone()).into_iter().collect();
        for event in ["Merge Request Hook", "System Hook"] {
            assert_eq!(parsed_changes(Provider::GitLab, event, &body(action)), expected, "{event} {action}");
        }
    }
    for (name, is_news) in [("project_create", true), ("project_destroy", true), ("user_create", false)] {
        let body =
            format!(r#"{{"event_name": "{name}", "project_id": 7, "path_with_namespace": "org/shop"}}"#);
        let made =
            RepositoryChange::from_name(ScmService::GitLab, ChangeSubject::Repository, ["org", "shop"]);
        let expected: Vec<_> = is_news.then_some(made).into_iter().collect();
        assert_eq!(parsed_changes(Provider::GitLab, "System Hook", &body), expected, "{name}");
    }
}

/// Documented at <https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/#Pull-request-events>,
/// and on the page of the same name for Bitbucket Data Center.
#[test]
fn bitbucket_and_bitbucket_server_events_are_parsed() {
    let body = r#"{"pullrequest": {"id": 1}, "repository": {"full_name": "org/shop", "links": {"html": {"href": "https://bitbucket.org/org/shop"}}}}"#;
    let cloud = || {
        RepositoryChange::from_address(
            ScmService::Bitbucket,
            ChangeSubject::PullRequests,
            "https://bitbucket.org/org/shop",
        )
    };
    let server_body = r#"{"eventKey": "pr:opened", "pullRequest": {"id": 1, "fromRef": {"id": "refs/heads/a", "repository": {"slug": "fork", "project": {"key": "~ME"}}},
        "toRef": {"id": "refs/heads/main", "repository": {"slug": "shop", "project": {"key": "ORG"}}}}}"#;
    let server = || {
        RepositoryChange::from_name(ScmService::BitbucketServer, ChangeSubject::PullRequests, ["org", "shop"])
    };
    for (cloud_event, server_event, is_news) in [
        ("pullrequest:created", "pr:opened", true),
        ("pullrequest:updated", "pr:from_ref_updated", true),
        ("pullrequest:fulfilled", "pr:merged", true),
        ("pullrequest:rejected", "pr:declined", true),
        ("pullrequest:approved", "pr:reviewer:approved", false),
        ("pullrequest:comment_created", "pr:comment:added", false),
    ] {
        let expected = |news: RepositoryChange| is_news.then_some(news).into_iter().collect::<Vec<_>>();
        assert_eq!(
            parsed_changes(Provider::Bitbucket, cloud_event, body),
            expected(cloud()),
            "{cloud_event}"
        );
        assert_eq!(
            parsed_changes(Provider::BitbucketServer, server_event, server_body),
            expected(server()),
            "{server_event}"
        );
    }
}

/// Documented at
/// <https://learn.microsoft.com/en-us/azure/devops/service-hooks/events#git.pullrequest.created>
#[test]
fn azure_devops_events_are_parsed() {
    let address = "https://dev.azure.com/org/team/_git/shop";
    for (event, is_news) in [
        ("git.pullrequest.created", true),
        ("git.pullrequest.updated", true),
        ("git.pullrequest.merged", true),
        ("ms.vss-code.git-pullrequest-comment-event", false),
    ] {
        let body = format!(
            r#"{{"eventType": "{event}", "resource": {{"pullRequestId": 1, "repository": {{"name": "shop", "remoteUrl": "{address}"}}}}}}"#
        );
        let made =
            RepositoryChange::from_address(ScmService::AzureDevOps, ChangeSubject::PullRequests, address);
        let expected: Vec<_> = is_news.then_some(made).into_iter().collect();
        assert_eq!(parsed_changes(Provider::AzureDevOps, "", &body), expected, "{event}");
    }
}

/// Pushes also affect generators that read branches.
#[test]
fn pushes_are_changes_for_branch_generators() {
    let push = r#"{"ref": "refs/heads/main", "before": "1", "repository": {"html_url": "https://example.com/org/shop"}}"#;
    let gitlab = r#"{"ref": "refs/heads/main", "before": "1", "project": {"id": 7, "web_url": "https://example.com/org/shop"}}"#;
    let bitbucket = r#"{"repository": {"links": {"html": {"href": "https://example.com/org/shop"}}}, "push": {"changes": []}}"#;
    let server = r#"{"repository": {"slug": "shop", "project": {"key": "ORG"}, "links": {"clone": [{"href": "https://example.com/scm/org/shop.git"}]}}, "changes": []}"#;
    let azure = r#"{"eventType": "git.push", "resource": {"refUpdates": [], "repository": {"remoteUrl": "https://example.com/org/team/_git/shop"}}}"#;
    for (provider, event, body, service, name) in [
        (Provider::GitHub, "push", push, ScmService::GitHub, vec!["org", "shop"]),
        (Provider::Gogs, "push", push, ScmService::Gitea, vec!["org", "shop"]),
        (Provider::GitLab, "Push Hook", gitlab, ScmService::GitLab, vec!["org", "shop"]),
        (Provider::Bitbucket, "repo:push", bitbucket, ScmService::Bitbucket, vec!["org", "shop"]),
        (
            Provider::BitbucketServer,
            "repo:refs_changed",
            server,
            ScmService::BitbucketServer,
            vec!["org", "shop"],
        ),
        (Provider::AzureDevOps, "", azure, ScmService::AzureDevOps, vec!["org", "team", "shop"]),
    ] {
        let sender = Sender { provider, event: event.to_owned(), proof: Proof::Verified };
        let found = parse_event(&sender, body.as_bytes()).unwrap().changes.changes;
        let [news] = found.as_slice() else { panic!("{provider:?}: {found:?}") };
        assert!(news.subject == ChangeSubject::Repository && news.has_name(&name), "{provider:?}: {news:?}");
        assert!(news.can_be_from(service, "https://example.com/api"), "{provider:?}: {news:?}");
    }
}

/// A truncated body must be reported, not silently ignored.
#[test]
fn a_truncated_body_is_an_error() {
    for (provider, event) in [
        (Provider::GitHub, "pull_request"),
        (Provider::Gogs, "repository"),
        (Provider::GitLab, "Merge Request Hook"),
        (Provider::Bitbucket, "pullrequest:created"),
        (Provider::BitbucketServer, "pr:opened"),
    ] {
        let sender = Sender { provider, event: event.to_owned(), proof: Proof::Verified };
        assert!(parse_event(&sender, b"{}").is_err(), "{event}");
    }
}
