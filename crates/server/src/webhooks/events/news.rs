//! What events say of repositories, branches and pull requests, as the servers describe them.

use tidegate_application::hosted::{About, News, Service};

use super::super::proof::Proof;
use super::{Provider, Sender, hear};

fn news(provider: Provider, event: &str, body: &str) -> Vec<News> {
    let sender = Sender { provider, event: event.to_owned(), proof: Proof::Shown };
    let told = hear(&sender, body.as_bytes()).unwrap().told;
    assert_eq!(told.pushes, [], "{event}");
    told.news
}

const SHOP: &str = "https://example.com/org/shop";

/// <https://docs.github.com/en/webhooks/webhook-events-and-payloads#pull_request>, and Gitea's likes of it.
#[test]
fn of_github_and_gitea() {
    let body = |action: &str| {
        format!(
            r#"{{"action": "{action}", "number": 2, "pull_request": {{"state": "open", "head": {{"sha": "ec26c3e"}}}},
            "repository": {{"id": 1, "full_name": "Org/Shop", "html_url": "https://example.com/Org/Shop", "default_branch": "main"}}}}"#
        )
    };
    for (event, action, expected) in [
        ("pull_request", "opened", Some(About::PullRequests)),
        ("pull_request", "closed", Some(About::PullRequests)),
        ("pull_request", "synchronize", Some(About::PullRequests)),
        ("pull_request", "labeled", Some(About::PullRequests)),
        ("pull_request", "unlabeled", Some(About::PullRequests)),
        ("pull_request", "reopened", Some(About::PullRequests)),
        ("pull_request", "edited", Some(About::PullRequests)),
        ("pull_request", "assigned", None),
        ("pull_request", "review_requested", None),
        ("pull_request_label", "label_updated", Some(About::PullRequests)),
        ("pull_request_sync", "synchronized", Some(About::PullRequests)),
        ("pull_request_review", "submitted", None),
        ("repository", "created", Some(About::Repository)),
        ("repository", "deleted", Some(About::Repository)),
        ("delete", "", Some(About::Repository)),
        ("issues", "opened", None),
    ] {
        for (provider, service) in [(Provider::GitHub, Service::GitHub), (Provider::Gogs, Service::Gitea)] {
            let expected: Vec<_> = expected.iter().map(|about| News::at(service, *about, SHOP)).collect();
            assert_eq!(news(provider, event, &body(action)), expected, "{provider:?} {event} {action}");
        }
    }
}

/// <https://docs.gitlab.com/user/project/integrations/webhook_events/#merge-request-events>, and
/// <https://docs.gitlab.com/administration/system_hooks/>.
#[test]
fn of_gitlab() {
    let body = |action: &str| {
        format!(
            r#"{{"object_kind": "merge_request", "event_type": "merge_request", "object_attributes": {{"iid": 1{action}}},
            "project": {{"id": 7, "web_url": "https://example.com/gitlab/org/team/shop", "path_with_namespace": "org/team/shop"}}}}"#
        )
    };
    let changed = News::named(Service::GitLab, About::PullRequests, ["org", "team", "shop"]);
    let changed = changed.on_server_of("https://example.com").with_number(Some(7));
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
            assert_eq!(news(Provider::GitLab, event, &body(action)), expected, "{event} {action}");
        }
    }
    for (name, is_news) in [("project_create", true), ("project_destroy", true), ("user_create", false)] {
        let body =
            format!(r#"{{"event_name": "{name}", "project_id": 7, "path_with_namespace": "org/shop"}}"#);
        let made = News::named(Service::GitLab, About::Repository, ["org", "shop"]);
        let expected: Vec<_> = is_news.then_some(made).into_iter().collect();
        assert_eq!(news(Provider::GitLab, "System Hook", &body), expected, "{name}");
    }
}

