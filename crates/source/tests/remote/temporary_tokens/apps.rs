//! Tests for GitHub Apps.

use std::os::unix::fs::symlink;
use std::thread;

use serde_json::json;
use tidegate_model::Object;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::Origin;
use tidegate_testkit::git::GitServer;

use super::super::fixture::{credentials, secret};
use super::server::{ServerResponse, verify_jwt};
use super::*;

/// The flow is documented at <https://docs.github.com/apps>. The App signs a token, and uses it to request a
/// token for one of its installations.
#[test]
fn an_app_token_is_sent_to_the_repository() {
    for kind in ["repository", "repo-creds"] {
        let Some(stage) = TokenFixture::new() else { return };
        stage.set_credentials(stage.app(kind, &[]));
        stage.accept("x-access-token", "hunter2-1");
        assert_eq!(stage.files(), Ok(1), "{kind}");
        let requests = stage.github.requests();
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!(request.line, ASKED);
        let (header, claims) = verify_jwt(request.bearer(), key(0)).unwrap();
        assert_eq!(header["alg"], "RS256");
        let (from, until) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
        assert_eq!((claims["iss"].as_str(), from), (Some("17"), stage.clock.now() - 60), "{claims}");
        assert!(until > stage.clock.now() && until <= stage.clock.now() + 600, "{claims}");
        assert!(request.headers.contains_key("user-agent"), "GitHub requires a User-Agent");
    }
}

#[test]
fn a_token_is_shared_until_shortly_before_its_expiry() {
    let Some(stage) = TokenFixture::new() else { return };
    let names: Vec<String> = (0..8).map(|number| format!("acme/repo{number}")).collect();
    for name in &names {
        let root = stage.bench.folder.path().join("root");
        symlink(root.join("repo"), root.join(name)).unwrap();
    }
    stage.set_credentials(stage.app("repo-creds", &[]));
    stage.accept("x-access-token", "hunter2-1");
    thread::scope(|scope| {
        let all: Vec<_> = names.iter().map(|name| scope.spawn(|| stage.files_of(name))).collect();
        assert!(all.into_iter().all(|one| one.join().unwrap() == Ok(1)));
    });
    stage.clock.advance(3600 - 301);
    assert_eq!(stage.files(), Ok(1));
    assert_eq!(stage.token_requests(), [ASKED], "the token is cached");
    stage.accept("x-access-token", "hunter2-2");
    stage.clock.advance(1);
    assert_eq!(stage.files(), Ok(1));
    assert_eq!(stage.token_requests(), [ASKED], "the cached token was about to expire");
    let shown: Vec<_> = stage.bench.server.requests().into_iter().map(|one| one.authorization).collect();
    assert!(shown.iter().all(Option::is_some), "all requests contain the token: {shown:?}");
}

#[test]
fn a_revoked_token_is_replaced_once() {
    let Some(stage) = TokenFixture::new() else { return };
    stage.set_credentials(stage.app("repository", &[]));
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(1), 1));
    stage.accept("x-access-token", "hunter2-2");
    stage.bench.commit("app/b.yaml", "{}");
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(2), 1));
    // A fetch requests a token even if there was no observation before.
    let commit = stage.bench.commit("app/c.yaml", "{}");
    stage.accept("x-access-token", "hunter2-3");
    assert_eq!(stage.bench.read(&commit).map(|files| files.len()), Ok(3));
    assert_eq!(stage.token_requests().len(), 1);
    // If the server rejects every token, there is one more attempt before the error is reported. The last
    // token is new, so it remains in the cache, because other repositories may accept it.
    stage.accept("x-access-token", "another");
    stage.bench.server.requests();
    let error = stage.error();
    assert!(error.contains("does not accept the credentials in Secret given"), "{error}");
    assert!(error.contains("githubAppEnterpriseBaseUrl"), "{error}");
    assert_eq!((stage.token_requests().len(), stage.bench.server.requests().len()), (1, 2));
    for _ in 0..2 {
        stage.error();
        assert_eq!(
            (stage.token_requests().len(), stage.bench.server.requests().len()),
            (0, 1),
            "same as the last time"
        );
    }
    stage.accept("x-access-token", "hunter2-4");
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(3), 0), "the token was cached");
    // A token that the server has accepted before may be revoked.
    stage.accept("x-access-token", "hunter2-5");
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(3), 1));
}

#[test]
fn a_token_that_was_never_accepted_still_expires() {
    let Some(stage) = TokenFixture::new() else { return };
    stage.set_credentials(stage.app("repository", &[]));
    stage.accept("x-access-token", "hunter2-2");
    for asked in [1, 0] {
        stage.error();
        assert_eq!((stage.token_requests().len(), stage.bench.server.requests().len()), (asked, 1));
    }
    stage.clock.advance(3600 - 300);
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(1), 1));
}

