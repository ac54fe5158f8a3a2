//! Who is let in, for how long, and where to.

use serde_json::json;
use tidegate_server::{Limits, Rate, Settings};

use super::{BEGIN, Change, Told, Visitor, WITH_SECRET, limits, serve, write};
use crate::client::{OPERATOR, Served, run, serve_as};
use crate::provider::{CONFIGURATION, Manners, Provider, SECRET};

const SYNC: &str = "/api/v1/applications/argocd/shop/sync";
const JSON: &str = "content-type: application/json";

#[test]
fn a_group_gives_its_role_and_no_more_and_a_session_ends_with_sign_out() {
    run(async {
        let provider = Provider::new(Manners::default());
        let served = serve(&provider, WITH_SECRET, limits()).await;
        let mut ann = Visitor::new(&served);
        let nobody = ann.who().await;
        assert_eq!(
            (&nobody["role"], &nobody["tokens"], &nobody["provider"]),
            (&json!(null), &json!(false), &json!("The Provider"))
        );
        let back = ann.leave("?next=%2Foperations%3Fby%3Dann").await;
        let traveller = ann.cookies.clone();
        assert_eq!(traveller.len(), 1, "{traveller:?}");
        let told = ann.get(&back, "sec-fetch-site: cross-site\r\n").await;
        assert_eq!((told.status, told.location()), (303, "/operations?by=ann"));
        let set: Vec<&str> = told
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
        // The provider's name for her, marked, is what is recorded; tokens have no such names.
        let who = ann.who().await;
        assert_eq!((&who["name"], &who["role"]), (&json!("oidc:ann"), &json!("operator")));
        // The log is not open here, so whoever is let in hears that.
        assert_eq!(ann.get("/api/v1/applications", "").await.status, 503);
        let (csrf, origin) = (
            format!("x-tidegate-csrf: {}", who["csrf"].as_str().unwrap()),
            format!("origin: http://{}", served.address),
        );
        let cookie = ann.cookie();
        for (headers, status) in [
            (&[cookie.as_str(), JSON][..], 403),
            (&[cookie.as_str(), JSON, &csrf, "origin: http://evil.example"][..], 403),
            (&[cookie.as_str(), JSON, &csrf, &origin][..], 503),
        ] {
            assert_eq!(served.ask("POST", SYNC, headers, "{}").await.status, status, "{headers:?}");
        }
        // A reader is refused what the page does not offer.
        provider.change(|manners| {
            manners.person =
                json!({"email": "ben@example.com", "sub": "0002", "groups": ["developers", "others"]});
        });
        let mut ben = Visitor::new(&served);
        assert_eq!(ben.sign_in("").await.location(), "/");
        let who = ben.who().await;
        assert_eq!((&who["name"], &who["role"]), (&json!("oidc:ben@example.com"), &json!("read-only")));
        let csrf = format!("x-tidegate-csrf: {}", who["csrf"].as_str().unwrap());
        let refused = served.ask("POST", SYNC, &[&ben.cookie(), JSON, &csrf, &origin], "{}").await;
        assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"));
        // Nobody opens a session by the word of another.
        assert_eq!(served.ask("POST", SYNC, &[&cookie, JSON, &csrf, &origin], "{}").await.status, 403);
        let end =
            served.ask("POST", "/api/v1/session/end", &[&ben.cookie(), JSON, &csrf, &origin], "{}").await;
        assert_eq!(end.status, 200);
        assert_eq!(ben.get("/api/v1/applications", "").await.status, 401);
        assert_eq!(ann.get("/api/v1/applications", "").await.status, 503);
        // The provider is asked for what it says of itself, and for its keys, once.
        assert_eq!(
            (provider.count(CONFIGURATION), provider.count("/keys"), provider.count("/token")),
            (1, 1, 2)
        );
    });
}

