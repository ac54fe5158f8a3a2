//! GitHub Apps: <https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app>.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rsa::RsaPrivateKey;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::rand_core::OsRng;
use serde_json::json;
use tidegate_generate::{Branch, PullRequest, Unanswered};
use tidegate_scm::{Asking, Clock, Policy, Secrets, Token, Web};

use crate::server::{Page, Server};
use crate::{branches_with, lines, requests_with};

const REPOS: &str = "/api/v3/orgs/acme/repos?per_page=100";
const PULLS: &str = "/api/v3/repos/acme/web/pulls?state=open&per_page=100";
const TOKEN: &str = "POST /api/v3/app/installations/7/access_tokens";
/// 2026-11-22T12:00:00Z.
const NOON: u64 = 1_795_348_800;

/// A key that is made in the test.
fn key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(|| {
        let key = RsaPrivateKey::new(&mut OsRng, 2048).unwrap().to_pkcs1_der().unwrap();
        let text = BASE64_STANDARD.encode(key.as_bytes());
        format!("-----BEGIN RSA PRIVATE KEY-----\n{text}\n-----END RSA PRIVATE KEY-----\n")
    })
}

/// The Secrets with Apps that there are, of a server.
struct Apps(String);

impl Secrets for Apps {
    fn secret(&self, name: &str, key: &str) -> Result<Token, String> {
        Err(format!("there is no key {key} in Secret {name}"))
    }

    fn app_secret(&self, name: &str, keys: &[&str]) -> Result<BTreeMap<String, Token>, String> {
        let safe = self.0.replace("http://", "https://");
        let mut fields = BTreeMap::from([
            ("githubAppID", "17"),
            ("githubAppInstallationID", "7"),
            ("githubAppPrivateKey", key()),
            ("githubAppEnterpriseBaseUrl", self.0.as_str()),
        ]);
        match name {
            "app" => {}
            "public" => drop(fields.remove("githubAppEnterpriseBaseUrl")),
            "anywhere" => drop(fields.remove("githubAppInstallationID")),
            "elsewhere" => {
                fields.insert("githubAppEnterpriseBaseUrl", "https://git.example.com/api/v3");
            }
            "safe" => drop(fields.insert("githubAppEnterpriseBaseUrl", &safe)),
            "keyless" => drop(fields.remove("githubAppPrivateKey")),
            "broken" => drop(fields.insert("githubAppPrivateKey", "hunter2")),
            _ => return Err(format!("there is no Secret {name}")),
        }
        let asked = keys.iter().filter_map(|key| Some(((*key).to_owned(), Token::new(fields.get(key)?))));
        Ok(asked.collect())
    }

    fn config_map(&self, name: &str, key: &str) -> Result<String, String> {
        Err(format!("there is no key {key} in ConfigMap {name}"))
    }
}

fn given(token: &str) -> Page {
    Page::status(201, json!({"token": token, "expires_at": "2026-11-22T13:00:00Z"}))
}

/// One that gives the App tokens, and has a repository.
fn github() -> Server {
    let server = Server::start();
    server.at(TOKEN, given("hunter2-1"));
    let web = json!({"id": 1, "name": "web", "owner": {"login": "acme"}, "default_branch": "main"});
    server.put(REPOS, Page::of(json!([web])));
    let tip = json!({"name": "main", "commit": {"sha": "1"}});
    server.put("/api/v3/repos/acme/web/branches/main", Page::of(tip));
    server.put(PULLS, Page::of(json!([])));
    server
}

fn web(now: &Arc<AtomicU64>) -> Web {
    let now = Arc::clone(now);
    Web::default().with_clock(Clock::new(move || now.load(Ordering::SeqCst)))
}

fn repositories(web: &Web, server: &Server, secret: &str) -> Result<Vec<Branch>, Unanswered> {
    let generator = json!({"github": {"organization": "acme", "api": server.url(), "appSecretName": secret}});
    branches_with(Asking { web, secrets: &Apps(server.url()), policy: &Policy::default() }, generator)
}

fn pulls(web: &Web, server: &Server, secret: &str) -> Result<Vec<PullRequest>, Unanswered> {
    pulls_at(web, server, &server.url(), secret)
}