#[test]
fn another_secret_has_another_token() {
    let Some(stage) = TokenFixture::new() else { return };
    let app = stage.app("repository", &[]);
    stage.set_credentials(app.clone());
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(1), 1));
    // Replacing the Secret with an equal one isn't a change, so the token remains in the cache.
    stage.set_credentials(app.clone());
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(1), 0));
    let other = stage.app("repository", &[("githubAppPrivateKey", &key(1).pkcs1)]);
    stage.set_credentials(other);
    let error = stage.error();
    assert!(
        error.contains("cannot get a token for the GitHub App in Secret given: GitHub at http://127.0.0.1"),
        "{error}"
    );
    assert!(error.contains("returned 401 Unauthorized (A JSON web token could not be decoded)"), "{error}");
    assert!(error.contains("check githubAppID and githubAppPrivateKey, and the clock"), "{error}");
    assert_eq!(stage.token_requests().len(), 1);
    stage.set_credentials(app);
    stage.accept("x-access-token", "hunter2-2");
    assert_eq!(
        (stage.files(), stage.token_requests().len()),
        (Ok(1), 1),
        "the token of the first App was discarded"
    );
}

#[test]
fn a_missing_installation_id_is_looked_up_by_owner() {
    let Some(stage) = TokenFixture::new() else { return };
    stage.set_credentials(stage.app("repo-creds", &[("githubAppInstallationID", "")]));
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.files_of("ACME/repo").is_err()), (Ok(1), true));
    let asked = stage.token_requests();
    assert_eq!(asked, ["GET /orgs/acme/installation", "GET /users/acme/installation", ASKED]);
    // Other owners have a different installation or none.
    let error = stage.files_of("repo").unwrap_err().to_string();
    assert!(
        error.contains("has no installation of the GitHub App for repo; install the App for the owner"),
        "{error}"
    );
    assert_eq!(stage.token_requests(), ["GET /orgs/repo/installation", "GET /users/repo/installation"]);
}

#[test]
fn invalid_apps_are_reported_with_the_field() {
    let Some(stage) = TokenFixture::new() else { return };
    let public = server::pem("RSA PUBLIC KEY", b"hunter2");
    for (others, expected) in [
        (vec![("githubAppID", "")], "has no githubAppID"),
        (vec![("githubAppPrivateKey", "")], "has no githubAppPrivateKey"),
        (vec![("githubAppID", "hunter2")], "has an invalid githubAppID; use a positive number"),
        (
            vec![("githubAppInstallationID", "-7")],
            "has an invalid githubAppInstallationID; use a positive number",
        ),
        (vec![("githubAppPrivateKey", "hunter2")], "has an invalid githubAppPrivateKey"),
        (vec![("githubAppPrivateKey", &public)], "has an invalid githubAppPrivateKey"),
        (vec![("githubAppEnterpriseBaseUrl", "hunter2")], "has an invalid githubAppEnterpriseBaseUrl"),
        (vec![("githubAppEnterpriseBaseUrl", "http://api.example.com")], "use a URL such as https://"),
        (vec![("githubAppEnterpriseBaseUrl", "https://hunter2@example.com")], "use a URL such as https://"),
    ] {
        stage.set_credentials(stage.app("repository", &others));
        let error = stage.error();
        assert!(error.contains("Secret given") && error.contains(expected), "{others:?}: {error}");
    }
    // SSH can't use a token as the password.
    let fields = [("url", "git@example.com:acme/repo"), ("githubAppID", "17"), ("githubAppPrivateKey", "x")];
    stage.set_credentials(credentials("repository", &fields));
    let repository = stage.bench.repositories.open("git@example.com:acme/repo", Path::new("/")).unwrap();
    let error = repository.observe().unwrap_err().to_string();
    assert!(error.contains("Secret given has a GitHub App, which requires https://"), "{error}");
    assert_eq!(
        (stage.token_requests().len(), stage.bench.server.requests().len()),
        (0, 0),
        "no request is sent"
    );
}

