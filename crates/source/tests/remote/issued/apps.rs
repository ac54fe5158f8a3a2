//! GitHub Apps.

use std::os::unix::fs::symlink;
use std::thread;

use serde_json::json;
use tidegate_model::Object;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::Origin;
use tidegate_testkit::git::GitServer;

use super::super::bench::{credentials, secret};
use super::server::{Answer, said};
use super::*;

/// As <https://docs.github.com/apps> describes it: a token that the App signs itself, for one of its installation.
#[test]
fn an_app_is_given_a_token_that_the_repository_is_asked_with() {
    for kind in ["repository", "repo-creds"] {
        let Some(stage) = Stage::new() else { return };
        stage.give(stage.app(kind, &[]));
        stage.accept("x-access-token", "hunter2-1");
        assert_eq!(stage.files(), Ok(1), "{kind}");
        let requests = stage.github.requests();
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!(request.asked, ASKED);
        let (header, claims) = said(request.bearer(), key(0)).unwrap();
        assert_eq!(header["alg"], "RS256");
        let (from, until) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
        assert_eq!((claims["iss"].as_str(), from), (Some("17"), stage.told.now() - 60), "{claims}");
        assert!(until > stage.told.now() && until <= stage.told.now() + 600, "{claims}");
        assert!(request.headers.contains_key("user-agent"), "GitHub answers nobody without");
    }
}

#[test]
fn a_token_serves_all_repositories_until_shortly_before_its_end() {
    let Some(stage) = Stage::new() else { return };
    let names: Vec<String> = (0..8).map(|number| format!("acme/repo{number}")).collect();
    for name in &names {
        let root = stage.bench.folder.path().join("root");
        symlink(root.join("repo"), root.join(name)).unwrap();
    }
    stage.give(stage.app("repo-creds", &[]));
    stage.accept("x-access-token", "hunter2-1");
    thread::scope(|scope| {
        let all: Vec<_> = names.iter().map(|name| scope.spawn(|| stage.files_of(name))).collect();
        assert!(all.into_iter().all(|one| one.join().unwrap() == Ok(1)));
    });
    stage.told.passes(3600 - 301);
    assert_eq!(stage.files(), Ok(1));
    assert_eq!(stage.asked(), [ASKED], "one at a time asks, and once");
    stage.accept("x-access-token", "hunter2-2");
    stage.told.passes(1);
    assert_eq!(stage.files(), Ok(1));
    assert_eq!(stage.asked(), [ASKED], "the other one was about to end");
    let shown: Vec<_> = stage.bench.server.requests().into_iter().map(|one| one.authorization).collect();
    assert!(shown.iter().all(Option::is_some), "it is shown with the first request: {shown:?}");
}

#[test]
fn a_token_that_was_taken_back_is_given_up_and_another_is_tried_once() {
    let Some(stage) = Stage::new() else { return };
    stage.give(stage.app("repository", &[]));
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.asked().len()), (Ok(1), 1));
    stage.accept("x-access-token", "hunter2-2");
    stage.bench.commit("app/b.yaml", "{}");
    assert_eq!((stage.files(), stage.asked().len()), (Ok(2), 1));
    // A commit that is fetched without a look before does the same.
    let commit = stage.bench.commit("app/c.yaml", "{}");
    stage.accept("x-access-token", "hunter2-3");
    assert_eq!(stage.bench.read(&commit).map(|files| files.len()), Ok(3));
    assert_eq!(stage.asked().len(), 1);
    // Where no token will do, that is told after one more. That one was new, and stays: it may do for other repositories.
    stage.accept("x-access-token", "another");
    stage.bench.server.requests();
    let error = stage.error();
    assert!(error.contains("does not accept the credentials of Secret given"), "{error}");
    assert!(error.contains("githubAppEnterpriseBaseUrl"), "{error}");
    assert_eq!((stage.asked().len(), stage.bench.server.requests().len()), (1, 2));
    for _ in 0..2 {
        stage.error();
        assert_eq!((stage.asked().len(), stage.bench.server.requests().len()), (0, 1), "as the last time");
    }
    stage.accept("x-access-token", "hunter2-4");
    assert_eq!((stage.files(), stage.asked().len()), (Ok(3), 0), "it was kept");
    // Once it was accepted, it may have been taken back.
    stage.accept("x-access-token", "hunter2-5");
    assert_eq!((stage.files(), stage.asked().len()), (Ok(3), 1));
}