#[test]
fn without_tokens_nobody_is_let_in_who_has_not_signed_in() {
    run(async {
        let provider = Provider::new(Manners::default());
        let served = serve(&provider, WITH_SECRET, limits()).await;
        for header in ["x: y", "authorization: Bearer an-access-token", "cookie: tidegate-session=x"] {
            let answer = served.ask("GET", "/api/v1/applications", &[header], "").await;
            assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{header}");
            assert!(answer.body.contains("sign in with The Provider"), "{}", answer.body);
        }
        let origin = format!("origin: http://{}", served.address);
        let body = json!({"token": OPERATOR}).to_string();
        let answer = served.ask("POST", "/api/v1/session", &[JSON, &origin], &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad-request"));
        // Where others can reach the service, it has to say under which address.
        let mut settings = Settings::new("0.0.0.0:0".parse().unwrap());
        let dir = tempfile::tempdir().unwrap();
        let path = write(&dir, "oidc.yaml", &provider.settings(""));
        settings.oidc = Some(path);
        assert!(settings.check().is_ok());
        let error = serve_as(&settings, tempfile::tempdir().unwrap()).await.err().unwrap().to_string();
        assert!(error.contains("url: it is missing"), "{error}");
        write(&dir, "oidc.yaml", &provider.settings("url: https://deploy.example.com\n"));
        assert!(serve_as(&settings, dir).await.is_ok());
    });
}

#[test]
fn a_code_and_a_state_count_once_and_in_the_browser_in_which_they_began() {
    run(async {
        let provider = Provider::new(Manners::default());
        let served = serve(&provider, WITH_SECRET, limits()).await;
        let over = |told: &Told| {
            (told.status, told.body.contains("This sign-in is over"), told.header("location").is_some())
        };
        let refused = (400, true, false);
        let mut ann = Visitor::new(&served);
        let back = ann.leave("").await;
        // Another browser: one with nothing, and one that is on its own way.
        let mut ben = Visitor::new(&served);
        assert_eq!(over(&ben.get(&back, "").await), refused);
        let own = ben.leave("").await;
        assert_eq!(over(&ben.get(&back, "").await), refused);
        // Her own state with the code of another, and the other way round: the provider, or the cookie, tells.
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
        assert_eq!(provider.count("/token"), 0, "nobody is asked about a state that does not count");
        // What was tried in vain has ended nothing.
        let cookies = ann.cookies.clone();
        assert_eq!(ann.get(&back, "").await.status, 303);
        let mut again = Visitor { served: &served, cookies };
        assert_eq!(over(&again.get(&back, "").await), refused, "the state was used");
        // The code of somebody else, in a state of one's own: the verifier is not the one of the code.
        let mut eve = Visitor::new(&served);
        let (theirs, mut victim) = (ann.leave("").await, Visitor::new(&served));
        let code = |target: &str| target.split_once("code=").unwrap().1.split('&').next().unwrap().to_owned();
        let own = eve.leave("").await;
        let told = eve.get(&own.replace(&code(&own), &code(&theirs)), "").await;
        assert!(told.status == 502 && told.body.contains("(invalid_grant)"), "{told:?}");
        assert!(!told.body.contains("<b>"), "{}", told.body);
        // A used code, in a state that counts.
        let (first, second) = (victim.leave("").await, code(&back));
        let told = victim.get(&first.replace(&code(&first), &second), "").await;
        assert!(told.body.contains("(invalid_grant)"), "{told:?}");
    });
}

#[test]
fn whoever_is_refused_or_in_no_group_is_told_so() {
    run(async {
        let provider = Provider::new(Manners::default());
        let served = serve(&provider, WITH_SECRET, limits()).await;
        let rows: [(Change, u16, &str); 6] = [
            (|m| m.refuses = Some("access_denied"), 403, "The Provider did not let you in (access_denied)"),
            (
                |m| m.refuses = Some("<script>alert(1)</script>"),
                403,
                "did not let you in (without a word why)",
            ),
            (
                |m| m.person = json!({"preferred_username": "eve", "groups": ["guests", "<b>"]}),
                403,
                "The Provider says that you are eve, and neither you nor any of your groups has a role here. It names these groups of yours: guests, &lt;b&gt;.",
            ),
            (
                |m| m.person = json!({"preferred_username": "<script>", "groups": []}),
                403,
                "you are &lt;script&gt;,",
            ),
            (
                |m| m.person = json!({"preferred_username": "platform", "groups": "Platform"}),
                403,
                "has a role here",
            ),
            (|m| m.secret = Some("another"), 502, "refuses to say who you are (invalid_client)"),
        ];
        for (change, status, part) in rows {
            provider.change(|manners| {
                *manners = Manners::default();
                change(manners);
            });
            let mut visitor = Visitor::new(&served);
            let told = visitor.sign_in("").await;
            assert!(told.status == status && told.body.contains(part), "{part}: {told:?}");
            assert!(!told.body.contains("<script") && !told.body.contains(SECRET), "{told:?}");
            let policy = told.header("content-security-policy").unwrap();
            assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
            assert!(told.header("content-type").unwrap().starts_with("text/html"));
            assert_eq!(told.header("cache-control"), Some("no-store"));
            assert_eq!((visitor.who().await["role"].clone(), visitor.cookies.len()), (json!(null), 0));
        }
    });
}

#[test]
fn a_sign_in_leads_to_the_page_and_nowhere_else() {
    run(async {
        let provider = Provider::new(Manners::default());
        let served = serve(&provider, WITH_SECRET, limits()).await;
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
            let told = Visitor::new(&served).sign_in(&format!("?next={next}")).await;
            assert_eq!((told.status, told.location()), (303, expected), "{next}");
            assert!(told.headers.iter().all(|(_, value)| !value.starts_with("a=b")));
        }
        let other = Visitor::new(&served).get(&format!("{BEGIN}?to=/operations"), "").await;
        assert_eq!(other.status, 400, "{other:?}");
        // Another page sends nobody there.
        for site in ["cross-site", "same-site"] {
            let told = Visitor::new(&served).get(BEGIN, &format!("sec-fetch-site: {site}\r\n")).await;
            assert!(told.status == 403 && told.header("set-cookie").is_none(), "{told:?}");
        }
    });
}

