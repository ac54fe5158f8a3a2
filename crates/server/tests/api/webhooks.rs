//! Webhook events: authentication, and handling of malformed content.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use tidegate_server::{Limits, Rate, Server, ServerState, Settings};

use crate::client::{TestServer, run_test, serve, serve_with_settings, settings};

const HOOK: &str = "/api/webhook";
const JSON: &str = "content-type: application/json";
const PUSH: &str = r#"{"ref":"refs/heads/main","before":"1111111111111111111111111111111111111111","repository":{"html_url":"https://example.com/org/shop"},"commits":[]}"#;
const REFS: &str = r#"{"repository":{"links":{"clone":[{"href":"ssh://git@example.com:7999/org/shop.git","name":"ssh"}]}},"changes":[{"ref":{"id":"refs/heads/main"}}]}"#;
const GITLAB: &str = r#"{"ref":"refs/heads/main","before":"1111111111111111111111111111111111111111","project":{"web_url":"https://example.com/org/shop"}}"#;
const BITBUCKET: &str = r#"{"repository":{"links":{"html":{"href":"https://example.com/org/shop"}}},"push":{"changes":[{"new":{"name":"main"}}]}}"#;
const AZURE: &str = r#"{"eventType":"git.push","resource":{"refUpdates":[{"name":"refs/heads/main"}],"repository":{"remoteUrl":"https://example.com/org/_git/shop"}}}"#;
/// Output of `openssl dgst -sha256 -hmac hunter2` for the event bodies.
const PUSH_SIGNED: &str = "21763000a0a1127d6180a8c1e52ee4069cfb8d608daf0ea97c49cf6fb0d06c30";
const REFS_SIGNED: &str = "2ff6945c31d624dbd727f8625c8312456d551fda8f5efa5bff82b0f56f2caaad";
const EMPTY_SIGNED: &str = "603176255680307a81ec5b984e3a7b4143d0aef1fd1576987618e55c50868ad7";

fn settings_with_secrets(limits: Limits, secrets: &str) -> (Settings, tempfile::TempDir) {
    let (mut settings, dir) = settings(limits);
    let path = dir.path().join("secrets");
    fs::write(&path, secrets).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    settings.webhooks = Some(path);
    (settings, dir)
}

async fn serve_with_secrets(limits: Limits, secrets: &str) -> TestServer {
    let (settings, dir) = settings_with_secrets(limits, secrets);
    serve_with_settings(&settings, dir).await.unwrap()
}

const ALL_SECRETS: &str = "webhook.github.secret: hunter2\nwebhook.gitlab.secret: hunter2\n\
    webhook.bitbucket.uuid: '{d7ab0e7e-1}'\nwebhook.bitbucketserver.secret: hunter2\nwebhook.gogs.secret: hunter2\n\
    webhook.azuredevops.username: me\nwebhook.azuredevops.password: hunter2\nwebhook.generic.secret: hunter2\n";

/// Sends an event. Returns the status and the problem code of the response.
async fn deliver_event(server: &TestServer, headers: &[&str], body: &str) -> (u16, String) {
    let answer = server.request("POST", HOOK, &[&[JSON], headers].concat(), body).await;
    assert!(!answer.body.contains("hunter2"), "{}", answer.body);
    let code = if answer.status < 300 { String::new() } else { answer.problem_code() };
    (answer.status, code)
}

#[test]
fn an_event_is_accepted_only_with_a_valid_proof() {
    run_test(async {
        let test_server = serve_with_secrets(Limits::default(), ALL_SECRETS).await;
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
            // This older algorithm is broken.
            (vec!["x-github-event: push", "x-hub-signature: sha1=0000"], PUSH, false),
            (vec!["x-gogs-event: push", &gogs], PUSH, true),
            (vec!["x-gitea-event: push", &gitea], PUSH, true),
            // Gitea also sends the headers of other providers, with its own signatures.
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
            // The credentials are `me:hunter2`, `me:hunter`, and invalid base64.
            (vec!["x-vss-activityid: 1", "authorization: Basic bWU6aHVudGVyMg=="], AZURE, true),
            (vec!["x-vss-activityid: 1", "authorization: Basic bWU6aHVudGVy"], AZURE, false),
            (vec!["x-vss-activityid: 1", "authorization: Basic *"], AZURE, false),
            (vec!["x-vss-activityid: 1"], AZURE, false),
            (vec!["x-tidegate-signature: sha256=00", "x-tidegate-timestamp: 1"], "{}", false),
        ] {
            // There are no applications yet, so an authenticated event receives an error that allows a retry.
            let expected = if is_believed { (503, "not-ready") } else { (401, "unauthorized") };
            let answer = deliver_event(&test_server, &headers, body).await;
            assert_eq!((answer.0, answer.1.as_str()), expected, "{headers:?} {body:.20}");
        }
        // Events other than pushes have no effect.
        let ping = format!("x-hub-signature-256: sha256={EMPTY_SIGNED}");
        assert_eq!(deliver_event(&test_server, &["x-github-event: ping", &ping], "{}").await.0, 202);
        assert_eq!(
            deliver_event(&test_server, &["x-gitlab-event: Note Hook", "x-gitlab-token: hunter2"], "{}")
                .await
                .0,
            202
        );
        // In the example from GitHub's documentation, the signature matches the body, but the body is not
        // JSON.
        let github =
            serve_with_secrets(Limits::default(), "webhook.github.secret: It's a Secret to Everybody").await;
        let signed =
            "x-hub-signature-256: sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let push = ["x-github-event: push", signed];
        assert_eq!(deliver_event(&github, &push, "Hello, World!").await, (400, "bad-request".to_owned()));
        assert_eq!(deliver_event(&github, &push, "Hello, World?").await, (401, "unauthorized".to_owned()));
    });
}

