//! Those who should give tokens, and do something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::super::bench::SHORT;
use super::server::{Answer, json};
use super::*;

#[test]
fn answers_that_bring_no_token() {
    let Some(stage) = Stage::new() else { return };
    stage.give(stage.app("repository", &[]));
    let whole = |status, body: &str| Answer::Whole(status, Vec::new(), body.to_owned());
    for (answer, expected) in [
        (whole(201, "<html>"), "answers with what is no token; check githubAppEnterpriseBaseUrl"),
        (whole(200, "{}"), "answers with what is no token"),
        (whole(201, r#"{"token": ""}"#), "answers with what is no token"),
        (whole(201, r#"{"token": "hunter2\nhunter2"}"#), "answers with what is no token"),
        (json(201, &json!({"token": "hunter2".repeat(1000)})), "answers with what is no token"),
        (Answer::Endless, "longer than anybody reads"),
        (
            json(404, &json!({"message": "Not Found"})),
            "answered 404 Not Found (Not Found); check githubAppInstallationID",
        ),
        (
            json(403, &json!({"message": "This installation has been suspended"})),
            "(This installation has been suspended); check whether",
        ),
        (
            json(500, &json!({"message": "a\nb"})),
            "answered 500 Internal Server Error (a b); it is tried again",
        ),
        (whole(502, "<html>"), "answered 502 Bad Gateway; it is tried again at the next look"),
        (whole(204, ""), "answered 204 No Content; check githubAppEnterpriseBaseUrl"),
    ] {
        stage.github.behave(move |_| answer.clone());
        let error = stage.error();
        assert!(error.contains("the GitHub App of Secret given has no token: GitHub at "), "{error}");
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(stage.asked().len(), 1, "{expected}");
    }
    assert!(stage.bench.server.requests().is_empty(), "nobody was asked without a token");
    // Nothing of that is kept.
    let github = Server::github(key(0), &stage.told);
    stage.give(stage.app("repository", &[("githubAppEnterpriseBaseUrl", &github.url())]));
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!(stage.files(), Ok(1));
}

#[test]
fn who_does_not_answer_is_not_waited_for() {
    let no_answer: fn(&mut RemoteLimits) = |limits| limits.answer = SHORT;
    let no_more: fn(&mut RemoteLimits) = |limits| limits.silence = SHORT;
    for (limit, answer, expected) in
        [(no_answer, Answer::None, "did not answer within"), (no_more, Answer::Begun, "sent nothing within")]
    {
        let Some(stage) = Stage::with(limit) else { return };
        stage.give(stage.app("repository", &[]));
        stage.github.behave(move |_| answer.clone());
        let error = stage.error();
        assert!(error.contains("has no token: GitHub at ") && error.contains(expected), "{error}");
    }
}

/// A server may repeat what it was sent.
#[test]
fn nothing_that_was_sent_shows() {
    let Some(stage) = Stage::new() else { return };
    stage.give(stage.app("repository", &[]));
    stage.github.behave(|request| {
        let signature = request.bearer().rsplit('.').next().unwrap();
        json(401, &json!({"message": format!("no {} nor {signature}", request.bearer())}))
    });
    let error = stage.error();
    assert!(error.contains("(no *** nor ***)"), "{error}");
    let leaked = stage.github.requests().pop().unwrap();
    assert!(!error.contains(leaked.bearer().rsplit('.').next().unwrap()));
}

/// Whoever can have us sent on learns nothing, be it on the same server.
#[test]
fn nobody_is_sent_on_with_a_proof() {
    let Some(stage) = Stage::new() else { return };
    let other = Server::github(key(0), &stage.told);
    for (installation, there) in
        [("7", other.url()), ("", other.url()), ("", format!("{}/api/v3", stage.github.url()))]
    {
        stage.give(stage.app("repository", &[("githubAppInstallationID", installation)]));
        let location = format!("Location: {there}/app/installations/7/access_tokens");
        stage.github.behave(move |_| Answer::Whole(307, vec![location.clone()], String::new()));
        let error = stage.error();
        let expected = "answered 307 Temporary Redirect, and nobody is sent on with a proof; check githubAppEnterpriseBaseUrl";
        assert!(error.contains(expected), "{error}");
        assert_eq!((stage.asked().len(), other.requests().len()), (1, 0));
    }
}

/// GitHub: <https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api>.
#[test]
fn who_asks_us_to_wait_is_asked_again_when_that_is_over() {
    let Some(stage) = Stage::new() else { return };
    stage.give(stage.app("repo-creds", &[]));
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, ends, reset) = (Arc::clone(&is_over), stage.told.clone(), stage.told.now() + 57);
    stage.github.behave(move |_| match over.load(Ordering::SeqCst) {
        true => json(201, &json!({"token": "hunter2-1", "expires_at": tidegate_model::Timestamp::from_millis((ends.now() + 3600) * 1000).to_string()})),
        false => {
            let limits = vec!["x-ratelimit-remaining: 0".to_owned(), format!("x-ratelimit-reset: {reset}")];
            Answer::Whole(403, limits, json!({"message": "API rate limit exceeded"}).to_string())
        }
    });
    let error = stage.error();
    assert!(error.contains("asks us to wait; nobody asks again before 2026-11-22T12:00:57"), "{error}");
    assert_eq!(stage.asked().len(), 1);
    is_over.store(true, Ordering::SeqCst);
    stage.told.passes(56);
    assert!(stage.error().contains("asks us to wait"));
    assert_eq!(stage.asked().len(), 0, "not before");
    stage.told.passes(1);
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.asked().len()), (Ok(1), 1));
}

/// What waits for a token ends with everything else.
#[test]
fn asking_for_a_token_ends_when_everything_ends() {
    let Some(stage) = Stage::new() else { return };
    stage.give(stage.app("repository", &[]));
    let (told, is_asked) = std::sync::mpsc::channel();
    stage.github.behave(move |_| {
        told.send(()).unwrap();
        Answer::None
    });
    std::thread::scope(|scope| {
        let look = scope.spawn(|| stage.error());
        is_asked.recv().unwrap();
        stage.bench.repositories.stop();
        let error = look.join().unwrap();
        assert!(error.contains("it was interrupted"), "{error}");
    });
}