fn pulls_at(web: &Web, server: &Server, api: &str, secret: &str) -> Result<Vec<PullRequest>, Unanswered> {
    let generator = json!({"github": {"owner": "acme", "repo": "web", "api": api, "appSecretName": secret}});
    requests_with(Asking { web, secrets: &Apps(server.url()), policy: &Policy::default() }, generator)
}

/// What was asked, and with what of a token.
fn visits(server: &Server) -> Vec<(String, String)> {
    let shown = |value: &String| match value.strip_prefix("Bearer ") {
        // What it signs itself.
        Some(token) if token.starts_with("eyJ") => "signed".to_owned(),
        Some(token) => token.to_owned(),
        None => String::new(),
    };
    let visits = server.visits().into_iter();
    visits
        .map(|visit| (visit.asked, visit.headers.get("authorization").map(shown).unwrap_or_default()))
        .collect()
}

#[test]
fn a_token_of_an_app_serves_all_questions_until_shortly_before_its_end() {
    let (server, now) = (github(), Arc::new(AtomicU64::new(NOON)));
    let web = web(&now);
    assert_eq!(lines(&repositories(&web, &server, "app").unwrap()), ["web main 1"]);
    let asked = visits(&server);
    assert_eq!(asked[0], (TOKEN.to_owned(), "signed".to_owned()));
    assert!(asked.len() == 3 && asked[1..].iter().all(|(_, token)| token == "hunter2-1"), "{asked:?}");
    now.store(NOON + 3299, Ordering::SeqCst);
    assert_eq!(pulls(&web, &server, "app"), Ok(Vec::new()));
    assert_eq!(visits(&server), [(format!("GET {PULLS}"), "hunter2-1".to_owned())]);
    now.store(NOON + 3300, Ordering::SeqCst);
    server.at(TOKEN, given("hunter2-2"));
    assert_eq!(pulls(&web, &server, "app"), Ok(Vec::new()));
    let asked = visits(&server);
    assert_eq!(asked.last(), Some(&(format!("GET {PULLS}"), "hunter2-2".to_owned())), "{asked:?}");
}

#[test]
fn a_token_that_was_taken_back_is_given_up_and_another_is_tried_once() {
    let (server, now) = (github(), Arc::new(AtomicU64::new(NOON)));
    let web = web(&now);
    assert_eq!(pulls(&web, &server, "app"), Ok(Vec::new()));
    server.visits();
    server.at(TOKEN, given("hunter2-2"));
    server.put(PULLS, Page::status(401, json!({"message": "Bad credentials hunter2-2"})));
    let error = pulls(&web, &server, "app").unwrap_err();
    let expected = "it does not accept the token of the GitHub App of Secret app";
    assert!(error.reason.ends_with(expected), "{error:?}");
    let asked: Vec<_> = visits(&server).into_iter().map(|(asked, _)| asked).collect();
    assert_eq!(asked, [format!("GET {PULLS}"), TOKEN.to_owned(), format!("GET {PULLS}")]);
    // The other one was new, and serves the next question. The same holds for branches.
    server.put(PULLS, Page::of(json!([])));
    assert_eq!(pulls(&web, &server, "app"), Ok(Vec::new()));
    assert_eq!(visits(&server), [(format!("GET {PULLS}"), "hunter2-2".to_owned())]);
    server.put(REPOS, Page::status(401, json!({})));
    server.visits();
    assert!(repositories(&web, &server, "app").is_err());
    let asked: Vec<_> = visits(&server).into_iter().map(|(asked, _)| asked).collect();
    assert_eq!(asked, [format!("GET {REPOS}"), TOKEN.to_owned(), format!("GET {REPOS}")]);
}

#[test]
fn an_installation_is_found_at_the_organisation() {
    let server = github();
    server.put("/api/v3/users/acme/installation", Page::of(json!({"id": 7})));
    assert_eq!(repositories(&Web::default(), &server, "anywhere").unwrap().len(), 1);
    let asked: Vec<_> = visits(&server).into_iter().take(4).collect();
    let signed = |asked: &str| (asked.to_owned(), "signed".to_owned());
    assert_eq!(
        asked,
        [
            signed("GET /api/v3/orgs/acme/installation"),
            signed("GET /api/v3/users/acme/installation"),
            signed(TOKEN),
            (format!("GET {REPOS}"), "hunter2-1".to_owned()),
        ]
    );
}