/// Without encryption, the token could be intercepted.
#[test]
fn no_token_goes_by_plain_http_to_another_machine() {
    let Some(stage) = TokenFixture::new() else { return };
    let url = "http://git.example.invalid/acme/repo";
    for (kind, meant) in [("repository", url), ("repo-creds", "http://git.example.invalid")] {
        stage.set_credentials(stage.app(kind, &[("url", meant)]));
        let repository = stage.bench.repositories.open(url, Path::new("/")).unwrap();
        let error = repository.observe().unwrap_err().to_string();
        let expected = "Secret given has a GitHub App, which requires https://; use an https:// URL";
        assert!(error.contains(expected), "{error}");
    }
    let registry = "git.example.invalid/charts";
    let plain = [("url", registry), ("enableOCI", "true"), ("insecureOCIForceHttp", "true")];
    for (repo_url, fields, hint) in [
        (url, vec![("url", url), ("type", "helm")], "use an https:// URL"),
        (registry, plain.to_vec(), "remove insecureOCIForceHttp"),
    ] {
        stage.set_credentials(stage.app("repository", &fields));
        let source = ApplicationSource {
            repo_url: repo_url.into(),
            chart: "web".into(),
            ..ApplicationSource::default()
        };
        let origin = stage.bench.repositories.origin(&source, Path::new("/")).unwrap();
        let Origin::Charts(found) = origin else { panic!("they are charts") };
        let error = found.observe().unwrap_err().to_string();
        assert!(error.contains("has a GitHub App, which requires https://"), "{error}");
        assert!(error.contains(hint), "{error}");
    }
    assert_eq!(stage.token_requests().len(), 0, "no token request was sent");
}

/// As in Argo CD, a permanent password takes precedence over an App.
#[test]
fn a_password_takes_precedence_over_an_app() {
    let Some(stage) = TokenFixture::new() else { return };
    stage.accept("me", "hunter2");
    stage.set_credentials(stage.app("repository", &[("username", "me"), ("password", "hunter2")]));
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(1), 0));
    // The Secret for the repository has no credentials, so the App of the template is used.
    let mut both = stage.app("repo-creds", &[]);
    both.add(&secret("repository", &[("url", &stage.bench.url()), ("name", "shop")])).unwrap();
    stage.set_credentials(both);
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.token_requests().len()), (Ok(1), 1));
}

/// A Helm repository must receive the token as the password.
#[test]
fn chart_requests_use_a_token() {
    let Some(stage) = TokenFixture::new() else { return };
    let basic = BASE64_STANDARD.encode("x-access-token:hunter2-1");
    let charts = Server::start(move |request| {
        let is_known = request.headers.get("authorization") == Some(&format!("Basic {basic}"));
        let index = "entries: {web: [{version: 1.0.0, urls: [web.tgz]}]}".to_owned();
        if is_known {
            ServerResponse::Complete(200, Vec::new(), index)
        } else {
            ServerResponse::Complete(401, Vec::new(), String::new())
        }
    });
    let url = format!("{}/charts", charts.url());
    stage.set_credentials(stage.app("repo-creds", &[("url", &charts.url()), ("type", "helm")]));
    let source = ApplicationSource { repo_url: url, chart: "web".into(), ..ApplicationSource::default() };
    let origin = stage.bench.repositories.origin(&source, Path::new("/")).unwrap();
    let Origin::Charts(found) = origin else { panic!("they are charts") };
    assert_eq!(found.observe(), Ok(true));
    assert_eq!(found.resolve(&source, "1.*"), Ok("1.0.0".to_owned()));
    assert_eq!((stage.token_requests().len(), charts.requests().len()), (1, 1));
}

/// The certificate settings of the Secret must also apply to the token server.
#[test]
fn trust_settings_apply_to_the_token_server() {
    let Some(stage) = TokenFixture::new() else { return };
    let safe = GitServer::start_tls(&stage.bench.folder.path().join("root"));
    let base = safe.url("api");
    let app = |others: &[(&str, &str)]| {
        stage.app("repository", &[&[("githubAppEnterpriseBaseUrl", base.as_str())], others].concat())
    };
    stage.set_credentials(app(&[]));
    let error = stage.error();
    assert!(
        error.contains("cannot get a token for the GitHub App in Secret given: GitHub at https://127.0.0.1"),
        "{error}"
    );
    assert!(error.contains("certificate is not trusted") && error.contains("argocd-tls-certs-cm"), "{error}");
    assert!(safe.requests().is_empty());
    let trusted = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-tls-certs-cm"},
        "data": {"127.0.0.1": safe.authority()},
    });
    let mut named = app(&[]);
    named.add(&Object::try_from(trusted).unwrap()).unwrap();
    for given in [named, app(&[("insecure", "true")])] {
        stage.set_credentials(given);
        let error = stage.error();
        assert!(error.contains("returned 404"), "the server was reached and is not GitHub: {error}");
        let requests = safe.requests();
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/api/app/installations/7/access_tokens")
        );
        assert!(
            verify_jwt(request.authorization.as_ref().unwrap().trim_start_matches("Bearer "), key(0))
                .is_some()
        );
    }
}
