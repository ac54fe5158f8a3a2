//! Access after sign-in: permitted users, duration, and pages.

use serde_json::json;
use tidegate_server::{Limits, Rate, Settings};

use super::{BEGIN, Browser, ProviderChange, RawResponse, WITH_SECRET, limits, serve, write_file};
use crate::client::{OPERATOR, TestServer, run_test, serve_with_settings};
use crate::provider::{CONFIGURATION, Provider, ProviderBehavior, SECRET};

const SYNC: &str = "/api/v1/applications/argocd/shop/sync";
const JSON: &str = "content-type: application/json";

#[test]
fn a_group_gives_only_its_role_and_sign_out_ends_the_session() {
    run_test(async {
        let provider = Provider::new(ProviderBehavior::default());
        let server = serve(&provider, WITH_SECRET, limits()).await;
        let mut ann = Browser::new(&server);
        let anonymous = ann.session().await;
        assert_eq!(
            (&anonymous["role"], &anonymous["acceptsTokens"], &anonymous["provider"]),
            (&json!(null), &json!(false), &json!("The Provider"))
        );
        let back = ann.start_login("?next=%2Foperations%3Fby%3Dann").await;
        let traveller = ann.cookies.clone();
        assert_eq!(traveller.len(), 1, "{traveller:?}");
        let response = ann.get(&back, "sec-fetch-site: cross-site\r\n").await;
        assert_eq!((response.status, response.location()), (303, "/operations?by=ann"));
        let set: Vec<&str> = response
            .headers
            .iter()
            .filter(|(name, _)| name == "set-cookie")
            .map(|(_, value)| value.as_str())
            .collect();
        let session = set.iter().find(|cookie| cookie.starts_with("tidegate-session-")).unwrap();
        for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43"] {
            assert!(session.contains(part), "{session}");
        }
        assert!(ann.cookies.keys().all(|name| !name.contains("signing-in")), "{:?}", ann.cookies);
        // The recorded name is the name from the provider, with a prefix that token names cannot have.
        let who = ann.session().await;
        assert_eq!((&who["name"], &who["role"]), (&json!("oidc:ann"), &json!("operator")));
        // The log is not open in this test, so authenticated requests receive this status.
        assert_eq!(ann.get("/api/v1/applications", "").await.status, 503);
        let (csrf, origin) = (
            format!("x-tidegate-csrf: {}", who["csrf"].as_str().unwrap()),
            format!("origin: http://{}", server.address),
        );
        let cookie = ann.cookie_header();
        for (headers, status) in [
            (&[cookie.as_str(), JSON][..], 403),
            (&[cookie.as_str(), JSON, &csrf, "origin: http://evil.example"][..], 403),
            (&[cookie.as_str(), JSON, &csrf, &origin][..], 503),
        ] {
            assert_eq!(server.request("POST", SYNC, headers, "{}").await.status, status, "{headers:?}");
        }
        // The API rejects actions of a read-only user, even though the page does not offer them.
        provider.change(|manners| {
            manners.person =
                json!({"email": "ben@example.com", "sub": "0002", "groups": ["developers", "others"]});
        });
        let mut ben = Browser::new(&server);
        assert_eq!(ben.sign_in("").await.location(), "/");
        let who = ben.session().await;
        assert_eq!((&who["name"], &who["role"]), (&json!("oidc:ben@example.com"), &json!("read-only")));
        let csrf = format!("x-tidegate-csrf: {}", who["csrf"].as_str().unwrap());
        let refused = server.request("POST", SYNC, &[&ben.cookie_header(), JSON, &csrf, &origin], "{}").await;
        assert_eq!((refused.status, refused.problem_code().as_str()), (403, "forbidden"));
        // The CSRF token of another session is rejected.
        assert_eq!(server.request("POST", SYNC, &[&cookie, JSON, &csrf, &origin], "{}").await.status, 403);
        let end = server
            .request("POST", "/api/v1/session/end", &[&ben.cookie_header(), JSON, &csrf, &origin], "{}")
            .await;
        assert_eq!(end.status, 200);
        assert_eq!(ben.get("/api/v1/applications", "").await.status, 401);
        assert_eq!(ann.get("/api/v1/applications", "").await.status, 503);
        // The service fetches the provider's metadata and keys only once.
        assert_eq!(
            (provider.count(CONFIGURATION), provider.count("/keys"), provider.count("/token")),
            (1, 1, 2)
        );
    });
}

