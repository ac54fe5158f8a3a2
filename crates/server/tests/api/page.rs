//! Tests of the page over real connections: its files, its sessions, and requests with a cookie.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_server::{Limits, Rate, Server, ServerState, SessionStore, Settings};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::{
    OPERATOR, READER, TestResponse, TestServer, run_test, serve, serve_with_settings, settings,
};

const SYNC: &str = "/api/v1/applications/argocd/shop/sync";
const JSON: &str = "content-type: application/json";

/// Returns the value of a header.
fn header<'a>(answer: &'a TestResponse, name: &str) -> Option<&'a str> {
    answer.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

impl TestServer {
    fn origin(&self) -> String {
        format!("origin: http://{}", self.address)
    }

    async fn sign_in(&self, token: &str, headers: &[&str]) -> TestResponse {
        let body = json!({"token": token}).to_string();
        self.request("POST", "/api/v1/session", &[&[JSON], headers].concat(), &body).await
    }
}

#[test]
fn every_view_is_the_same_file_and_is_revalidated() {
    run_test(async {
        let server = serve(Limits::default()).await;
        let first = server.request("GET", "/", &[], "").await;
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
            let answer = server.request("GET", view, &[], "").await;
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
        let again = server.request("GET", "/", &[&format!("if-none-match: {tag}")], "").await;
        assert_eq!((again.status, again.body.as_str()), (304, ""));
        let script = server.request("GET", "/page/main.js", &[], "").await;
        assert!(script.head.contains("content-type: text/javascript") && script.head.contains("nosniff"));
        let head = server.request("HEAD", "/page/main.js", &[], "").await;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        for method in ["POST", "DELETE", "PUT"] {
            assert_eq!(server.request(method, "/", &[], "").await.status, 405, "{method}");
        }
    });
}

#[test]
fn a_token_opens_a_session_and_its_owner_ends_it() {
    run_test(async {
        let server = serve(Limits::default()).await;
        let anonymous = server.request("GET", "/api/v1/session", &[], "").await;
        assert_eq!(
            (anonymous.status, anonymous.json()["role"].clone(), anonymous.json()["acceptsTokens"].clone()),
            (200, json!(null), json!(true))
        );
        let origin = server.origin();
        for (token, headers, status) in [
            (OPERATOR, &[][..], 403),
            (OPERATOR, &["origin: http://evil.example"][..], 403),
            (OPERATOR, &[origin.as_str(), "sec-fetch-site: cross-site"][..], 403),
            ("nobody-has-this-token-here", &[origin.as_str()][..], 401),
        ] {
            let answer = server.sign_in(token, headers).await;
            assert_eq!((answer.status, header(&answer, "set-cookie")), (status, None), "{headers:?}");
        }
        let form = ["content-type: application/x-www-form-urlencoded", origin.as_str()];
        let answer = server.request("POST", "/api/v1/session", &form, "token=x").await;
        assert_eq!(answer.status, 415, "a form on another page could send this type");
        let signed_in = server.sign_in(OPERATOR, &[&origin]).await;
        assert_eq!((signed_in.status, signed_in.json()["role"].clone()), (200, json!("operator")));
        assert!(!signed_in.body.contains(OPERATOR) && !signed_in.head.contains(OPERATOR));
        let set = raw_cookie(&server, OPERATOR).await;
        let (cookie, csrf) = (format!("cookie: {}", set.0), format!("x-tidegate-csrf: {}", set.1));
        let who = server.request("GET", "/api/v1/session", &[&cookie], "").await;
        assert_eq!((who.json()["name"].clone(), who.json()["csrf"].clone()), (json!("ann"), json!(set.1)));
        // The log is not open in this test, so authenticated requests receive this status.
        assert_eq!(server.request("GET", "/api/v1/applications", &[&cookie], "").await.status, 503);
        for (headers, status) in [
            (&[cookie.as_str(), JSON][..], 403),
            (&[cookie.as_str(), JSON, &origin][..], 403),
            (&[cookie.as_str(), JSON, &csrf][..], 403),
            (&[cookie.as_str(), JSON, &csrf, "origin: http://evil.example"][..], 403),
            (&[cookie.as_str(), JSON, &csrf, &origin][..], 503),
        ] {
            assert_eq!(server.request("POST", SYNC, headers, "{}").await.status, status, "{headers:?}");
            assert_eq!(
                server.request("DELETE", SYNC.trim_end_matches("/sync"), headers, "").await.status,
                status,
                "{headers:?}"
            );
        }
        let end = [cookie.as_str(), JSON, &csrf, &origin];
        let ended = server.request("POST", "/api/v1/session/end", &end, "{}").await;
        assert_eq!(ended.status, 200);
        assert!(ended.head.contains("max-age=0"), "{}", ended.head);
        assert_eq!(server.request("GET", "/api/v1/applications", &[&cookie], "").await.status, 401);
        assert_eq!(
            server.request("GET", "/api/v1/session", &[&cookie], "").await.json()["role"],
            json!(null)
        );
    });
}