/// <https://support.atlassian.com/bitbucket-cloud/docs/event-payloads/#Pull-request-events>, and the page of the same name of
/// Bitbucket Data Center.
#[test]
fn of_bitbucket_and_its_server() {
    let body = r#"{"pullrequest": {"id": 1}, "repository": {"full_name": "org/shop", "links": {"html": {"href": "https://bitbucket.org/org/shop"}}}}"#;
    let cloud = || News::at(Service::Bitbucket, About::PullRequests, "https://bitbucket.org/org/shop");
    let server_body = r#"{"eventKey": "pr:opened", "pullRequest": {"id": 1, "fromRef": {"id": "refs/heads/a", "repository": {"slug": "fork", "project": {"key": "~ME"}}},
        "toRef": {"id": "refs/heads/main", "repository": {"slug": "shop", "project": {"key": "ORG"}}}}}"#;
    let server = || News::named(Service::BitbucketServer, About::PullRequests, ["org", "shop"]);
    for (cloud_event, server_event, is_news) in [
        ("pullrequest:created", "pr:opened", true),
        ("pullrequest:updated", "pr:from_ref_updated", true),
        ("pullrequest:fulfilled", "pr:merged", true),
        ("pullrequest:rejected", "pr:declined", true),
        ("pullrequest:approved", "pr:reviewer:approved", false),
        ("pullrequest:comment_created", "pr:comment:added", false),
    ] {
        let expected = |news: News| is_news.then_some(news).into_iter().collect::<Vec<_>>();
        assert_eq!(news(Provider::Bitbucket, cloud_event, body), expected(cloud()), "{cloud_event}");
        assert_eq!(
            news(Provider::BitbucketServer, server_event, server_body),
            expected(server()),
            "{server_event}"
        );
    }
}

/// <https://learn.microsoft.com/en-us/azure/devops/service-hooks/events#git.pullrequest.created>
#[test]
fn of_azure_devops() {
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
        let made = News::at(Service::AzureDevOps, About::PullRequests, address);
        let expected: Vec<_> = is_news.then_some(made).into_iter().collect();
        assert_eq!(news(Provider::AzureDevOps, "", &body), expected, "{event}");
    }
}

/// Whoever asks for branches is told of pushes, too.
#[test]
fn of_pushes() {
    let push = r#"{"ref": "refs/heads/main", "before": "1", "repository": {"html_url": "https://example.com/org/shop"}}"#;
    let gitlab = r#"{"ref": "refs/heads/main", "before": "1", "project": {"id": 7, "web_url": "https://example.com/org/shop"}}"#;
    let bitbucket = r#"{"repository": {"links": {"html": {"href": "https://example.com/org/shop"}}}, "push": {"changes": []}}"#;
    let server = r#"{"repository": {"slug": "shop", "project": {"key": "ORG"}, "links": {"clone": [{"href": "https://example.com/scm/org/shop.git"}]}}, "changes": []}"#;
    let azure = r#"{"eventType": "git.push", "resource": {"refUpdates": [], "repository": {"remoteUrl": "https://example.com/org/team/_git/shop"}}}"#;
    for (provider, event, body, service, name) in [
        (Provider::GitHub, "push", push, Service::GitHub, vec!["org", "shop"]),
        (Provider::Gogs, "push", push, Service::Gitea, vec!["org", "shop"]),
        (Provider::GitLab, "Push Hook", gitlab, Service::GitLab, vec!["org", "shop"]),
        (Provider::Bitbucket, "repo:push", bitbucket, Service::Bitbucket, vec!["org", "shop"]),
        (
            Provider::BitbucketServer,
            "repo:refs_changed",
            server,
            Service::BitbucketServer,
            vec!["org", "shop"],
        ),
        (Provider::AzureDevOps, "", azure, Service::AzureDevOps, vec!["org", "team", "shop"]),
    ] {
        let sender = Sender { provider, event: event.to_owned(), proof: Proof::Shown };
        let found = hear(&sender, body.as_bytes()).unwrap().told.news;
        let [news] = found.as_slice() else { panic!("{provider:?}: {found:?}") };
        assert!(news.about == About::Repository && news.is_of(&name), "{provider:?}: {news:?}");
        assert!(news.is_on(service, "https://example.com/api"), "{provider:?}: {news:?}");
    }
}

/// What is cut off is named, and not missed in silence.
#[test]
fn what_cannot_be_read_is_an_error() {
    for (provider, event) in [
        (Provider::GitHub, "pull_request"),
        (Provider::Gogs, "repository"),
        (Provider::GitLab, "Merge Request Hook"),
        (Provider::Bitbucket, "pullrequest:created"),
        (Provider::BitbucketServer, "pr:opened"),
    ] {
        let sender = Sender { provider, event: event.to_owned(), proof: Proof::Shown };
        assert!(hear(&sender, b"{}").is_err(), "{event}");
    }
}