#[test]
fn without_tokens_only_signed_in_people_have_access() {
    run_test(async {
        let provider = Provider::new(ProviderBehavior::default());
        let server = serve(&provider, WITH_SECRET, limits()).await;
        for header in ["x: y", "authorization: Bearer an-access-token", "cookie: tidegate-session=x"] {
            let answer = server.request("GET", "/api/v1/applications", &[header], "").await;
            assert_eq!((answer.status, answer.problem_code().as_str()), (401, "unauthorized"), "{header}");
            assert!(answer.body.contains("sign in with The Provider"), "{}", answer.body);
        }
        let origin = format!("origin: http://{}", server.address);
        let body = json!({"token": OPERATOR}).to_string();
        let answer = server.request("POST", "/api/v1/session", &[JSON, &origin], &body).await;
        assert_eq!((answer.status, answer.problem_code().as_str()), (400, "bad-request"));
        // If other machines can reach the service, its URL must be configured.
        let mut settings = Settings::new("0.0.0.0:0".parse().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let path = write_file(&dir, "oidc.yaml", &provider.settings(""));
        settings.oidc = Some(path);
        assert!(settings.check().is_ok());
        let error =
            serve_with_settings(&settings, tempfile::tempdir().unwrap()).await.err().unwrap().to_string();
        assert!(error.contains("url: missing"), "{error}");
        write_file(&dir, "oidc.yaml", &provider.settings("url: https://deploy.example.com\n"));
        assert!(serve_with_settings(&settings, dir).await.is_ok());
    });
}

#[test]
fn code_and_state_are_valid_once_and_in_their_own_browser() {
    run_test(async {
        let provider = Provider::new(ProviderBehavior::default());
        let test_server = serve(&provider, WITH_SECRET, limits()).await;
        let over = |response: &RawResponse| {
            (
                response.status,
                response.body.contains("This sign-in has expired or was already used"),
                response.header("location").is_some(),
            )
        };
        let refused = (400, true, false);
        let mut ann = Browser::new(&test_server);
        let back = ann.start_login("").await;
        // Another browser tries to complete the login, first without cookies, then with its own login in
        // progress.
        let mut ben = Browser::new(&test_server);
        assert_eq!(over(&ben.get(&back, "").await), refused);
        let own = ben.start_login("").await;
        assert_eq!(over(&ben.get(&back, "").await), refused);
        // Ann's code is combined with a wrong state: another login's state, an empty state, or no state.
        let state =
            |target: &str| target.split_once("state=").unwrap().1.split('&').next().unwrap().to_owned();
        for wrong in [
            back.replace(&state(&back), &state(&own)),
            back.replace(&state(&back), ""),
            back.replace("state=", "other="),
            "/api/v1/session/oidc/callback".to_owned(),
            "/api/v1/session/oidc/callback?code=x".to_owned(),
        ] {
            assert_eq!(over(&ann.get(&wrong, "").await), refused, "{wrong}");
        }
        assert_eq!(provider.count("/token"), 0, "an invalid state causes no request to the provider");
        // The failed attempts have not ended the login.
        let cookies = ann.cookies.clone();
        assert_eq!(ann.get(&back, "").await.status, 303);
        let mut again = Browser { server: &test_server, cookies };
        assert_eq!(over(&again.get(&back, "").await), refused, "the state was used");
        // If Eve uses another user's code with her own state, the verifier does not match the code.
        let mut eve = Browser::new(&test_server);
        let (theirs, mut victim) = (ann.start_login("").await, Browser::new(&test_server));
        let code = |target: &str| target.split_once("code=").unwrap().1.split('&').next().unwrap().to_owned();
        let own = eve.start_login("").await;
        let response = eve.get(&own.replace(&code(&own), &code(&theirs)), "").await;
        assert!(response.status == 502 && response.body.contains("(invalid_grant)"), "{response:?}");
        assert!(!response.body.contains("<b>"), "{}", response.body);
        // A used code is rejected, even with a valid state.
        let (first, second) = (victim.start_login("").await, code(&back));
        let response = victim.get(&first.replace(&code(&first), &second), "").await;
        assert!(response.body.contains("(invalid_grant)"), "{response:?}");
    });
}

#[test]
fn people_who_are_denied_or_in_no_group_get_the_reason() {
    run_test(async {
        let provider = Provider::new(ProviderBehavior::default());
        let server = serve(&provider, WITH_SECRET, limits()).await;
        let rows: [(ProviderChange, u16, &str); 6] = [
            (|m| m.refuses = Some("access_denied"), 403, "The Provider rejected the sign-in (access_denied)"),
            (
                |m| m.refuses = Some("<script>alert(1)</script>"),
                403,
                "rejected the sign-in (no reason given)",
            ),
            (
                |m| m.person = json!({"preferred_username": "eve", "groups": ["guests", "<b>"]}),
                403,
                "The Provider authenticated you as eve, but neither you nor any of your groups has a role in this service. The provider reports these groups: guests, &lt;b&gt;.",
            ),
            (
                |m| m.person = json!({"preferred_username": "<script>", "groups": []}),
                403,
                "authenticated you as &lt;script&gt;,",
            ),
            (
                |m| m.person = json!({"preferred_username": "platform", "groups": "Platform"}),
                403,
                "has a role in this service",
            ),
            (|m| m.secret = Some("another"), 502, "rejected the sign-in (invalid_client)"),
        ];
        for (change, status, part) in rows {
            provider.change(|manners| {
                *manners = ProviderBehavior::default();
                change(manners);
            });
            let mut visitor = Browser::new(&server);
            let response = visitor.sign_in("").await;
            assert!(response.status == status && response.body.contains(part), "{part}: {response:?}");
            assert!(!response.body.contains("<script") && !response.body.contains(SECRET), "{response:?}");
            let policy = response.header("content-security-policy").unwrap();
            assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
            assert!(response.header("content-type").unwrap().starts_with("text/html"));
            assert_eq!(response.header("cache-control"), Some("no-store"));
            assert_eq!((visitor.session().await["role"].clone(), visitor.cookies.len()), (json!(null), 0));
        }
    });
}

#[test]
fn a_sign_in_redirects_only_to_the_page() {
    run_test(async {
        let provider = Provider::new(ProviderBehavior::default());
        let server = serve(&provider, WITH_SECRET, limits()).await;
        for (next, expected) in [
            (
                "/operations/01a1fdbf-da23-70f8-b7a6-18e4810d225a",
                "/operations/01a1fdbf-da23-70f8-b7a6-18e4810d225a",
            ),
            ("/?name=shop", "/?name=shop"),
            ("//evil.example", "/"),
            ("///evil.example/operations", "/"),
            ("/\\evil.example", "/"),
            ("\\\\evil.example", "/"),
            ("/%2fevil.example", "/"),
            ("/%5Cevil.example", "/"),
            ("/\tevil.example", "/"),
            ("/\r\nset-cookie: a=b", "/"),
            ("https://evil.example/", "/"),
            ("javascript:alert(1)", "/"),
            ("/operations/..//evil.example", "/"),
            ("/api/v1/session/oidc", "/"),
            ("evil.example", "/"),
        ] {
            let next: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
            let response = Browser::new(&server).sign_in(&format!("?next={next}")).await;
            assert_eq!((response.status, response.location()), (303, expected), "{next}");
            assert!(response.headers.iter().all(|(_, value)| !value.starts_with("a=b")));
        }
        let other = Browser::new(&server).get(&format!("{BEGIN}?to=/operations"), "").await;
        assert_eq!(other.status, 400, "{other:?}");
        // Another site cannot start a login.
        for state in ["cross-site", "same-site"] {
            let response = Browser::new(&server).get(BEGIN, &format!("sec-fetch-site: {state}\r\n")).await;
            assert!(response.status == 403 && response.header("set-cookie").is_none(), "{response:?}");
        }
    });
}

#[test]
fn sign_in_works_only_at_the_configured_address() {
    run_test(async {
        let provider = Provider::new(ProviderBehavior::default());
        let home = serve(&provider, WITH_SECRET, limits()).await;
        let away =
            serve(&provider, &format!("{WITH_SECRET}url: https://deploy.example.com\n"), limits()).await;
        let ask = async |server: &TestServer, host: &str| {
            let request = format!("GET {BEGIN} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            RawResponse::parse(&server.send_raw(request.as_bytes()).await)
        };
        for host in ["localhost:80", "127.0.0.1:8480", "[::1]:80"] {
            let response = ask(&home, host).await;
            let to: String = form_urlencoded::byte_serialize(
                format!("http://{host}/api/v1/session/oidc/callback").as_bytes(),
            )
            .collect();
            assert!(
                response.status == 303 && response.location().contains(&format!("redirect_uri={to}")),
                "{response:?}"
            );
            assert!(
                response.header("set-cookie").unwrap().contains("; HttpOnly; SameSite=Lax"),
                "{response:?}"
            );
        }
        let (unknown, invalid) = ("is not configured as the address of this service", "the Host header ");
        for (host, problem) in [
            ("evil.example", unknown),
            ("localhost.evil.example", unknown),
            ("x@localhost", invalid),
            ("", invalid),
            ("localhost/evil", invalid),
        ] {
            let response = ask(&home, host).await;
            assert!(response.status == 400 && response.body.contains(problem), "{host}: {response:?}");
        }
        let response = ask(&away, "deploy.example.com").await;
        assert!(
            response.location().contains("redirect_uri=https%3A%2F%2Fdeploy.example.com%2Fapi"),
            "{response:?}"
        );
        let cookie = response.header("set-cookie").unwrap();
        assert!(
            cookie.starts_with("__Host-tidegate-signing-in=") && cookie.ends_with("; Secure"),
            "{cookie}"
        );
        let response = ask(&away, "127.0.0.1:8480").await;
        assert!(
            response.status == 400 && response.body.contains("https://deploy.example.com"),
            "{response:?}"
        );
    });
}

#[test]
fn sessions_last_as_configured_and_sign_ins_are_rate_limited() {
    run_test(async {
        let provider = Provider::new(ProviderBehavior::default());
        let unauthenticated_rate = Rate { per_second: 0.001, burst: 4.0 };
        let server = serve(
            &provider,
            &format!("{WITH_SECRET}sessionLasts: 1m\n"),
            Limits { unauthenticated_rate, ..limits() },
        )
        .await;
        let mut ann = Browser::new(&server);
        let response = ann.sign_in("").await;
        let set = response.headers.iter().find(|(_, value)| value.starts_with("tidegate-session-")).unwrap();
        assert!(set.1.contains("; Max-Age=5") || set.1.contains("; Max-Age=60"), "{}", set.1);
        assert!(ann.session().await["expiresInSeconds"].as_u64().unwrap() <= 60);
        // Two of four logins are in progress.
        let statuses = [
            ann.get(BEGIN, "").await.status,
            ann.get(BEGIN, "").await.status,
            ann.get(BEGIN, "").await.status,
        ];
        assert_eq!(statuses, [303, 303, 429]);
        assert_eq!(ann.get("/api/v1/session/oidc/callback", "").await.status, 429);
        // Signed-in users are not affected.
        assert_eq!(ann.get("/api/v1/applications", "").await.status, 503);
    });
}
