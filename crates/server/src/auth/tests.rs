#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::time::Duration;

use super::*;
use crate::access::Role;

const TOKEN: &str = "correct-horse-battery-staple";
const HOST: &str = "127.0.0.1:8480";
const PAGE: [(&str, &str); 2] = [("host", HOST), ("origin", "http://127.0.0.1:8480")];

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    lines.iter().map(line).collect()
}

fn authenticator() -> Arc<Authenticator> {
    Arc::new(Authenticator::new(Some(Tokens::for_owner("ann", TOKEN)), None, 8480, false))
}

fn sign_in(
    entrance: &Arc<Authenticator>,
    lines: &[(&str, &str)],
    token: &str,
) -> Result<NewSession, Problem> {
    entrance.sign_in_with_token(token, &RequestOrigin::new(entrance, &headers(lines), false), Instant::now())
}

/// Returns the cookie in the format that browsers use in requests.
fn cookie_header(cookie: &HeaderValue) -> String {
    cookie.to_str().unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn cookies_belong_to_this_service_and_are_hidden_from_scripts() {
    let entrance = authenticator();
    let plain = sign_in(&entrance, &PAGE, TOKEN).unwrap();
    assert_eq!(plain.caller.name, "ann");
    let text = plain.cookie.as_ref().unwrap().to_str().unwrap().to_owned();
    assert!(text.starts_with("tidegate-session-8480=") && !text.contains(TOKEN), "{text}");
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("Secure"));
    let page = [("host", "deploy.example.com"), ("origin", "https://deploy.example.com")];
    let secure = sign_in(&entrance, &page, TOKEN).unwrap().cookie.unwrap();
    let text = secure.to_str().unwrap();
    assert!(text.starts_with("__Host-tidegate-session=") && text.ends_with("; Secure"), "{text}");
    for forgotten in entrance.expired_session_cookies() {
        assert!(forgotten.unwrap().to_str().unwrap().contains("=; Path=/; Max-Age=0;"));
    }
}

#[test]
fn sign_in_from_another_page_or_with_another_token_fails() {
    let entrance = authenticator();
    for (lines, code) in [
        (&[("host", HOST)][..], Code::Forbidden),
        (&[("origin", "http://127.0.0.1:8480")][..], Code::Forbidden),
        (&[("host", HOST), ("origin", "null")][..], Code::Forbidden),
        (&[("host", HOST), ("origin", "http://127.0.0.1:8481")][..], Code::Forbidden),
        (&[("host", HOST), ("origin", "http://localhost:8480")][..], Code::Forbidden),
        (&[("host", HOST), ("origin", "http://evil.example")][..], Code::Forbidden),
        (&[("host", HOST), ("origin", "file://127.0.0.1:8480")][..], Code::Forbidden),
        (&[("host", HOST), ("origin", "http://x@127.0.0.1:8480")][..], Code::Forbidden),
        (&[PAGE[0], PAGE[1], ("sec-fetch-site", "cross-site")][..], Code::Forbidden),
        (&[PAGE[0], PAGE[1], ("sec-fetch-site", "same-site")][..], Code::Forbidden),
        (&[PAGE[0], PAGE[1], ("origin", "http://evil.example")][..], Code::BadRequest),
    ] {
        let problem = sign_in(&entrance, lines, TOKEN).err().unwrap();
        assert_eq!(problem.code, code, "{lines:?}: {}", problem.message);
    }
    for token in ["", "ann", "correct-horse", &TOKEN[1..]] {
        assert_eq!(sign_in(&entrance, &PAGE, token).err().unwrap().code, Code::Unauthorized, "{token}");
    }
    assert!(sign_in(&entrance, &[PAGE[0], PAGE[1], ("sec-fetch-site", "same-origin")], TOKEN).is_ok());
    let open = Arc::new(Authenticator::new(None, None, 8480, false));
    assert_eq!(sign_in(&open, &PAGE, TOKEN).err().unwrap().code, Code::BadRequest);
}