#[test]
fn a_token_that_never_was_accepted_ends_like_all_others() {
    let Some(stage) = Stage::new() else { return };
    stage.give(stage.app("repository", &[]));
    stage.accept("x-access-token", "hunter2-2");
    for asked in [1, 0] {
        stage.error();
        assert_eq!((stage.asked().len(), stage.bench.server.requests().len()), (asked, 1));
    }
    stage.told.passes(3600 - 300);
    assert_eq!((stage.files(), stage.asked().len()), (Ok(1), 1));
}

#[test]
fn another_secret_has_another_token() {
    let Some(stage) = Stage::new() else { return };
    let app = stage.app("repository", &[]);
    stage.give(app.clone());
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.asked().len()), (Ok(1), 1));
    // The same in the same words is nothing new.
    stage.give(app.clone());
    assert_eq!((stage.files(), stage.asked().len()), (Ok(1), 0));
    let other = stage.app("repository", &[("githubAppPrivateKey", &key(1).pkcs1)]);
    stage.give(other);
    let error = stage.error();
    assert!(
        error.contains("the GitHub App of Secret given has no token: GitHub at http://127.0.0.1"),
        "{error}"
    );
    assert!(error.contains("answered 401 Unauthorized (A JSON web token could not be decoded)"), "{error}");
    assert!(error.contains("check githubAppID and githubAppPrivateKey, and the clock"), "{error}");
    assert_eq!(stage.asked().len(), 1);
    stage.give(app);
    stage.accept("x-access-token", "hunter2-2");
    assert_eq!((stage.files(), stage.asked().len()), (Ok(1), 1), "the token of the first was given up");
}

#[test]
fn an_installation_that_is_not_written_down_is_found_by_the_owner() {
    let Some(stage) = Stage::new() else { return };
    stage.give(stage.app("repo-creds", &[("githubAppInstallationID", "")]));
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.files_of("ACME/repo").is_err()), (Ok(1), true));
    let asked = stage.asked();
    assert_eq!(asked, ["GET /orgs/acme/installation", "GET /users/acme/installation", ASKED]);
    // Another owner has another installation, or none.
    let error = stage.files_of("repo").unwrap_err().to_string();
    assert!(error.contains("knows no installation of it at repo; install the App at the owner"), "{error}");
    assert_eq!(stage.asked(), ["GET /orgs/repo/installation", "GET /users/repo/installation"]);
}

#[test]
fn apps_that_cannot_be_used_are_told_by_their_field() {
    let Some(stage) = Stage::new() else { return };
    let public = server::pem("RSA PUBLIC KEY", b"hunter2");
    for (others, expected) in [
        (vec![("githubAppID", "")], "has no githubAppID"),
        (vec![("githubAppPrivateKey", "")], "has no githubAppPrivateKey"),
        (vec![("githubAppID", "hunter2")], "has a githubAppID that is no number"),
        (vec![("githubAppInstallationID", "-7")], "has a githubAppInstallationID that is no number"),
        (
            vec![("githubAppPrivateKey", "hunter2")],
            "has a githubAppPrivateKey that is no private RSA key in PEM",
        ),
        (
            vec![("githubAppPrivateKey", &public)],
            "has a githubAppPrivateKey that is no private RSA key in PEM",
        ),
        (
            vec![("githubAppEnterpriseBaseUrl", "hunter2")],
            "has a githubAppEnterpriseBaseUrl that is no address",
        ),
        (
            vec![("githubAppEnterpriseBaseUrl", "http://api.example.com")],
            "that is no address such as https://",
        ),
        (
            vec![("githubAppEnterpriseBaseUrl", "https://hunter2@example.com")],
            "that is no address such as https://",
        ),
    ] {
        stage.give(stage.app("repository", &others));
        let error = stage.error();
        assert!(error.contains("Secret given") && error.contains(expected), "{others:?}: {error}");
    }
    // By SSH nobody is asked for a password.
    let fields = [("url", "git@example.com:acme/repo"), ("githubAppID", "17"), ("githubAppPrivateKey", "x")];
    stage.give(credentials("repository", &fields));
    let repository = stage.bench.repositories.open("git@example.com:acme/repo", Path::new("/")).unwrap();
    let error = repository.look().unwrap_err().to_string();
    assert!(error.contains("Secret given has a GitHub App, which is for https:// alone"), "{error}");
    assert_eq!((stage.asked().len(), stage.bench.server.requests().len()), (0, 0), "nobody was asked");
}

