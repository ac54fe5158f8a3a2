//! Tests with token servers that misbehave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::super::fixture::SHORT;
use super::server::{ServerResponse, json};
use super::*;

#[test]
fn responses_without_a_token() {
    let Some(stage) = TokenFixture::new() else { return };
    stage.set_credentials(stage.app("repository", &[]));
    let whole = |status, body: &str| ServerResponse::Complete(status, Vec::new(), body.to_owned());
    for (answer, expected) in [
        (whole(201, "<html>"), "returned a response without a token; check githubAppEnterpriseBaseUrl"),
        (whole(200, "{}"), "returned a response without a token"),
        (whole(201, r#"{"token": ""}"#), "returned a response without a token"),
        (whole(201, r#"{"token": "hunter2\nhunter2"}"#), "returned a response without a token"),
        (json(201, &json!({"token": "hunter2".repeat(1000)})), "returned a response without a token"),
        (ServerResponse::Endless, "response is too large"),
        (
            json(404, &json!({"message": "Not Found"})),
            "returned 404 Not Found (Not Found); check githubAppInstallationID",
        ),
        (
            json(403, &json!({"message": "This installation has been suspended"})),
            "(This installation has been suspended); check the App's permissions",
        ),
        (
            json(500, &json!({"message": "a\nb"})),
            "returned 500 Internal Server Error (a b); the next comparison",
        ),
        (whole(502, "<html>"), "returned 502 Bad Gateway; the next comparison will try again"),
        (whole(204, ""), "returned 204 No Content; check githubAppEnterpriseBaseUrl"),
    ] {
        stage.github.set_responses(move |_| answer.clone());
        let error = stage.error();
        assert!(
            error.contains("cannot get a token for the GitHub App in Secret given: GitHub at "),
            "{error}"
        );
        assert!(error.contains(expected), "{expected}: {error}");
        assert_eq!(stage.token_requests().len(), 1, "{expected}");
    }
    assert!(stage.bench.server.requests().is_empty(), "no request was sent without a token");
    // These errors aren't cached, so the next request succeeds.
    let github = Server::github(key(0), &stage.clock);
    stage.set_credentials(stage.app("repository", &[("githubAppEnterpriseBaseUrl", &github.url())]));
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!(stage.files(), Ok(1));
}

#[test]
fn an_unresponsive_token_server_times_out() {
    let no_answer: fn(&mut RemoteLimits) = |limits| limits.response = SHORT;
    let no_more: fn(&mut RemoteLimits) = |limits| limits.idle = SHORT;
    for (limit, answer, expected) in [
        (no_answer, ServerResponse::None, "did not respond within"),
        (no_more, ServerResponse::Incomplete, "sent nothing within"),
    ] {
        let Some(stage) = TokenFixture::with(limit) else { return };
        stage.set_credentials(stage.app("repository", &[]));
        stage.github.set_responses(move |_| answer.clone());
        let error = stage.error();
        assert!(error.contains("cannot get a token for ") && error.contains(expected), "{error}");
    }
}

/// A server may echo the request, so errors must omit that part of the response.
#[test]
fn errors_contain_no_sent_secrets() {
    let Some(stage) = TokenFixture::new() else { return };
    stage.set_credentials(stage.app("repository", &[]));
    stage.github.set_responses(|request| {
        let signature = request.bearer().rsplit('.').next().unwrap();
        json(401, &json!({"message": format!("no {} nor {signature}", request.bearer())}))
    });
    let error = stage.error();
    assert!(error.contains("(no *** nor ***)"), "{error}");
    let leaked = stage.github.requests().pop().unwrap();
    assert!(!error.contains(leaked.bearer().rsplit('.').next().unwrap()));
}

/// The signed token must not be sent to the target of a redirect, even on the same server.
#[test]
fn redirects_with_an_assertion_are_not_followed() {
    let Some(stage) = TokenFixture::new() else { return };
    let other = Server::github(key(0), &stage.clock);
    for (installation, there) in
        [("7", other.url()), ("", other.url()), ("", format!("{}/api/v3", stage.github.url()))]
    {
        stage.set_credentials(stage.app("repository", &[("githubAppInstallationID", installation)]));
        let location = format!("Location: {there}/app/installations/7/access_tokens");
        stage
            .github
            .set_responses(move |_| ServerResponse::Complete(307, vec![location.clone()], String::new()));
        let error = stage.error();
        let expected = "returned 307 Temporary Redirect, and Tidegate does not send credentials to redirect targets; check githubAppEnterpriseBaseUrl";
        assert!(error.contains(expected), "{error}");
        assert_eq!((stage.token_requests().len(), other.requests().len()), (1, 0));
    }
}

/// GitHub's rate limits are documented at
/// <https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api>.
#[test]
fn a_requested_wait_is_honored() {
    let Some(stage) = TokenFixture::new() else { return };
    stage.set_credentials(stage.app("repo-creds", &[]));
    let is_over = Arc::new(AtomicBool::new(false));
    let (over, ends, reset) = (Arc::clone(&is_over), stage.clock.clone(), stage.clock.now() + 57);
    stage.github.set_responses(move |_| match over.load(Ordering::SeqCst) {
        true => json(201, &json!({"token": "hunter2-1", "expires_at": tidegate_model::Timestamp::from_millis((ends.now() + 3600) * 1000).to_string()})),
        false => {
            let limits = vec!["x-ratelimit-remaining: 0".to_owned(), format!("x-ratelimit-reset: {reset}")];
            ServerResponse::Complete(403, limits, json!({"message": "API rate limit exceeded"}).to_string())
        }
    });
    let error = stage.error();
    assert!(
        error.contains("is rate limiting requests; the next request is sent after 2026-11-22T12:00:57"),
        "{error}"
    );
    assert_eq!(stage.token_requests().len(), 1);
    is_over.store(true, Ordering::SeqCst);
    stage.clock.advance(56);
    assert!(stage.error().contains("is rate limiting requests"));
    assert_eq!(stage.token_requests().len(), 0, "no request is sent before the delay has ended");
    stage.clock.advance(1);
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(1), 1));
}

/// A shutdown must cancel token requests.
#[test]
fn token_requests_end_at_shutdown() {
    let Some(stage) = TokenFixture::new() else { return };
    stage.set_credentials(stage.app("repository", &[]));
    let (told, is_asked) = std::sync::mpsc::channel();
    stage.github.set_responses(move |_| {
        told.send(()).unwrap();
        ServerResponse::None
    });
    std::thread::scope(|scope| {
        let look = scope.spawn(|| stage.error());
        is_asked.recv().unwrap();
        stage.bench.repositories.stop();
        let error = look.join().unwrap();
        assert!(error.contains("the request was interrupted"), "{error}");
    });
}