#[test]
fn changes_with_a_cookie_are_accepted_only_from_our_own_page() {
    let (entrance, now) = (authenticator(), Instant::now());
    let signed_in = sign_in(&entrance, &PAGE, TOKEN).unwrap();
    let cookie = format!("theme=dark; {}", cookie_header(signed_in.cookie.as_ref().unwrap()));
    let csrf = signed_in.session.csrf().to_owned();
    let ask = |method: Method, more: &[(&str, &str)]| {
        let lines = [&[("host", HOST), ("cookie", &cookie)][..], more].concat();
        entrance
            .authenticate(&method, &headers(&lines), now)
            .map(|(by, _)| by.name)
            .map_err(|problem| problem.code)
    };
    let (origin, word) = (PAGE[1], ("x-tidegate-csrf", csrf.as_str()));
    assert_eq!(ask(Method::GET, &[]), Ok("ann".to_owned()));
    for method in [Method::POST, Method::DELETE, Method::PUT, Method::PATCH] {
        assert_eq!(ask(method.clone(), &[origin, word]), Ok("ann".to_owned()));
        for wrong in [
            &[][..],
            &[origin][..],
            &[word][..],
            &[origin, ("x-tidegate-csrf", "")][..],
            &[origin, ("x-tidegate-csrf", &csrf[1..])][..],
            &[("origin", "http://evil.example"), word][..],
            &[("origin", "null"), word][..],
            &[origin, word, ("sec-fetch-site", "cross-site")][..],
        ] {
            assert_eq!(ask(method.clone(), wrong), Err(Code::Forbidden), "{method} {wrong:?}");
        }
    }
    // Browsers never send a token on their own, so a request with a token doesn't need further proof.
    let token = format!("Bearer {TOKEN}");
    assert_eq!(ask(Method::POST, &[("authorization", &token)]), Ok("ann".to_owned()));
    // A valid cookie does not make up for an invalid token.
    assert_eq!(ask(Method::GET, &[("authorization", "Bearer nobody")]), Err(Code::Unauthorized));
    signed_in.session.end();
    assert_eq!(ask(Method::GET, &[]), Err(Code::Unauthorized));
}

#[test]
fn the_cookie_of_another_local_service_opens_no_session() {
    let (ours, theirs, now) = (
        authenticator(),
        Arc::new(Authenticator::new(Some(Tokens::for_owner("ben", TOKEN)), None, 9000, false)),
        Instant::now(),
    );
    let cookie = cookie_header(&sign_in(&theirs, &PAGE, TOKEN).unwrap().cookie.unwrap());
    assert!(cookie.starts_with("tidegate-session-9000="));
    for cookie in [cookie.clone(), cookie.replace("9000", "8480"), String::new(), "=;=".to_owned()] {
        let authenticate =
            ours.authenticate(&Method::GET, &headers(&[("host", HOST), ("cookie", &cookie)]), now);
        assert_eq!(authenticate.err().unwrap().code, Code::Unauthorized, "{cookie}");
    }
}

#[test]
fn a_session_ends_with_its_token_and_with_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens");
    let write = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, closed).unwrap();
    };
    write(&format!("ann operator {TOKEN}\n"));
    let entrance = Arc::new(Authenticator::new(Some(Tokens::open(&path).unwrap()), None, 8480, false));
    let cookie = cookie_header(&sign_in(&entrance, &PAGE, TOKEN).unwrap().cookie.unwrap());
    let authenticate =
        |now| entrance.authenticate(&Method::GET, &headers(&[("host", HOST), ("cookie", &cookie)]), now);
    let mut now = Instant::now();
    let (by, pass) = authenticate(now).unwrap();
    assert!(by.role == crate::access::Role::Operator && pass.is_valid(now));
    // A token's permissions are read again on each request.
    write(&format!("ann read-only {TOKEN}\n"));
    now += Duration::from_secs(1);
    assert_eq!(authenticate(now).unwrap().0.role, crate::access::Role::ReadOnly);
    write(&format!("ben operator {TOKEN}-too\n"));
    now += Duration::from_secs(1);
    assert!(!pass.is_valid(now), "open event streams end as well");
    assert_eq!(authenticate(now).err().unwrap().code, Code::Unauthorized);
}

/// Another host in the same domain can set a cookie that doesn't require TLS.
#[test]
fn over_tls_the_plain_http_cookie_is_not_accepted() {
    for (is_tls, expected) in [(false, Ok("ann".to_owned())), (true, Err(Code::Unauthorized))] {
        let entrance =
            Arc::new(Authenticator::new(Some(Tokens::for_owner("ann", TOKEN)), None, 8480, is_tls));
        let signed_in = sign_in(&entrance, &PAGE, TOKEN).unwrap();
        let cookie = cookie_header(signed_in.cookie.as_ref().unwrap());
        let lines = headers(&[("host", HOST), ("cookie", &cookie)]);
        let caller = entrance.authenticate(&Method::GET, &lines, Instant::now());
        assert_eq!(caller.map(|(by, _)| by.name).map_err(|problem| problem.code), expected, "{is_tls}");
    }
}

/// A session that another process has stored keeps its role only while the settings that determined it apply.
#[test]
fn a_session_ends_when_the_settings_of_its_provider_have_changed() {
    let (entrance, now) = (authenticator(), Instant::now());
    let caller = Caller { name: "oidc:bob".to_owned(), role: Role::Operator };
    let bob = Person { caller, subject: "bob".to_owned(), settings: [1; 32] };
    let signed_in = entrance.sign_in_person(bob, LIFETIME_MAX, false, now).unwrap();
    let cookie = cookie_header(signed_in.cookie.as_ref().unwrap());
    let request = headers(&[("host", HOST), ("cookie", &cookie)]);
    let refused = entrance.authenticate(&Method::GET, &request, now).err().unwrap();
    assert_eq!((refused.code, refused.next.as_str()), (Code::Unauthorized, "sign in again"));
    assert!(!signed_in.session.is_active(now));
}