/// Whoever reads along on the way would have it.
#[test]
fn no_token_goes_by_plain_http_to_another_machine() {
    let Some(stage) = Stage::new() else { return };
    let url = "http://git.example.invalid/acme/repo";
    for (kind, meant) in [("repository", url), ("repo-creds", "http://git.example.invalid")] {
        stage.give(stage.app(kind, &[("url", meant)]));
        let repository = stage.bench.repositories.open(url, Path::new("/")).unwrap();
        let error = repository.look().unwrap_err().to_string();
        let expected = "Secret given has a GitHub App, which is for https:// alone; name the repository so";
        assert!(error.contains(expected), "{error}");
    }
    let registry = "git.example.invalid/charts";
    let plain = [("url", registry), ("enableOCI", "true"), ("insecureOCIForceHttp", "true")];
    for (repo_url, fields, hint) in [
        (url, vec![("url", url), ("type", "helm")], "name the repository so"),
        (registry, plain.to_vec(), "take insecureOCIForceHttp away"),
    ] {
        stage.give(stage.app("repository", &fields));
        let source = ApplicationSource {
            repo_url: repo_url.into(),
            chart: "web".into(),
            ..ApplicationSource::default()
        };
        let origin = stage.bench.repositories.origin(&source, Path::new("/")).unwrap();
        let Origin::Charts(found) = origin else { panic!("they are charts") };
        let error = found.look().unwrap_err().to_string();
        assert!(error.contains("has a GitHub App, which is for https:// alone"), "{error}");
        assert!(error.contains(hint), "{error}");
    }
    assert_eq!(stage.asked().len(), 0, "nobody was asked for a token");
}

/// What lasts goes before it, as in Argo CD.
#[test]
fn a_password_beside_an_app_is_what_is_shown() {
    let Some(stage) = Stage::new() else { return };
    stage.accept("me", "hunter2");
    stage.give(stage.app("repository", &[("username", "me"), ("password", "hunter2")]));
    assert_eq!((stage.files(), stage.asked().len()), (Ok(1), 0));
    // A repository's own Secret without credentials leaves them to the App of all.
    let mut both = stage.app("repo-creds", &[]);
    both.add(&secret("repository", &[("url", &stage.bench.url()), ("name", "shop")])).unwrap();
    stage.give(both);
    stage.accept("x-access-token", "hunter2-1");
    assert_eq!((stage.files(), stage.asked().len()), (Ok(1), 1));
}

/// The same holds for charts of a Helm repository, whose password it is as well.
#[test]
fn charts_are_asked_for_with_a_token() {
    let Some(stage) = Stage::new() else { return };
    let basic = BASE64_STANDARD.encode("x-access-token:hunter2-1");
    let charts = Server::start(move |request| {
        let is_known = request.headers.get("authorization") == Some(&format!("Basic {basic}"));
        let index = "entries: {web: [{version: 1.0.0, urls: [web.tgz]}]}".to_owned();
        if is_known {
            Answer::Whole(200, Vec::new(), index)
        } else {
            Answer::Whole(401, Vec::new(), String::new())
        }
    });
    let url = format!("{}/charts", charts.url());
    stage.give(stage.app("repo-creds", &[("url", &charts.url()), ("type", "helm")]));
    let source = ApplicationSource { repo_url: url, chart: "web".into(), ..ApplicationSource::default() };
    let origin = stage.bench.repositories.origin(&source, Path::new("/")).unwrap();
    let Origin::Charts(found) = origin else { panic!("they are charts") };
    assert_eq!(found.look(), Ok(true));
    assert_eq!(found.resolve(&source, "1.*"), Ok("1.0.0".to_owned()));
    assert_eq!((stage.asked().len(), charts.requests().len()), (1, 1));
}

/// What the Secret says of certificates holds for who gives the token too.
#[test]
fn whom_to_trust_holds_for_who_gives_the_token() {
    let Some(stage) = Stage::new() else { return };
    let safe = GitServer::start_tls(&stage.bench.folder.path().join("root"));
    let base = safe.url("api");
    let app = |others: &[(&str, &str)]| {
        stage.app("repository", &[&[("githubAppEnterpriseBaseUrl", base.as_str())], others].concat())
    };
    stage.give(app(&[]));
    let error = stage.error();
    assert!(
        error.contains("the GitHub App of Secret given has no token: GitHub at https://127.0.0.1"),
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
        stage.give(given);
        let error = stage.error();
        assert!(error.contains("answered 404"), "it was asked, and is no GitHub: {error}");
        let requests = safe.requests();
        let [request] = requests.as_slice() else { panic!("{requests:?}") };
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/api/app/installations/7/access_tokens")
        );
        assert!(
            said(request.authorization.as_ref().unwrap().trim_start_matches("Bearer "), key(0)).is_some()
        );
    }
}
