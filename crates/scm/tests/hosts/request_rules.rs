//! Tests for rules that apply to all servers: destinations of tokens, redirects, limits, and rate limits.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_generate::QueryError;
use tidegate_scm::{Limits, Web};

use crate::server::{Page, Server};
use crate::{branches, branches_by, requests_by};

const REPOS: &str = "/api/v3/orgs/o/repos?per_page=100";

fn generator(server: &Server) -> Value {
    json!({"github": {"organization": "o", "api": server.url(), "tokenRef": {"secretName": "gh", "key": "token"}}})
}

fn failed_query(web: &Web, server: &Server) -> QueryError {
    branches_by(web, generator(server)).unwrap_err()
}

fn repository() -> Value {
    json!({"id": 1, "name": "web", "owner": {"login": "o"}, "default_branch": "main"})
}

#[test]
fn a_token_stays_with_its_server_after_redirects() {
    let (server, other) = (Server::start(), Server::start());
    server.put(REPOS, Page::to("/moved?page=1"));
    server.put("/moved?page=1", Page::to(&format!("{}/elsewhere", other.url())));
    other.put("/elsewhere", Page::of(json!([repository()])));
    server
        .put("/api/v3/repos/o/web/branches/main", Page::of(json!({"name": "main", "commit": {"sha": "1"}})));
    assert_eq!(branches(generator(&server)).len(), 1);
    assert!(server.visits().iter().all(|visit| visit.headers["authorization"] == "Bearer hunter2"));
    let visits = other.visits();
    assert!(visits.len() == 1 && !visits[0].headers.contains_key("authorization"), "{visits:?}");
}

#[test]
fn blocked_redirects() {
    let server = Server::start();
    for (location, expected) in [
        ("http://169.254.169.254/latest/meta-data", "its host is a link-local"),
        ("http://[fe80::1]/", "its host is a link-local"),
        ("ftp://git.example.com/", "redirected to an invalid URL"),
        ("http://ann:pw@git.example.com/", "redirected to an invalid URL"),
        (REPOS, "redirected more than 5 times"),
    ] {
        server.put(REPOS, Page::to(location));
        let error = failed_query(&Web::default(), &server);
        assert!(error.reason.contains(expected), "{location}: {error:?}");
    }
    server.put(REPOS, Page::status(302, Value::Null));
    assert!(failed_query(&Web::default(), &server).reason.contains("returned a redirect without a location"));
}

#[test]
fn a_requested_wait_is_honored() {
    let (server, web) = (Server::start(), Web::default());
    let limited = json!({"message": "API rate limit exceeded for user ID 1. hunter2"});
    server.put(REPOS, Page::status(403, limited).with("Retry-After: 120").with("X-RateLimit-Remaining: 0"));
    let error = failed_query(&web, &server);
    assert!(
        error.reason.contains(
            "returned 403 Forbidden for GET /orgs/o/repos and is rate limiting requests; try again in 121 s"
        ),
        "{error:?}"
    );
    assert_eq!(server.visits().len(), 1);
    let error = failed_query(&web, &server);
    assert!(error.reason.contains("is rate limiting requests; try again in 1"), "{error:?}");
    assert_eq!(server.visits().len(), 0);
    // The delay applies only to this identity, so an anonymous request is still sent.
    server.put("/api/v3/repos/o/web/pulls?state=open&per_page=100", Page::of(json!([])));
    let anonymous = json!({"github": {"owner": "o", "repo": "web", "api": server.url()}});
    assert_eq!(requests_by(&web, anonymous), Ok(Vec::new()));
    let moment =
        ["Date: Sun, 22 Nov 2026 12:00:00 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1795349100"];
    let page = moment.into_iter().fold(Page::status(429, Value::Null), |page, header| page.with(header));
    server.put(REPOS, page);
    let error = failed_query(&Web::default(), &server);
    assert!(error.reason.ends_with("try again in 301 s"), "{error:?}");
}

