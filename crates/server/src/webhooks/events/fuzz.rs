//! Malformed bodies from any provider are parsed or rejected, but never cause a panic.

use serde_json::Value;
use tidegate_application::push_events::{PushEvent, WebhookChanges};
use tidegate_testkit::{effort, fuzz};

use super::super::proof::Proof;
use super::{Provider, Sender, WebhookEvent, parse_event};

const GITHUB: &[u8] = br#"{"ref": "refs/heads/main", "before": "95790bf891e76fee5e1747ab589903a6a1f80f22", "after": "da15", "forced": false,
 "total_commits": 2, "repository": {"id": 1, "html_url": "https://example.com/org/shop", "url": "https://example.com/org/shop",
 "ssh_url": "git@example.com:org/shop.git", "default_branch": "main"},
 "commits": [{"id": "1", "added": ["a/new.yaml"], "removed": [], "modified": ["b.yaml"]}]}"#;
const GITLAB: &[u8] = br#"{"object_kind": "push", "event_name": "push", "ref": "refs/heads/main", "before": "1", "after": "2",
 "project": {"id": 1, "web_url": "https://example.com/org/shop", "git_ssh_url": "git@example.com:org/shop.git",
 "git_http_url": "https://example.com/org/shop.git", "default_branch": "main"},
 "commits": [{"id": "1", "added": ["a"], "modified": [], "removed": []}], "total_commits_count": 1}"#;
const BITBUCKET: &[u8] = br#"{"repository": {"full_name": "org/shop", "links": {"html": {"href": "https://bitbucket.org/org/shop"}}},
 "push": {"changes": [{"new": {"type": "branch", "name": "main"}, "old": {"type": "branch", "name": "main"}}]}}"#;
const BITBUCKET_SERVER: &[u8] = br#"{"eventKey": "repo:refs_changed", "repository": {"slug": "shop", "project": {"key": "ORG"},
 "links": {"clone": [{"name": "http", "href": "https://example.com/scm/org/shop.git"}, {"name": "ssh", "href": "ssh://git@example.com/org/shop.git"}]}},
 "changes": [{"ref": {"id": "refs/heads/main", "displayId": "main", "type": "BRANCH"}, "type": "UPDATE"}]}"#;
const AZURE: &[u8] =
    br#"{"eventType": "git.push", "publisherId": "tfs", "resource": {"repository": {"name": "shop",
 "remoteUrl": "https://dev.azure.com/org/project/_git/shop", "defaultBranch": "refs/heads/main"},
 "refUpdates": [{"name": "refs/heads/main", "oldObjectId": "1", "newObjectId": "2"}]}}"#;
const GENERIC: &[u8] =
    br#"{"repository": "https://example.com/org/shop", "revision": "main", "files": ["a", "b/c"]}"#;

const PULL_REQUEST: &[u8] =
    br#"{"action": "opened", "number": 1, "repository": {"html_url": "https://example.com/org/shop"}}"#;
const MERGE_REQUEST: &[u8] = br#"{"object_kind": "merge_request", "object_attributes": {"action": "open"},
 "project": {"id": 7, "web_url": "https://example.com/org/shop", "path_with_namespace": "org/shop"}}"#;

const SENDERS: [(Provider, &str, &[u8]); 12] = [
    (Provider::GitHub, "pull_request", PULL_REQUEST),
    (Provider::Gogs, "repository", PULL_REQUEST),
    (Provider::GitLab, "Merge Request Hook", MERGE_REQUEST),
    (Provider::GitLab, "System Hook", MERGE_REQUEST),
    (Provider::GitHub, "push", GITHUB),
    (Provider::Gogs, "push", GITHUB),
    (Provider::GitLab, "Push Hook", GITLAB),
    (Provider::GitLab, "System Hook", GITLAB),
    (Provider::Bitbucket, "repo:push", BITBUCKET),
    (Provider::BitbucketServer, "repo:refs_changed", BITBUCKET_SERVER),
    (Provider::AzureDevOps, "", AZURE),
    (Provider::Generic, "", GENERIC),
];

#[test]
fn fuzz_webhooks() {
    effort::on_all_cores(&SENDERS, |(provider, event, body)| fuzz_sender(*provider, event, body));
}

fn fuzz_sender(provider: Provider, event: &str, body: &[u8]) {
    let sent = || Sender { provider, event: event.to_owned(), proof: Proof::Verified };
    let webhook_event = parse_event(&sent(), body).unwrap();
    assert!(!webhook_event.changes.is_empty(), "{provider:?}: the unmodified body must be parsed");
    let seeds = [body, GITHUB, GENERIC];
    let text = ["refs/heads/", "refs/tags/", "\\ud800", "[[[[[[", "{\"a\":", ",", "null", "ssh://"];
    let try_one = |input: &[u8]| {
        let Ok(WebhookEvent { changes: WebhookChanges { pushes, changes: news }, .. }) =
            parse_event(&sent(), input)
        else {
            return;
        };
        assert!(news.len() <= 1, "{}", news.len());
        for push in &pushes {
            push.files().count();
            push.can_move("main", |constraint, tag| constraint == tag);
        }
        assert!(pushes.len() <= super::CHANGES_MAX, "{}", pushes.len());
        assert!(pushes.iter().map(PushEvent::files).all(|files| files.count() <= super::FILES_MAX));
    };
    let name = format!("webhooks of {} {event}", provider.name());
    fuzz::fuzz_bytes(&name, &seeds, &text, try_one);
    let documents: Vec<Value> = seeds.iter().map(|seed| serde_json::from_slice(seed).unwrap()).collect();
    fuzz::fuzz_documents(&name, &documents, &text, |input| try_one(input.to_string().as_bytes()));
}
