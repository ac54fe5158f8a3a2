//! Tests for GitHub Apps. API reference:
//! <https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app>.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rsa::RsaPrivateKey;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::rand_core::OsRng;
use serde_json::json;
use tidegate_generate::{Branch, PullRequest, QueryError};
use tidegate_scm::{Clock, Policy, RequestContext, Secrets, Token, Web};

use crate::server::{Page, Server};
use crate::{branches_with, lines, requests_with};

const REPOS: &str = "/api/v3/orgs/acme/repos?per_page=100";
const PULLS: &str = "/api/v3/repos/acme/web/pulls?state=open&per_page=100";
const TOKEN: &str = "POST /api/v3/app/installations/7/access_tokens";
/// 2026-11-22T12:00:00Z in seconds since 1970.
const NOON: u64 = 1_795_348_800;

/// Returns a private key generated for these tests.
fn key() -> &'static str {
    static KEY: OnceLock<String> = OnceLock::new();
    KEY.get_or_init(|| {
        let key = RsaPrivateKey::new(&mut OsRng, 2048).unwrap().to_pkcs1_der().unwrap();
        let text = BASE64_STANDARD.encode(key.as_bytes());
        format!("-----BEGIN RSA PRIVATE KEY-----\n{text}\n-----END RSA PRIVATE KEY-----\n")
    })
}

/// Secrets that configure Apps for the API of a test server.
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

fn token_page(token: &str) -> Page {
    Page::status(201, json!({"token": token, "expires_at": "2026-11-22T13:00:00Z"}))
}