#[test]
fn errors_name_the_request_without_the_token() {
    let server = Server::start();
    for (status, body, expected) in [
        (
            401,
            json!({"message": "Bad credentials"}),
            "returned 401 Unauthorized for GET /orgs/o/repos (Bad credentials); the server does not accept \
             key token in Secret gh",
        ),
        (
            403,
            json!({"message": "Resource not accessible"}),
            "(Resource not accessible); key token in Secret gh has no permission",
        ),
        (
            404,
            json!({"message": "Not Found"}),
            "check the names and the permissions of key token in Secret gh",
        ),
        (500, json!("hunter2"), "returned 500 Internal Server Error for GET /orgs/o/repos"),
        (502, json!({"message": "the token hunter2 hunter2\u{0}"}), "(the token *** ***)"),
        (200, json!({"message": "hunter2"}), "returned an unexpected response for /orgs/o/repos"),
        (200, json!("hunter2"), "invalid type: string \"***\", expected a sequence"),
    ] {
        server.put(REPOS, Page::status(status, body.clone()));
        let error = failed_query(&Web::default(), &server);
        assert!(error.reason.contains(expected), "{status} {body}: {error:?}");
    }
    let unreachable = json!({"github": {"organization": "o", "api": "http://127.0.0.1:1", "tokenRef": {"secretName": "gh", "key": "token"}}});
    let error = branches_by(&Web::default(), unreachable).unwrap_err();
    assert!(error.reason.contains("GitHub at http://127.0.0.1:1/api/v3 cannot be reached"), "{error:?}");
}

#[test]
fn a_failed_branch_query_is_an_error() {
    let server = Server::start();
    let mut other = repository();
    other["name"] = "api".into();
    server.put(REPOS, Page::of(json!([repository(), other])));
    server
        .put("/api/v3/repos/o/web/branches/main", Page::of(json!({"name": "main", "commit": {"sha": "1"}})));
    server.put("/api/v3/repos/o/api/branches/main", Page::status(500, Value::Null));
    assert!(
        failed_query(&Web::default(), &server)
            .reason
            .contains("returned 500 Internal Server Error for GET /repos/o/api/branches/main")
    );
}

#[test]
fn limits_of_requests() {
    let server = Server::start();
    let next = |page: u32| format!("Link: <http://x/?page={page}>; rel=\"next\"");
    server.put(REPOS, Page::of(json!([])).with(next(2)));
    for page in 2..10 {
        server.put(&format!("/api/v3/orgs/o/repos?page={page}"), Page::of(json!([])).with(next(page + 1)));
    }
    let with = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        Web::new(limits)
    };
    for (web, expected) in [
        (with(|limits| limits.pages = 3), "has more than 3 pages of /orgs/o/repos; narrow the filters"),
        (with(|limits| limits.requests = 2), "received the maximum of 2 requests for one generator"),
        (with(|limits| limits.page_bytes = 1), "returned more than 1 bytes for /orgs/o/repos"),
        (with(|limits| limits.bytes = 5), "returned more than 1 bytes"),
    ] {
        let error = failed_query(&web, &server);
        assert!(error.reason.contains(expected), "{error:?}");
    }
    server.put("/api/v3/orgs/o/repos?page=2", Page::of(json!([])).with(next(2)));
    let error = failed_query(&Web::default(), &server);
    assert!(
        error.reason.contains("returned the same page of /orgs/o/repos again as the next page"),
        "{error:?}"
    );
}

#[test]
fn an_unresponsive_server_times_out() {
    let server = Server::start();
    server.put(REPOS, Page { hangs: true, ..Page::of(Value::Null) });
    let limits = Limits { response: Duration::from_millis(50), ..Limits::default() };
    let error = failed_query(&Web::new(limits), &server);
    assert!(error.reason.contains("did not respond within 0.05 s"), "{error:?}");
    let limits = Limits { total: Duration::from_millis(50), ..Limits::default() };
    let error = failed_query(&Web::new(limits), &server);
    assert!(error.reason.contains("the response was not complete after 0.05 s"), "{error:?}");
}

#[test]
fn requests_end_at_shutdown() {
    let server = Server::start();
    server.put(REPOS, Page { hangs: true, ..Page::of(Value::Null) });
    let web = Arc::new(Web::default());
    let (asking, generator) = (Arc::clone(&web), generator(&server));
    let (tell, told) = mpsc::channel();
    let asked = thread::spawn(move || tell.send(branches_by(&asking, generator)));
    // Stop the client only after it has sent the request.
    while server.visits().is_empty() {
        thread::yield_now();
    }
    web.stop();
    assert_eq!(told.recv().unwrap().unwrap_err().reason, "the request was interrupted");
    asked.join().unwrap().unwrap();
    assert_eq!(failed_query(&web, &server).reason, "the request was interrupted");
}