/// A sender that uses the generic format must receive an error about its clock rather than about a token,
/// because webhooks don't use tokens.
#[test]
fn an_old_timestamp_is_named_as_the_problem() {
    run_test(async {
        let server = serve_with_secrets(Limits::default(), ALL_SECRETS).await;
        for (time, text) in [
            ("x-tidegate-timestamp: 1", "X-Tidegate-Timestamp is too far from the current Unix time"),
            ("x-tidegate-timestamp: noon", "X-Tidegate-Timestamp is too far from the current Unix time"),
            ("accept: */*", "the X-Tidegate-Timestamp header is missing"),
        ] {
            let signature = format!("x-tidegate-signature: sha256={EMPTY_SIGNED}");
            let answer = server.request("POST", HOOK, &[JSON, &signature, time], "{}").await;
            assert_eq!((answer.status, answer.problem_code().as_str()), (401, "unauthorized"), "{time}");
            assert!(answer.body.contains(text), "{time}: {}", answer.body);
            for next in ["sign each event when sending it", "clock", "--webhook-secrets"] {
                assert!(answer.body.contains(next), "{time}: no {next} in {}", answer.body);
            }
            assert!(!answer.body.contains("Bearer"), "{time}: {}", answer.body);
        }
    });
}

#[test]
fn without_a_secret_every_event_is_rejected() {
    run_test(async {
        for secrets in
            [None, Some("webhook.gitlab.secret: hunter2"), Some("webhook.azuredevops.username: me")]
        {
            let server = match secrets {
                Some(secrets) => serve_with_secrets(Limits::default(), secrets).await,
                None => serve(Limits::default()).await,
            };
            for event in ["x-github-event: push", "x-gogs-event: push", "x-hook-uuid: ", "x-event-key: a"] {
                assert_eq!(
                    deliver_event(&server, &[event], PUSH).await,
                    (401, "unauthorized".to_owned()),
                    "{event}"
                );
            }
            // Half of a secret is not accepted.
            let half = ["x-vss-activityid: 1", "authorization: Basic bWU6"];
            assert_eq!(deliver_event(&server, &half, AZURE).await.0, 401);
        }
        // An error is reported at startup.
        let (settings, _dir) = settings_with_secrets(Limits::default(), "webhook.github: hunter2");
        let error =
            Server::listen(&settings, &Arc::new(ServerState::default())).await.err().unwrap().to_string();
        assert!(error.contains("webhook.github.secret") && !error.contains("hunter2"), "{error}");
    });
}

#[test]
fn an_unreadable_event_is_a_bad_request() {
    run_test(async {
        let limits = Limits { webhook_bytes: 20_000, ..Limits::default() };
        let server = serve_with_secrets(limits, ALL_SECRETS).await;
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
                let answer = deliver_event(&server, headers, body).await;
                assert_eq!(answer, (400, "bad-request".to_owned()), "{headers:?} {body:.60}");
            }
        }
        let push = format!("x-hub-signature-256: sha256={EMPTY_SIGNED}");
        assert_eq!(deliver_event(&server, &["x-github-event: push", &push], "{}").await.0, 400);
        assert_eq!(
            deliver_event(&server, &["x-other-event: push"], PUSH).await.0,
            400,
            "the sender is unknown"
        );
        let twice = [gitlab[0], gitlab[1], gitlab[1]];
        assert_eq!(deliver_event(&server, &twice, GITLAB).await.0, 400, "a header must not occur twice");
        let large = format!("{{\"ref\": \"{}\"}}", "x".repeat(20_000));
        assert_eq!(deliver_event(&server, &gitlab, &large).await, (413, "payload-too-large".to_owned()));
        let form = [&["content-type: application/x-www-form-urlencoded"], &gitlab[..]].concat();
        assert_eq!(
            server.request("POST", HOOK, &form, "payload=%7B%7D").await.problem_code(),
            "unsupported-media-type"
        );
    });
}

#[test]
fn events_are_rate_limited_and_block_no_other_client() {
    run_test(async {
        let webhook_rate = Rate { per_second: 0.01, burst: 2.0 };
        let server = serve_with_secrets(Limits { webhook_rate, ..Limits::default() }, ALL_SECRETS).await;
        for _ in 0..2 {
            assert_eq!(deliver_event(&server, &["x-github-event: push"], PUSH).await.0, 401);
        }
        assert_eq!(
            deliver_event(&server, &["x-github-event: push"], PUSH).await,
            (429, "too-many-requests".to_owned())
        );
        assert_eq!(server.get("/metrics").await.status, 200);
    });
}

#[test]
fn a_secret_can_be_changed_at_runtime() {
    run_test(async {
        let (settings, dir) = settings_with_secrets(Limits::default(), ALL_SECRETS);
        let path = dir.path().join("secrets");
        let server = serve_with_settings(&settings, dir).await.unwrap();
        let deliver = async |token: &str| {
            deliver_event(
                &server,
                &["x-gitlab-event: Push Hook", &format!("x-gitlab-token: {token}")],
                GITLAB,
            )
            .await
            .0
        };
        assert_eq!((deliver("hunter2").await, deliver("other").await), (503, 401));
        fs::write(&path, "webhook.gitlab.secret: other").unwrap();
        assert_eq!((deliver("hunter2").await, deliver("other").await), (401, 503));
        // If the secrets cannot be read, no event is authenticated.
        fs::write(&path, "webhook.gitlab.secret: [other]").unwrap();
        assert_eq!(deliver("other").await, 500);
        fs::remove_file(&path).unwrap();
        assert_eq!(deliver("other").await, 500);
    });
}