/// Starts a server that has one repository and issues tokens for the App.
fn github() -> Server {
    let server = Server::start();
    server.at(TOKEN, token_page("hunter2-1"));
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

fn repositories(web: &Web, server: &Server, secret: &str) -> Result<Vec<Branch>, QueryError> {
    let generator = json!({"github": {"organization": "acme", "api": server.url(), "appSecretName": secret}});
    branches_with(RequestContext { web, secrets: &Apps(server.url()), policy: &Policy::default() }, generator)
}

fn pulls(web: &Web, server: &Server, secret: &str) -> Result<Vec<PullRequest>, QueryError> {
    pulls_at(web, server, &server.url(), secret)
}

fn pulls_at(web: &Web, server: &Server, api: &str, secret: &str) -> Result<Vec<PullRequest>, QueryError> {
    let generator = json!({"github": {"owner": "acme", "repo": "web", "api": api, "appSecretName": secret}});
    requests_with(RequestContext { web, secrets: &Apps(server.url()), policy: &Policy::default() }, generator)
}

/// Returns each request along with its kind of token.
fn requests_with_token_kind(server: &Server) -> Vec<(String, String)> {
    let shown = |value: &String| match value.strip_prefix("Bearer ") {
        // The JSON web token that the App has signed.
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
fn an_app_token_is_shared_until_shortly_before_its_expiry() {
    let (server, now) = (github(), Arc::new(AtomicU64::new(NOON)));
    let web = web(&now);
    assert_eq!(lines(&repositories(&web, &server, "app").unwrap()), ["web main 1"]);
    let asked = requests_with_token_kind(&server);
    assert_eq!(asked[0], (TOKEN.to_owned(), "signed".to_owned()));
    assert!(asked.len() == 3 && asked[1..].iter().all(|(_, token)| token == "hunter2-1"), "{asked:?}");
    now.store(NOON + 3299, Ordering::SeqCst);
    assert_eq!(pulls(&web, &server, "app"), Ok(Vec::new()));
    assert_eq!(requests_with_token_kind(&server), [(format!("GET {PULLS}"), "hunter2-1".to_owned())]);
    now.store(NOON + 3300, Ordering::SeqCst);
    server.at(TOKEN, token_page("hunter2-2"));
    assert_eq!(pulls(&web, &server, "app"), Ok(Vec::new()));
    let asked = requests_with_token_kind(&server);
    assert_eq!(asked.last(), Some(&(format!("GET {PULLS}"), "hunter2-2".to_owned())), "{asked:?}");
}

#[test]
fn a_revoked_token_is_replaced_once() {
    let (server, now) = (github(), Arc::new(AtomicU64::new(NOON)));
    let web = web(&now);
    assert_eq!(pulls(&web, &server, "app"), Ok(Vec::new()));
    server.visits();
    server.at(TOKEN, token_page("hunter2-2"));
    server.put(PULLS, Page::status(401, json!({"message": "Bad credentials hunter2-2"})));
    let error = pulls(&web, &server, "app").unwrap_err();
    let expected = "the server does not accept the token of the GitHub App in Secret app";
    assert!(error.reason.ends_with(expected), "{error:?}");
    let asked: Vec<_> = requests_with_token_kind(&server).into_iter().map(|(asked, _)| asked).collect();
    assert_eq!(asked, [format!("GET {PULLS}"), TOKEN.to_owned(), format!("GET {PULLS}")]);
    // The new token remains in the cache, so the next request uses it.
    server.put(PULLS, Page::of(json!([])));
    assert_eq!(pulls(&web, &server, "app"), Ok(Vec::new()));
    assert_eq!(requests_with_token_kind(&server), [(format!("GET {PULLS}"), "hunter2-2".to_owned())]);
    server.put(REPOS, Page::status(401, json!({})));
    server.visits();
    assert!(repositories(&web, &server, "app").is_err());
    let asked: Vec<_> = requests_with_token_kind(&server).into_iter().map(|(asked, _)| asked).collect();
    assert_eq!(asked, [format!("GET {REPOS}"), TOKEN.to_owned(), format!("GET {REPOS}")]);
}

#[test]
fn an_installation_is_looked_up_at_the_organization() {
    let server = github();
    server.put("/api/v3/users/acme/installation", Page::of(json!({"id": 7})));
    assert_eq!(repositories(&Web::default(), &server, "anywhere").unwrap().len(), 1);
    let asked: Vec<_> = requests_with_token_kind(&server).into_iter().take(4).collect();
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

/// The author of a generator must not obtain the App's signature, which can request tokens for all
/// installations of the App.
#[test]
fn an_app_is_sent_only_to_its_own_server() {
    let server = github();
    let public = "differs from https://api.github.com, the server of the GitHub App in Secret public; set githubAppEnterpriseBaseUrl in the Secret";
    let named = |secret: &str| format!("differs from githubAppEnterpriseBaseUrl in Secret {secret}");
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
    assert!(requests_with_token_kind(&server).is_empty(), "no request was sent");
    // A generator may specify the App's own server. The client has been stopped, so no request is sent.
    let stopped = Web::default();
    stopped.stop();
    for api in ["", "https://api.github.com", "https://api.github.com:443/"] {
        let error = pulls_at(&stopped, &server, api, "public").unwrap_err();
        assert!(error.reason.ends_with("the request was interrupted"), "{api}: {error:?}");
    }
    for api in ["https://github.com", "http://api.github.com", "https://api.github.com:8443"] {
        let error = pulls_at(&stopped, &server, api, "public").unwrap_err();
        assert!(error.reason.ends_with(public), "{api}: {error:?}");
    }
}

#[test]
fn rejected_apps() {
    let server = github();
    for (secret, expected) in [
        ("none", "there is no Secret none"),
        ("keyless", "appSecretName: Secret keyless has no githubAppPrivateKey"),
        ("broken", "appSecretName: Secret broken has an invalid githubAppPrivateKey"),
        ("anywhere", "has no installation of the GitHub App for acme; install the App for that owner"),
    ] {
        let error = pulls(&Web::default(), &server, secret).unwrap_err();
        assert!(error.reason.contains(expected), "{error:?}");
        // A failed token request doesn't mean that the repository is missing.
        assert!(!error.is_missing, "{error:?}");
    }
    server.visits();
    for (page, expected) in [
        (Page::of(json!("<html>")), "returned a response without a token; check the address"),
        (Page::status(201, json!({"token": "hunter2\n"})), "returned a response without a token"),
        (
            Page::status(401, json!({"message": "no"})),
            "(no); the server does not accept githubAppPrivateKey in Secret app",
        ),
        (Page::status(404, json!({})), "returned 404 Not Found for POST /app/installations/7/access_tokens"),
        (Page::to("http://127.0.0.1:1/"), "returned 302 Found"),
        (Page::status(429, json!({})).with("Retry-After: 57"), "is rate limiting requests; try again in"),
    ] {
        server.at(TOKEN, page);
        let error = pulls(&Web::default(), &server, "app").unwrap_err();
        let begin = "cannot get a token for the GitHub App in Secret app: GitHub at http://127.0.0.1";
        assert!(error.reason.starts_with(begin) && error.reason.contains(expected), "{error:?}");
        assert!(!error.is_missing, "{error:?}");
        assert_eq!(
            requests_with_token_kind(&server),
            [(TOKEN.to_owned(), "signed".to_owned())],
            "{expected}"
        );
    }
    // The rate limit applies to the App, whatever the signature in the request.
    let now = Arc::new(AtomicU64::new(NOON));
    let web = web(&now);
    for asked in [1, 0] {
        let error = pulls(&web, &server, "app").unwrap_err();
        assert!(error.reason.contains("is rate limiting requests"), "{error:?}");
        assert_eq!(requests_with_token_kind(&server).len(), asked);
        now.fetch_add(1, Ordering::SeqCst);
    }
}
