//! The page over real connections: its files, its sessions, and those who come by a cookie.

use std::time::Duration;

use serde_json::json;
use tidegate_server::{Limits, Rate, Settings};

use crate::client::{Answered, OPERATOR, READER, Served, run, serve, serve_as};

const SYNC: &str = "/api/v1/applications/argocd/shop/sync";
const JSON: &str = "content-type: application/json";

/// A value of a head.
fn header<'a>(answer: &'a Answered, name: &str) -> Option<&'a str> {
    answer.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

impl Served {
    fn origin(&self) -> String {
        format!("origin: http://{}", self.address)
    }

    async fn sign_in(&self, token: &str, headers: &[&str]) -> Answered {
        let body = json!({"token": token}).to_string();
        self.ask("POST", "/api/v1/session", &[&[JSON], headers].concat(), &body).await
    }
}

#[test]
fn every_view_is_the_same_file_which_may_be_kept_and_is_asked_for_again() {
    run(async {
        let served = serve(Limits::default()).await;
        let first = served.ask("GET", "/", &[], "").await;
        assert_eq!(first.status, 200);
        for view in [
            "/applicationsets",
            "/operations",
            "/applications/argocd/shop",
            "/applicationsets/argocd/shops",
            "/operations/01a1fdbf-da23-70f8-b7a6-18e4810d225a",
            "/?name=shop&sort=health",
            "/applications/%3Cb%3E/x",
        ] {
            let answer = served.ask("GET", view, &[], "").await;
            assert_eq!((answer.status, &answer.body), (200, &first.body), "{view}");
        }
        for header in [
            "cache-control: no-cache",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-opener-policy: same-origin",
            "content-type: text/html; charset=utf-8",
        ] {
            assert!(first.head.contains(header), "{}", first.head);
        }
        let policy = header(&first, "content-security-policy").unwrap();
        assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        let tag = header(&first, "etag").unwrap();
        let again = served.ask("GET", "/", &[&format!("if-none-match: {tag}")], "").await;
        assert_eq!((again.status, again.body.as_str()), (304, ""));
        let script = served.ask("GET", "/page/main.js", &[], "").await;
        assert!(script.head.contains("content-type: text/javascript") && script.head.contains("nosniff"));
        let head = served.ask("HEAD", "/page/main.js", &[], "").await;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        for method in ["POST", "DELETE", "PUT"] {
            assert_eq!(served.ask(method, "/", &[], "").await.status, 405, "{method}");
        }
    });
}

#[test]
fn a_session_is_opened_by_a_token_from_the_page_and_ended_by_its_owner() {
    run(async {
        let served = serve(Limits::default()).await;
        let nobody = served.ask("GET", "/api/v1/session", &[], "").await;
        assert_eq!(
            (nobody.status, nobody.json()["role"].clone(), nobody.json()["tokens"].clone()),
            (200, json!(null), json!(true))
        );
        let origin = served.origin();
        for (token, headers, status) in [
            (OPERATOR, &[][..], 403),
            (OPERATOR, &["origin: http://evil.example"][..], 403),
            (OPERATOR, &[origin.as_str(), "sec-fetch-site: cross-site"][..], 403),
            ("nobody-has-this-token-here", &[origin.as_str()][..], 401),
        ] {
            let answer = served.sign_in(token, headers).await;
            assert_eq!((answer.status, header(&answer, "set-cookie")), (status, None), "{headers:?}");
        }
        let form = ["content-type: application/x-www-form-urlencoded", origin.as_str()];
        let answer = served.ask("POST", "/api/v1/session", &form, "token=x").await;
        assert_eq!(answer.status, 415, "what a form of another page could send");
        let signed_in = served.sign_in(OPERATOR, &[&origin]).await;
        assert_eq!((signed_in.status, signed_in.json()["role"].clone()), (200, json!("operator")));
        assert!(!signed_in.body.contains(OPERATOR) && !signed_in.head.contains(OPERATOR));
        let set = raw_cookie(&served, OPERATOR).await;
        let (cookie, csrf) = (format!("cookie: {}", set.0), format!("x-tidegate-csrf: {}", set.1));
        let who = served.ask("GET", "/api/v1/session", &[&cookie], "").await;
        assert_eq!((who.json()["name"].clone(), who.json()["csrf"].clone()), (json!("ann"), json!(set.1)));
        // The log is not open here, so whoever is let in hears that.
        assert_eq!(served.ask("GET", "/api/v1/applications", &[&cookie], "").await.status, 503);
        for (headers, status) in [
            (&[cookie.as_str(), JSON][..], 403),
            (&[cookie.as_str(), JSON, &origin][..], 403),
            (&[cookie.as_str(), JSON, &csrf][..], 403),
            (&[cookie.as_str(), JSON, &csrf, "origin: http://evil.example"][..], 403),
            (&[cookie.as_str(), JSON, &csrf, &origin][..], 503),
        ] {
            assert_eq!(served.ask("POST", SYNC, headers, "{}").await.status, status, "{headers:?}");
            assert_eq!(
                served.ask("DELETE", SYNC.trim_end_matches("/sync"), headers, "").await.status,
                status,
                "{headers:?}"
            );
        }
        let end = [cookie.as_str(), JSON, &csrf, &origin];
        let ended = served.ask("POST", "/api/v1/session/end", &end, "{}").await;
        assert_eq!(ended.status, 200);
        assert!(ended.head.contains("max-age=0"), "{}", ended.head);
        assert_eq!(served.ask("GET", "/api/v1/applications", &[&cookie], "").await.status, 401);
        assert_eq!(served.ask("GET", "/api/v1/session", &[&cookie], "").await.json()["role"], json!(null));
    });
}