/// Returns the unmodified cookie and CSRF token of a new session. The test client converts the heads of other
/// responses to lower case.
async fn raw_cookie(server: &TestServer, token: &str) -> (String, String) {
    let body = json!({"token": token}).to_string();
    let request = format!(
        "POST /api/v1/session HTTP/1.1\r\nhost: {0}\r\norigin: http://{0}\r\nconnection: close\r\n{JSON}\r\ncontent-length: {1}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    let text = String::from_utf8(server.send_raw(request.as_bytes()).await).unwrap();
    let cookie = text.split_once("set-cookie: ").unwrap().1.split(';').next().unwrap().to_owned();
    let csrf = TestResponse::parse(text.as_bytes()).json()["csrf"].as_str().unwrap().to_owned();
    (cookie, csrf)
}

#[test]
fn a_session_has_only_the_permissions_of_its_token() {
    run_test(async {
        let server = serve(Limits::default()).await;
        let (cookie, csrf) = raw_cookie(&server, READER).await;
        let (cookie, csrf, origin) =
            (format!("cookie: {cookie}"), format!("x-tidegate-csrf: {csrf}"), server.origin());
        let answer = server.request("POST", SYNC, &[&cookie, JSON, &csrf, &origin], "{}").await;
        assert_eq!((answer.status, answer.problem_code().as_str()), (403, "forbidden"));
        assert!(answer.body.contains("operator"), "{}", answer.body);
    });
}

#[test]
fn only_the_user_who_started_the_process_gets_its_token() {
    run_test(async {
        let owner =
            Settings { owner: Some("ann".to_owned()), ..Settings::new("127.0.0.1:0".parse().unwrap()) };
        let server = serve_with_settings(&owner, tempfile::tempdir().unwrap()).await.unwrap();
        let token = server.server.token().unwrap().to_owned();
        let other = serve_with_settings(&owner, tempfile::tempdir().unwrap()).await.unwrap();
        assert!(token.len() >= 40 && other.server.token().unwrap() != token);
        assert_eq!(server.request("GET", "/api/v1/applications", &[], "").await.status, 401);
        let bearer = format!("authorization: Bearer {token}");
        let who = server.request("GET", "/api/v1/session", &[&bearer], "").await;
        assert_eq!(
            (who.json()["name"].clone(), who.json()["role"].clone()),
            (json!("ann"), json!("operator"))
        );
        assert_eq!(other.request("GET", "/api/v1/applications", &[&bearer], "").await.status, 401);
        assert_eq!(serve(Limits::default()).await.server.token(), None);
    });
}

#[test]
fn sign_ins_and_page_files_are_rate_limited() {
    run_test(async {
        let unauthenticated_rate = Rate { per_second: 0.001, burst: 3.0 };
        let server =
            serve(Limits { unauthenticated_rate, page_rate: unauthenticated_rate, ..Limits::default() })
                .await;
        let origin = server.origin();
        let mut statuses = Vec::new();
        for _ in 0..5 {
            statuses.push(server.sign_in("nobody-has-this-token-here", &[&origin]).await.status);
        }
        assert_eq!(statuses, [401, 401, 401, 429, 429]);
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(server.request("GET", "/page/main.js", &[], "").await.status);
        }
        assert_eq!(statuses, [200, 200, 200, 429]);
        // Neither limit affects requests with a token.
        assert_eq!(server.get("/api/v1/session").await.status, 200);
        tokio::time::timeout(Duration::from_secs(60), server.server.close()).await.unwrap();
    });
}

