//! Events of servers of repositories: who is believed, and what becomes of what cannot be read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use tidegate_server::{Limits, Rate, Server, Settings, Site};

use crate::client::{Served, run, serve, serve_as, settings};

const HOOK: &str = "/api/webhook";
const JSON: &str = "content-type: application/json";
const PUSH: &str = r#"{"ref":"refs/heads/main","before":"1111111111111111111111111111111111111111","repository":{"html_url":"https://example.com/org/shop"},"commits":[]}"#;
const REFS: &str = r#"{"repository":{"links":{"clone":[{"href":"ssh://git@example.com:7999/org/shop.git","name":"ssh"}]}},"changes":[{"ref":{"id":"refs/heads/main"}}]}"#;
const GITLAB: &str = r#"{"ref":"refs/heads/main","before":"1111111111111111111111111111111111111111","project":{"web_url":"https://example.com/org/shop"}}"#;
const BITBUCKET: &str = r#"{"repository":{"links":{"html":{"href":"https://example.com/org/shop"}}},"push":{"changes":[{"new":{"name":"main"}}]}}"#;
const AZURE: &str = r#"{"eventType":"git.push","resource":{"refUpdates":[{"name":"refs/heads/main"}],"repository":{"remoteUrl":"https://example.com/org/_git/shop"}}}"#;
/// What `openssl dgst -sha256 -hmac hunter2` makes of bodies.
const PUSH_SIGNED: &str = "21763000a0a1127d6180a8c1e52ee4069cfb8d608daf0ea97c49cf6fb0d06c30";
const REFS_SIGNED: &str = "2ff6945c31d624dbd727f8625c8312456d551fda8f5efa5bff82b0f56f2caaad";
const EMPTY_SIGNED: &str = "603176255680307a81ec5b984e3a7b4143d0aef1fd1576987618e55c50868ad7";

fn with_secrets(limits: Limits, secrets: &str) -> (Settings, tempfile::TempDir) {
    let (mut settings, dir) = settings(limits);
    let path = dir.path().join("secrets");
    fs::write(&path, secrets).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    settings.webhooks = Some(path);
    (settings, dir)
}

async fn serve_with(limits: Limits, secrets: &str) -> Served {
    let (settings, dir) = with_secrets(limits, secrets);
    serve_as(&settings, dir).await.unwrap()
}

const ALL: &str = "webhook.github.secret: hunter2\nwebhook.gitlab.secret: hunter2\n\
    webhook.bitbucket.uuid: '{d7ab0e7e-1}'\nwebhook.bitbucketserver.secret: hunter2\nwebhook.gogs.secret: hunter2\n\
    webhook.azuredevops.username: me\nwebhook.azuredevops.password: hunter2\nwebhook.generic.secret: hunter2\n";

/// The answer to an event: its status, and the code of what is wrong.
async fn tell(served: &Served, headers: &[&str], body: &str) -> (u16, String) {
    let answer = served.ask("POST", HOOK, &[&[JSON], headers].concat(), body).await;
    assert!(!answer.body.contains("hunter2"), "{}", answer.body);
    let code = if answer.status < 300 { String::new() } else { answer.code() };
    (answer.status, code)
}