/// The cookie and the word of a new session, as they are: the heads of other answers are in small letters here.
async fn raw_cookie(served: &Served, token: &str) -> (String, String) {
    let body = json!({"token": token}).to_string();
    let request = format!(
        "POST /api/v1/session HTTP/1.1\r\nhost: {0}\r\norigin: http://{0}\r\nconnection: close\r\n{JSON}\r\ncontent-length: {1}\r\n\r\n{body}",
        served.address,
        body.len()
    );
    let text = String::from_utf8(served.raw(request.as_bytes()).await).unwrap();
    let cookie = text.split_once("set-cookie: ").unwrap().1.split(';').next().unwrap().to_owned();
    let csrf = Answered::parse(text.as_bytes()).json()["csrf"].as_str().unwrap().to_owned();
    (cookie, csrf)
}

#[test]
fn a_session_may_no_more_than_its_token() {
    run(async {
        let served = serve(Limits::default()).await;
        let (cookie, csrf) = raw_cookie(&served, READER).await;
        let (cookie, csrf, origin) =
            (format!("cookie: {cookie}"), format!("x-tidegate-csrf: {csrf}"), served.origin());
        let answer = served.ask("POST", SYNC, &[&cookie, JSON, &csrf, &origin], "{}").await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"));
        assert!(answer.body.contains("operator"), "{}", answer.body);
    });
}

#[test]
fn who_started_the_process_has_a_token_that_nobody_else_has() {
    run(async {
        let owner =
            Settings { owner: Some("ann".to_owned()), ..Settings::new("127.0.0.1:0".parse().unwrap()) };
        let served = serve_as(&owner, tempfile::tempdir().unwrap()).await.unwrap();
        let token = served.server.token().unwrap().to_owned();
        let other = serve_as(&owner, tempfile::tempdir().unwrap()).await.unwrap();
        assert!(token.len() >= 40 && other.server.token().unwrap() != token);
        assert_eq!(served.ask("GET", "/api/v1/applications", &[], "").await.status, 401);
        let bearer = format!("authorization: Bearer {token}");
        let who = served.ask("GET", "/api/v1/session", &[&bearer], "").await;
        assert_eq!(
            (who.json()["name"].clone(), who.json()["role"].clone()),
            (json!("ann"), json!("operator"))
        );
        assert_eq!(other.ask("GET", "/api/v1/applications", &[&bearer], "").await.status, 401);
        assert_eq!(serve(Limits::default()).await.server.token(), None);
    });
}

#[test]
fn nobody_guesses_tokens_by_signing_in_and_files_are_given_out_so_often() {
    run(async {
        let strangers = Rate { per_second: 0.001, burst: 3.0 };
        let served = serve(Limits { strangers, visitors: strangers, ..Limits::default() }).await;
        let origin = served.origin();
        let mut told = Vec::new();
        for _ in 0..5 {
            told.push(served.sign_in("nobody-has-this-token-here", &[&origin]).await.status);
        }
        assert_eq!(told, [401, 401, 401, 429, 429]);
        let mut told = Vec::new();
        for _ in 0..4 {
            told.push(served.ask("GET", "/page/main.js", &[], "").await.status);
        }
        assert_eq!(told, [200, 200, 200, 429]);
        // Whoever has a token is kept out by neither.
        assert_eq!(served.get("/api/v1/session").await.status, 200);
        tokio::time::timeout(Duration::from_secs(60), served.server.close()).await.unwrap();
    });
}