/// Sessions in memory, as a shared log would store them.
#[derive(Default)]
struct MemorySessions(watch::Sender<BTreeMap<String, Vec<u8>>>);

impl SessionStore for MemorySessions {
    fn load(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        Ok(self.0.borrow().clone().into_iter().collect())
    }

    fn save(&self, content: &[u8]) -> Result<String, String> {
        let name = format!("{:?}", Instant::now());
        self.0.send_modify(|all| drop(all.insert(name.clone(), content.to_vec())));
        Ok(name)
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        self.0.send_modify(|all| drop(all.remove(name)));
        Ok(())
    }
}

impl MemorySessions {
    async fn wait_for_count(&self, count: usize) {
        self.0.subscribe().wait_for(|all| all.len() == count).await.unwrap();
    }
}

async fn serve_with_sessions(sessions: &Arc<MemorySessions>) -> TestServer {
    let (settings, dir) = settings(Limits::default());
    let state = Arc::new(ServerState::default());
    state.keep_sessions(Arc::clone(sessions) as Arc<dyn SessionStore>).await;
    TestServer::new(Server::listen(&settings, &state).await.unwrap(), dir)
}

#[test]
fn a_session_outlives_the_process_that_opened_it() {
    run_test(async {
        let sessions = Arc::new(MemorySessions::default());
        let first = serve_with_sessions(&sessions).await;
        let (cookie, csrf) = raw_cookie(&first, OPERATOR).await;
        let (_, secret) = cookie.split_once('=').unwrap();
        sessions.wait_for_count(1).await;
        let stored = sessions.0.borrow().values().next().cloned().unwrap();
        assert!(!String::from_utf8(stored.clone()).unwrap().contains(secret), "the secret is not stored");
        // Expired and invalid sessions are removed.
        let mut expired: Value = serde_json::from_slice(&stored).unwrap();
        expired["expires_at"] = json!(1);
        sessions.0.send_modify(|all| {
            all.insert("expired".to_owned(), expired.to_string().into_bytes());
            all.insert("invalid".to_owned(), b"{}".to_vec());
        });
        let second = serve_with_sessions(&sessions).await;
        sessions.wait_for_count(1).await;
        let cookie = format!("cookie: tidegate-session-{}={secret}", second.address.port());
        let who = second.request("GET", "/api/v1/session", &[&cookie], "").await.json();
        assert_eq!((&who["name"], &who["csrf"]), (&json!("ann"), &json!(csrf)));
        assert!(who["expiresInSeconds"].as_u64().unwrap() <= 12 * 60 * 60, "{who}");
        // Signing out applies to later processes, too.
        let headers = [cookie.as_str(), JSON, &format!("x-tidegate-csrf: {csrf}"), &second.origin()];
        assert_eq!(second.request("POST", "/api/v1/session/end", &headers, "{}").await.status, 200);
        sessions.wait_for_count(0).await;
        let third = serve_with_sessions(&sessions).await;
        let cookie = format!("cookie: tidegate-session-{}={secret}", third.address.port());
        let who = third.request("GET", "/api/v1/session", &[&cookie], "").await.json();
        assert_eq!(who["role"], json!(null));
    });
}