#[test]
fn an_event_is_taken_of_whom_it_is_proven_to_be() {
    run(async {
        let served = serve_with(Limits::default(), ALL).await;
        let github = format!("x-hub-signature-256: sha256={PUSH_SIGNED}");
        let upper = format!("x-hub-signature-256: sha256={}", PUSH_SIGNED.to_uppercase());
        let server = format!("x-hub-signature: sha256={REFS_SIGNED}");
        let gogs = format!("x-gogs-signature: {PUSH_SIGNED}");
        let gitea = format!("x-gitea-signature: {PUSH_SIGNED}");
        let half = format!("x-hub-signature-256: sha256={}", &PUSH_SIGNED[..32]);
        let bare = format!("x-hub-signature-256: {PUSH_SIGNED}");
        let other = format!("x-hub-signature-256: sha256={REFS_SIGNED}");
        for (headers, body, is_believed) in [
            (vec!["x-github-event: push", &github], PUSH, true),
            (vec!["x-github-event: push", &upper], PUSH, true),
            (vec!["x-github-event: push", &half], PUSH, false),
            (vec!["x-github-event: push", &bare], PUSH, false),
            (vec!["x-github-event: push", &other], PUSH, false),
            (vec!["x-github-event: push", &github], REFS, false),
            (vec!["x-github-event: push"], PUSH, false),
            // An older way that is broken.
            (vec!["x-github-event: push", "x-hub-signature: sha1=0000"], PUSH, false),
            (vec!["x-gogs-event: push", &gogs], PUSH, true),
            (vec!["x-gitea-event: push", &gitea], PUSH, true),
            // Gitea sends the headers of the others as well, with signatures of its own.
            (vec!["x-gitea-event: push", "x-gogs-event: push", "x-github-event: push", &gogs], PUSH, true),
            (vec!["x-gogs-event: push", &github], PUSH, false),
            (vec!["x-gitlab-event: Push Hook", "x-gitlab-token: hunter2"], GITLAB, true),
            (vec!["x-gitlab-event: Push Hook", "x-gitlab-token: hunter"], GITLAB, false),
            (vec!["x-gitlab-event: Push Hook", "x-gitlab-token: hunter22"], GITLAB, false),
            (vec!["x-gitlab-event: Push Hook"], GITLAB, false),
            (vec!["x-hook-uuid: d7ab0e7e-1", "x-event-key: repo:push"], BITBUCKET, true),
            (vec!["x-hook-uuid: {d7ab0e7e-1}", "x-event-key: repo:push"], BITBUCKET, true),
            (vec!["x-hook-uuid: d7ab0e7e-2", "x-event-key: repo:push"], BITBUCKET, false),
            (vec!["x-hook-uuid: ", "x-event-key: repo:push"], BITBUCKET, false),
            (vec!["x-event-key: repo:refs_changed", &server], REFS, true),
            (vec!["x-event-key: repo:refs_changed"], REFS, false),
            // `me:hunter2`, `me:hunter`, and no base64.
            (vec!["x-vss-activityid: 1", "authorization: Basic bWU6aHVudGVyMg=="], AZURE, true),
            (vec!["x-vss-activityid: 1", "authorization: Basic bWU6aHVudGVy"], AZURE, false),
            (vec!["x-vss-activityid: 1", "authorization: Basic *"], AZURE, false),
            (vec!["x-vss-activityid: 1"], AZURE, false),
            (vec!["x-tidegate-signature: sha256=00", "x-tidegate-timestamp: 1"], "{}", false),
        ] {
            // There are no applications yet: what is believed is told to come again.
            let expected = if is_believed { (503, "not-ready") } else { (401, "unauthorized") };
            let answer = tell(&served, &headers, body).await;
            assert_eq!((answer.0, answer.1.as_str()), expected, "{headers:?} {body:.20}");
        }
        // What is about no push is of no consequence.
        let ping = format!("x-hub-signature-256: sha256={EMPTY_SIGNED}");
        assert_eq!(tell(&served, &["x-github-event: ping", &ping], "{}").await.0, 202);
        assert_eq!(
            tell(&served, &["x-gitlab-event: Note Hook", "x-gitlab-token: hunter2"], "{}").await.0,
            202
        );
        // The example of GitHub's own documentation: the body is the signed one, and no JSON.
        let github = serve_with(Limits::default(), "webhook.github.secret: It's a Secret to Everybody").await;
        let signed =
            "x-hub-signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let push = ["x-github-event: push", signed];
        assert_eq!(tell(&github, &push, "Hello, World!").await, (400, "bad-request".to_owned()));
        assert_eq!(tell(&github, &push, "Hello, World?").await, (401, "unauthorized".to_owned()));
    });
}

/// Whoever sends our own kind is told that it is about their clock, and not to show a token, which nobody asks webhooks for.
#[test]
fn a_time_long_ago_is_named_as_what_is_wrong() {
    run(async {
        let served = serve_with(Limits::default(), ALL).await;
        for (time, words) in [
            ("x-tidegate-timestamp: 1", "X-Tidegate-Timestamp is not the time now"),
            ("x-tidegate-timestamp: noon", "X-Tidegate-Timestamp is not the time now"),
            ("accept: */*", "there is no X-Tidegate-Timestamp"),
        ] {
            let signature = format!("x-tidegate-signature: sha256={EMPTY_SIGNED}");
            let answer = served.ask("POST", HOOK, &[JSON, &signature, time], "{}").await;
            assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{time}");
            assert!(answer.body.contains(words), "{time}: {}", answer.body);
            for next in ["sign each event anew", "clock", "--webhook-secrets"] {
                assert!(answer.body.contains(next), "{time}: no {next} in {}", answer.body);
            }
            assert!(!answer.body.contains("Bearer"), "{time}: {}", answer.body);
        }
    });
}

#[test]
fn without_a_secret_nobody_is_believed() {
    run(async {
        for secrets in
            [None, Some("webhook.gitlab.secret: hunter2"), Some("webhook.azuredevops.username: me")]
        {
            let served = match secrets {
                Some(secrets) => serve_with(Limits::default(), secrets).await,
                None => serve(Limits::default()).await,
            };
            for event in ["x-github-event: push", "x-gogs-event: push", "x-hook-uuid: ", "x-event-key: a"] {
                assert_eq!(tell(&served, &[event], PUSH).await, (401, "unauthorized".to_owned()), "{event}");
            }
            // Half a secret is none.
            let half = ["x-vss-activityid: 1", "authorization: Basic bWU6"];
            assert_eq!(tell(&served, &half, AZURE).await.0, 401);
        }
        // A mistake is told before anything begins.
        let (settings, _dir) = with_secrets(Limits::default(), "webhook.github: hunter2");
        let error = Server::listen(&settings, &Arc::new(Site::default())).await.err().unwrap().to_string();
        assert!(error.contains("webhook.github.secret") && !error.contains("hunter2"), "{error}");
    });
}