/// Who writes a generator must not have what an App signs: it is good for tokens of all its installations.
#[test]
fn an_app_is_told_to_no_other_server_than_its_own() {
    let server = github();
    let public = "is another server than https://api.github.com, the one that the GitHub App of Secret public is for; write githubAppEnterpriseBaseUrl into the Secret";
    let named =
        |secret: &str| format!("is another server than githubAppEnterpriseBaseUrl of Secret {secret}");
    for (secret, expected) in
        [("public", public.to_owned()), ("elsewhere", named("elsewhere")), ("safe", named("safe"))]
    {
        let web = Web::default();
        for error in
            [pulls(&web, &server, secret).unwrap_err(), repositories(&web, &server, secret).unwrap_err()]
        {
            let begin = format!("api {} {expected}", server.url());
            assert!(error.reason.starts_with(&begin), "{error:?}");
            assert!(!error.is_missing, "{error:?}");
        }
    }
    assert!(visits(&server).is_empty(), "nobody was asked");
    // Its own one may be named, and need not be; nothing of this goes out to it.
    let stopped = Web::default();
    stopped.stop();
    for api in ["", "https://api.github.com", "https://api.github.com:443/"] {
        let error = pulls_at(&stopped, &server, api, "public").unwrap_err();
        assert!(error.reason.ends_with("it was interrupted"), "{api}: {error:?}");
    }
    for api in ["https://github.com", "http://api.github.com", "https://api.github.com:8443"] {
        let error = pulls_at(&stopped, &server, api, "public").unwrap_err();
        assert!(error.reason.ends_with(public), "{api}: {error:?}");
    }
}

#[test]
fn apps_that_are_given_no_token() {
    let server = github();
    for (secret, expected) in [
        ("none", "there is no Secret none"),
        ("keyless", "appSecretName: Secret keyless has no githubAppPrivateKey"),
        (
            "broken",
            "appSecretName: Secret broken has a githubAppPrivateKey that is no private RSA key in PEM",
        ),
        ("anywhere", "knows no installation of it at acme; install it there"),
    ] {
        let error = pulls(&Web::default(), &server, secret).unwrap_err();
        assert!(error.reason.contains(expected), "{error:?}");
        // Nothing is said to be missing that was not looked for.
        assert!(!error.is_missing, "{error:?}");
    }
    server.visits();
    for (page, expected) in [
        (Page::of(json!("<html>")), "answers with what is no token; check the address"),
        (Page::status(201, json!({"token": "hunter2\n"})), "answers with what is no token"),
        (
            Page::status(401, json!({"message": "no"})),
            "(no); it does not accept githubAppPrivateKey of Secret app",
        ),
        (Page::status(404, json!({})), "answered 404 Not Found to POST /app/installations/7/access_tokens"),
        (Page::to("http://127.0.0.1:1/"), "answered 302 Found"),
        (Page::status(429, json!({})).with("Retry-After: 57"), "asks us to wait; try again in"),
    ] {
        server.at(TOKEN, page);
        let error = pulls(&Web::default(), &server, "app").unwrap_err();
        let begin = "the GitHub App of Secret app has no token: GitHub at http://127.0.0.1";
        assert!(error.reason.starts_with(begin) && error.reason.contains(expected), "{error:?}");
        assert!(!error.is_missing, "{error:?}");
        assert_eq!(visits(&server), [(TOKEN.to_owned(), "signed".to_owned())], "{expected}");
    }
    // The last of them is believed, though what is signed is another one each time.
    let now = Arc::new(AtomicU64::new(NOON));
    let web = web(&now);
    for asked in [1, 0] {
        let error = pulls(&web, &server, "app").unwrap_err();
        assert!(
            error.reason.contains("asks us to wait") || error.reason.contains("has asked us to wait"),
            "{error:?}"
        );
        assert_eq!(visits(&server).len(), asked);
        now.fetch_add(1, Ordering::SeqCst);
    }
}
