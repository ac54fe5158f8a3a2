//! What holds for all servers: where tokens go, where we are sent, how much is enough, and who asks us to wait.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_generate::Unanswered;
use tidegate_scm::{Limits, Web};

use crate::server::{Page, Server};
use crate::{branches, branches_by, requests_by};

const REPOS: &str = "/api/v3/orgs/o/repos?per_page=100";

fn generator(server: &Server) -> Value {
    json!({"github": {"organization": "o", "api": server.url(), "tokenRef": {"secretName": "gh", "key": "token"}}})
}

fn failed(web: &Web, server: &Server) -> Unanswered {
    branches_by(web, generator(server)).unwrap_err()
}

fn repository() -> Value {
    json!({"id": 1, "name": "web", "owner": {"login": "o"}, "default_branch": "main"})
}

#[test]
fn a_token_stays_with_its_server_wherever_we_are_sent() {
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
fn where_nobody_goes_though_they_are_sent_there() {
    let server = Server::start();
    for (location, expected) in [
        ("http://169.254.169.254/latest/meta-data", "its host is a link-local address"),
        ("http://[fe80::1]/", "its host is a link-local address"),
        ("ftp://git.example.com/", "sends us on to something that is no address"),
        ("http://ann:pw@git.example.com/", "sends us on to something that is no address"),
        (REPOS, "has sent us on more than 5 times"),
    ] {
        server.put(REPOS, Page::to(location));
        let error = failed(&Web::default(), &server);
        assert!(error.reason.contains(expected), "{location}: {error:?}");
    }
    server.put(REPOS, Page::status(302, Value::Null));
    assert!(failed(&Web::default(), &server).reason.contains("sends us on without saying where to"));
}

#[test]
fn who_asks_us_to_wait_is_not_asked_until_then() {
    let (server, web) = (Server::start(), Web::default());
    let limited = json!({"message": "API rate limit exceeded for user ID 1. hunter2"});
    server.put(REPOS, Page::status(403, limited).with("Retry-After: 120").with("X-RateLimit-Remaining: 0"));
    let error = failed(&web, &server);
    assert!(
        error
            .reason
            .contains("answered 403 Forbidden to GET /orgs/o/repos and asks us to wait; try again in 121 s"),
        "{error:?}"
    );
    assert_eq!(server.visits().len(), 1);
    let error = failed(&web, &server);
    assert!(error.reason.contains("has asked us to wait; try again in 1"), "{error:?}");
    assert_eq!(server.visits().len(), 0);
    // Others may ask.
    server.put("/api/v3/repos/o/web/pulls?state=open&per_page=100", Page::of(json!([])));
    let anonymous = json!({"github": {"owner": "o", "repo": "web", "api": server.url()}});
    assert_eq!(requests_by(&web, anonymous), Ok(Vec::new()));
    let moment =
        ["Date: Sun, 22 Nov 2026 12:00:00 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1795349100"];
    let page = moment.into_iter().fold(Page::status(429, Value::Null), |page, header| page.with(header));
    server.put(REPOS, page);
    let error = failed(&Web::default(), &server);
    assert!(error.reason.ends_with("try again in 301 s"), "{error:?}");
}

#[test]
fn a_refusal_says_what_was_refused_and_shows_no_token() {
    let server = Server::start();
    for (status, body, expected) in [
        (
            401,
            json!({"message": "Bad credentials"}),
            "answered 401 Unauthorized to GET /orgs/o/repos (Bad credentials); it does not accept key token of Secret gh",
        ),
        (
            403,
            json!({"message": "Resource not accessible"}),
            "(Resource not accessible); key token of Secret gh does not allow it",
        ),
        (
            404,
            json!({"message": "Not Found"}),
            "check the names, and whether key token of Secret gh may read it",
        ),
        (500, json!("hunter2"), "answered 500 Internal Server Error to GET /orgs/o/repos"),
        (502, json!({"message": "the token hunter2 hunter2\u{0}"}), "(the token *** ***)"),
        (200, json!({"message": "hunter2"}), "answers to /orgs/o/repos with what is not expected there"),
        (200, json!("hunter2"), "invalid type: string \"***\", expected a sequence"),
    ] {
        server.put(REPOS, Page::status(status, body.clone()));
        let error = failed(&Web::default(), &server);
        assert!(error.reason.contains(expected), "{status} {body}: {error:?}");
    }
    let unreachable = json!({"github": {"organization": "o", "api": "http://127.0.0.1:1", "tokenRef": {"secretName": "gh", "key": "token"}}});
    let error = branches_by(&Web::default(), unreachable).unwrap_err();
    assert!(error.reason.contains("GitHub at http://127.0.0.1:1/api/v3 cannot be reached"), "{error:?}");
}

#[test]
fn one_branch_that_cannot_be_asked_for_is_an_error_and_no_gap() {
    let server = Server::start();
    let mut other = repository();
    other["name"] = "api".into();
    server.put(REPOS, Page::of(json!([repository(), other])));
    server
        .put("/api/v3/repos/o/web/branches/main", Page::of(json!({"name": "main", "commit": {"sha": "1"}})));
    server.put("/api/v3/repos/o/api/branches/main", Page::status(500, Value::Null));
    assert!(
        failed(&Web::default(), &server)
            .reason
            .contains("500 Internal Server Error to GET /repos/o/api/branches/main")
    );
}

#[test]
fn enough_is_enough() {
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
        (with(|limits| limits.pages = 3), "has more than 3 pages of /orgs/o/repos, which is enough"),
        (with(|limits| limits.requests = 2), "was asked 2 times for one generator, which is enough"),
        (with(|limits| limits.page_bytes = 1), "answers more to /orgs/o/repos than anybody reads, 1 bytes"),
        (with(|limits| limits.bytes = 5), "than anybody reads, 1 bytes"),
    ] {
        let error = failed(&web, &server);
        assert!(error.reason.contains(expected), "{error:?}");
    }
    server.put("/api/v3/orgs/o/repos?page=2", Page::of(json!([])).with(next(2)));
    let error = failed(&Web::default(), &server);
    assert!(error.reason.contains("says of a page of /orgs/o/repos that it comes after itself"), "{error:?}");
}

#[test]
fn a_server_that_says_nothing_is_not_awaited_for_ever() {
    let server = Server::start();
    server.put(REPOS, Page { hangs: true, ..Page::of(Value::Null) });
    let limits = Limits { answer: Duration::from_millis(50), ..Limits::default() };
    let error = failed(&Web::new(limits), &server);
    assert!(error.reason.contains("did not answer within 0.05 s"), "{error:?}");
    let limits = Limits { all: Duration::from_millis(50), ..Limits::default() };
    let error = failed(&Web::new(limits), &server);
    assert!(error.reason.contains("the answer was not complete after 0.05 s"), "{error:?}");
}

#[test]
fn questions_end_with_the_process() {
    let server = Server::start();
    server.put(REPOS, Page { hangs: true, ..Page::of(Value::Null) });
    let web = Arc::new(Web::default());
    let (asking, generator) = (Arc::clone(&web), generator(&server));
    let (tell, told) = mpsc::channel();
    let asked = thread::spawn(move || tell.send(branches_by(&asking, generator)));
    // Until it is under way.
    while server.visits().is_empty() {
        thread::yield_now();
    }
    web.stop();
    assert_eq!(told.recv().unwrap().unwrap_err().reason, "it was interrupted");
    asked.join().unwrap().unwrap();
    assert_eq!(failed(&web, &server).reason, "it was interrupted");
}