#[test]
fn what_cannot_be_read_is_a_bad_request() {
    run(async {
        let limits = Limits { webhook_bytes: 20_000, ..Limits::default() };
        let served = serve_with(limits, ALL).await;
        let (gitlab, bitbucket, azure) = (
            ["x-gitlab-event: Push Hook", "x-gitlab-token: hunter2"],
            ["x-hook-uuid: d7ab0e7e-1", "x-event-key: repo:push"],
            ["x-vss-activityid: 1", "authorization: Basic bWU6aHVudGVyMg=="],
        );
        let deep = "[".repeat(10_000);
        let deep_field = format!("{{\"ref\":{deep}");
        for headers in [&gitlab, &bitbucket, &azure] {
            for body in [
                "",
                "{",
                "null",
                "[]",
                "[\"refs/heads/main\", \"1\", {\"web_url\": \"a\"}]",
                "\"push\"",
                "{}",
                "\u{0}",
                &deep,
                &deep_field,
                r#"{"ref":7,"before":"1","project":{"web_url":"a"}}"#,
                r#"{"ref":"refs/heads/main","before":"1","project":{"web_url":["a"]}}"#,
                r#"{"ref":"refs/heads/main","before":"1","project":{"web_url":"a"},"commits":[{"added":"a"}]}"#,
                r#"{"repository":{"links":{"html":"a"}},"push":{"changes":[]}}"#,
                r#"{"repository":{"links":{"html":{"href":"a"}}},"push":{"changes":{}}}"#,
                r#"{"eventType":"git.push","resource":[]}"#,
                r#"{"eventType":"git.push","resource":{"refUpdates":[{}],"repository":{"remoteUrl":"a"}}}"#,
                r#"{"eventType":7}"#,
            ] {
                let answer = tell(&served, headers, body).await;
                assert_eq!(answer, (400, "bad-request".to_owned()), "{headers:?} {body:.60}");
            }
        }
        let push = format!("x-hub-signature-256: sha256={EMPTY_SIGNED}");
        assert_eq!(tell(&served, &["x-github-event: push", &push], "{}").await.0, 400);
        assert_eq!(tell(&served, &["x-other-event: push"], PUSH).await.0, 400, "nobody knows whose it is");
        let twice = [gitlab[0], gitlab[1], gitlab[1]];
        assert_eq!(tell(&served, &twice, GITLAB).await.0, 400, "a header is there once");
        let large = format!("{{\"ref\": \"{}\"}}", "x".repeat(20_000));
        assert_eq!(tell(&served, &gitlab, &large).await, (413, "too-large".to_owned()));
        let form = [&["content-type: application/x-www-form-urlencoded"], &gitlab[..]].concat();
        assert_eq!(served.ask("POST", HOOK, &form, "payload=%7B%7D").await.code(), "not-json");
    });
}

#[test]
fn senders_are_heard_only_so_often_and_keep_nobody_else_out() {
    run(async {
        let webhooks = Rate { per_second: 0.01, burst: 2.0 };
        let served = serve_with(Limits { webhooks, ..Limits::default() }, ALL).await;
        for _ in 0..2 {
            assert_eq!(tell(&served, &["x-github-event: push"], PUSH).await.0, 401);
        }
        assert_eq!(tell(&served, &["x-github-event: push"], PUSH).await, (429, "too-often".to_owned()));
        assert_eq!(served.get("/metrics").await.status, 200);
    });
}

#[test]
fn a_secret_can_be_changed_while_the_process_works() {
    run(async {
        let (settings, dir) = with_secrets(Limits::default(), ALL);
        let path = dir.path().join("secrets");
        let served = serve_as(&settings, dir).await.unwrap();
        let told = async |token: &str| {
            tell(&served, &["x-gitlab-event: Push Hook", &format!("x-gitlab-token: {token}")], GITLAB).await.0
        };
        assert_eq!((told("hunter2").await, told("other").await), (503, 401));
        fs::write(&path, "webhook.gitlab.secret: other").unwrap();
        assert_eq!((told("hunter2").await, told("other").await), (401, 503));
        // What cannot be read lets nobody in.
        fs::write(&path, "webhook.gitlab.secret: [other]").unwrap();
        assert_eq!(told("other").await, 500);
        fs::remove_file(&path).unwrap();
        assert_eq!(told("other").await, 500);
    });
}