#[test]
fn people_come_by_the_address_that_is_known() {
    run(async {
        let provider = Provider::new(Manners::default());
        let home = serve(&provider, WITH_SECRET, limits()).await;
        let away =
            serve(&provider, &format!("{WITH_SECRET}url: https://deploy.example.com\n"), limits()).await;
        let ask = async |served: &Served, host: &str| {
            let request = format!("GET {BEGIN} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            Told::parse(&served.raw(request.as_bytes()).await)
        };
        for host in ["localhost:80", "127.0.0.1:8480", "[::1]:80"] {
            let told = ask(&home, host).await;
            let to: String = form_urlencoded::byte_serialize(
                format!("http://{host}/api/v1/session/oidc/callback").as_bytes(),
            )
            .collect();
            assert!(
                told.status == 303 && told.location().contains(&format!("redirect_uri={to}")),
                "{told:?}"
            );
            assert!(told.header("set-cookie").unwrap().contains("; HttpOnly; SameSite=Lax"), "{told:?}");
        }
        for host in ["evil.example", "localhost.evil.example", "x@localhost", "", "localhost/evil"] {
            let told = ask(&home, host).await;
            assert!(told.status == 400 && told.body.contains("does not know as its own"), "{host}: {told:?}");
        }
        let told = ask(&away, "deploy.example.com").await;
        assert!(told.location().contains("redirect_uri=https%3A%2F%2Fdeploy.example.com%2Fapi"), "{told:?}");
        let cookie = told.header("set-cookie").unwrap();
        assert!(
            cookie.starts_with("__Host-tidegate-signing-in=") && cookie.ends_with("; Secure"),
            "{cookie}"
        );
        let told = ask(&away, "127.0.0.1:8480").await;
        assert!(told.status == 400 && told.body.contains("https://deploy.example.com"), "{told:?}");
    });
}

#[test]
fn a_session_ends_when_the_settings_say_so_and_strangers_begin_so_often() {
    run(async {
        let provider = Provider::new(Manners::default());
        let strangers = Rate { per_second: 0.001, burst: 4.0 };
        let served =
            serve(&provider, &format!("{WITH_SECRET}sessionLasts: 1m\n"), Limits { strangers, ..limits() })
                .await;
        let mut ann = Visitor::new(&served);
        let told = ann.sign_in("").await;
        let set = told.headers.iter().find(|(_, value)| value.starts_with("tidegate-session-")).unwrap();
        assert!(set.1.contains("; Max-Age=5") || set.1.contains("; Max-Age=60"), "{}", set.1);
        assert!(ann.who().await["endsInSeconds"].as_u64().unwrap() <= 60);
        // Two of four are used.
        let statuses = [
            ann.get(BEGIN, "").await.status,
            ann.get(BEGIN, "").await.status,
            ann.get(BEGIN, "").await.status,
        ];
        assert_eq!(statuses, [303, 303, 429]);
        assert_eq!(ann.get("/api/v1/session/oidc/callback", "").await.status, 429);
        // Whoever is signed in is kept out by none of that.
        assert_eq!(ann.get("/api/v1/applications", "").await.status, 503);
    });
}
