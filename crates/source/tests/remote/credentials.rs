//! Tests for access to servers with credentials.

use std::path::Path;

use tidegate_model::Object;
use tidegate_source::{AddressContext, Credentials};
use tidegate_testkit::git::{GitServer, ServerBehavior};

use super::fixture::{RemoteFixture, credentials, read, secret};

/// `Authorization` headers for the credentials `git:hunter2` and `me:hunter2`.
const GIT: &str = "Basic Z2l0Omh1bnRlcjI=";
const ME: &str = "Basic bWU6aHVudGVyMg==";

fn requires_authorization(authorization: &str) -> ServerBehavior {
    ServerBehavior { authorization: Some(authorization.into()), ..ServerBehavior::default() }
}

#[test]
fn credentials_are_sent() {
    let Some(bench) = RemoteFixture::new() else { return };
    let url = bench.url();
    let host = url.trim_end_matches("repo").trim_end_matches('/').to_owned();
    for (kind, fields, authorization) in [
        ("repository", vec![("url", url.as_str()), ("username", "me"), ("password", "hunter2")], ME),
        ("repository", vec![("url", url.as_str()), ("password", "hunter2")], GIT),
        ("repo-creds", vec![("url", host.as_str()), ("username", "me"), ("password", "hunter2")], ME),
        ("repository", vec![("url", url.as_str()), ("bearerToken", "hunter2")], "Bearer hunter2"),
    ] {
        bench.server.set_behavior(requires_authorization(authorization));
        bench.repositories.set_credentials(Credentials::default());
        let error = bench.observe_and_read("main").unwrap_err().to_string();
        assert!(error.contains("requires credentials") && error.contains("repo-creds"), "{error}");
        bench.repositories.set_credentials(credentials(kind, &fields));
        let read = bench.observe_and_read("main");
        assert_eq!(read.map(|files| files.len()), Ok(1), "{kind} {fields:?}");
        bench.server.set_behavior(requires_authorization("Basic another"));
        let error = bench.observe_and_read("main").unwrap_err().to_string();
        assert!(error.contains("does not accept the credentials in Secret given"), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("aHVudGVyMg"), "{error}");
    }
}

/// If credentials are unusable, the error must name their Secret.
#[test]
fn invalid_secrets() {
    let Some(bench) = RemoteFixture::new() else { return };
    let url = bench.url();
    for (field, value, expected) in [
        ("type", "helm", "type helm"),
        ("githubAppID", "1", "has no githubAppPrivateKey; set both githubAppID and githubAppPrivateKey"),
        ("useAzureWorkloadIdentity", "true", "AZURE_CLIENT_ID is not set"),
        ("insecure", "perhaps", "insecure"),
        ("tlsClientCertData", "hunter2", "tlsClientCertKey"),
        ("pasword", "hunter2", "pasword"),
        ("password", "hunter2\n", "is not allowed in an HTTP header"),
        ("proxy", "gopher://hunter2@proxy", "proxy in Secret given"),
    ] {
        let mut fields = vec![("url", url.as_str()), (field, value)];
        if field == "password" {
            fields.push(("bearerToken", "hunter2\n"));
        }
        bench.repositories.set_credentials(credentials("repository", &fields));
        let error = bench.observe_and_read("main").unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("Secret given"), "{field}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    assert!(bench.server.requests().is_empty(), "no request was sent");
}

/// A redirect must not take the credentials to another server.
#[test]
fn credentials_do_not_follow_to_another_host() {
    let Some(bench) = RemoteFixture::new() else { return };
    let other = GitServer::start(&bench.folder.path().join("root"));
    let fields = [("url", bench.url()), ("username", "me".into()), ("password", "hunter2".into())];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    bench.repositories.set_credentials(credentials("repository", &fields));
    // A different path on the same server must receive the credentials.
    std::os::unix::fs::symlink(bench.path(), bench.path().with_file_name("moved")).unwrap();
    let redirect = Some(("/repo/info".to_owned(), format!("{}/info", bench.server.url("moved"))));
    bench.server.set_behavior(ServerBehavior { redirect, ..requires_authorization(ME) });
    assert_eq!(bench.observe_and_read("main").map(|files| files.len()), Ok(1));
    assert!(bench.server.requests().iter().all(|one| one.authorization.as_deref() == Some(ME)));
    // A different server must not receive the credentials.
    let redirect = Some(("/repo".to_owned(), other.url("repo")));
    bench.server.set_behavior(ServerBehavior { redirect, ..ServerBehavior::default() });
    bench.commit("app/new.yaml", "{}");
    assert_eq!(bench.observe_and_read("main").map(|files| files.len()), Ok(2));
    let (to_this, to_other) = (bench.server.requests(), other.requests());
    assert!(to_this.iter().all(|one| one.authorization.is_some()) && !to_this.is_empty());
    assert!(to_other.iter().all(|one| one.authorization.is_none()) && to_other.len() >= 4, "{to_other:?}");
    // The Secret may be correct, so the error must report the redirect instead of rejected credentials.
    other.set_behavior(requires_authorization(ME));
    bench.commit("app/newer.yaml", "{}");
    let error = bench.observe_and_read("main").unwrap_err().to_string();
    let there = other.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let redirect =
        format!("redirected the request to {there}, and Tidegate does not send the credentials in Secret ");
    assert!(error.contains(&redirect), "{error}");
    assert!(!error.contains("does not accept") && !error.contains("hunter2"), "{error}");
}

#[test]
fn a_custom_authority() {
    let Some(bench) = RemoteFixture::with(GitServer::start_tls, |_| {}) else { return };
    let error = bench.observe_and_read("main").unwrap_err().to_string();
    assert!(error.contains("certificate is not trusted") && error.contains("argocd-tls-certs-cm"), "{error}");
    let trusted = |pem: &str| {
        let mut credentials = Credentials::default();
        let value = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-tls-certs-cm"},
            "data": {"127.0.0.1": pem},
        });
        assert!(credentials.add(&Object::try_from(value).unwrap()).unwrap());
        credentials
    };
    bench.repositories.set_credentials(trusted("no certificate"));
    let error = bench.observe_and_read("main").unwrap_err().to_string();
    assert!(error.contains("contains no PEM certificates"), "{error}");
    bench.repositories.set_credentials(trusted(bench.server.authority()));
    assert_eq!(bench.observe_and_read("main").map(|files| files.len()), Ok(1));
    let url = bench.url();
    let insecure = credentials("repository", &[("url", &url), ("insecure", "true")]);
    bench.repositories.set_credentials(insecure);
    assert_eq!(bench.observe_and_read("main").map(|files| files.len()), Ok(1));
    // The certificate of another server is not trusted.
    let other = GitServer::start_tls(&bench.folder.path().join("root"));
    bench.repositories.set_credentials(trusted(other.authority()));
    assert!(bench.observe_and_read("main").is_err());
}

/// A redirect from HTTPS to HTTP must not be followed.
#[test]
fn https_stays_https() {
    let Some(bench) = RemoteFixture::with(GitServer::start_tls, |_| {}) else { return };
    let open = GitServer::start(&bench.folder.path().join("root"));
    let url = bench.url();
    bench.repositories.set_credentials(credentials("repository", &[("url", &url), ("insecure", "true")]));
    let redirect = Some(("/repo".to_owned(), open.url("repo")));
    bench.server.set_behavior(ServerBehavior { redirect, ..ServerBehavior::default() });
    let error = bench.observe_and_read("main").unwrap_err().to_string();
    assert!(error.contains("https to http"), "{error}");
    assert!(open.requests().is_empty());
}

#[test]
fn link_local_addresses_are_not_contacted() {
    let Some(bench) = RemoteFixture::new() else { return };
    let metadata = bench.repositories.open("http://169.254.169.254/latest", Path::new("/")).unwrap();
    let error = metadata.observe().unwrap_err().to_string();
    assert!(error.contains("link-local"), "{error}");
    let redirect = Some(("/repo".to_owned(), "http://169.254.169.254/latest".to_owned()));
    bench.server.set_behavior(ServerBehavior { redirect, ..ServerBehavior::default() });
    let error = bench.observe_and_read("main").unwrap_err().to_string();
    assert!(error.contains("link-local"), "{error}");
}

/// A Secret must not apply to another host just because its name starts the same.
#[test]
fn the_longest_prefix_wins() {
    let Some(bench) = RemoteFixture::new() else { return };
    let url = bench.url();
    let host = url.trim_end_matches("/repo").to_owned();
    let mut given = Credentials::default();
    for (begin, password) in
        [(host.clone(), "short"), (format!("{host}/re"), "hunter2"), (format!("{host}/repo2"), "other")]
    {
        let fields = [("url", begin.as_str()), ("username", "me"), ("password", password)];
        given.add(&secret("repo-creds", &fields)).unwrap();
    }
    bench.repositories.set_credentials(given);
    bench.server.set_behavior(requires_authorization(ME));
    assert_eq!(bench.observe_and_read("main").map(|files| files.len()), Ok(1));
    // The address in the Secret may be spelled differently.
    let spelled = host.replace("http://127.0.0.1", "HTTP://127.1");
    let fields = [("url", spelled.as_str()), ("username", "me"), ("password", "hunter2")];
    bench.repositories.set_credentials(credentials("repo-creds", &fields));
    assert_eq!(bench.observe_and_read("main").map(|files| files.len()), Ok(1));
    // The prefix `http://127.0.0.1:1` must not match `http://127.0.0.1:12345`.
    let half = host.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let port = host.trim_start_matches(&half).to_owned();
    let begin = format!("{half}{}", &port[..1]);
    let fields = [("url", begin.as_str()), ("username", "me"), ("password", "hunter2")];
    bench.repositories.set_credentials(credentials("repo-creds", &fields));
    assert!(bench.observe_and_read("main").unwrap_err().to_string().contains("requires credentials"));
}

/// A project's Secret, and the data fetched with it, must be available only to that project's Applications.
#[test]
fn a_project_has_its_own_repositories() {
    let Some(bench) = RemoteFixture::new() else { return };
    let url = bench.url();
    let of = |project| AddressContext { base: Path::new("/"), project };
    let look_and_read = |project| {
        let repository = bench.repositories.open(&url, of(project))?;
        repository.observe()?;
        let commit = repository.resolve("main")?;
        read(&repository, &commit)
    };
    let mine = secret(
        "repository",
        &[("url", &url), ("username", "me"), ("password", "hunter2"), ("project", "payments")],
    );
    let shared = secret("repository", &[("url", &url), ("username", "them"), ("password", "other")]);
    // The result must not depend on which project uses the repository first.
    for (first, second) in [(&mine, &shared), (&shared, &mine)] {
        let mut both = Credentials::default();
        assert!(both.add(first).unwrap() && both.add(second).unwrap());
        bench.repositories.set_credentials(both);
        bench.server.set_behavior(requires_authorization(ME));
        assert_eq!(look_and_read("payments").unwrap().len(), 1);
        for project in ["default", "", "pay"] {
            let refused = look_and_read(project).unwrap_err().to_string();
            assert!(
                refused.contains("does not accept the credentials in Secret given"),
                "{project}: {refused}"
            );
            assert!(!refused.contains("hunter2") && !refused.contains("other"), "{refused}");
        }
        // The data was fetched with the project's Secret, so other projects can't read it.
        let others = bench.repositories.open(&url, of("default")).unwrap();
        assert!(others.resolve("main").is_err());
        assert_eq!(bench.repositories.addresses_of_project("payments"), std::slice::from_ref(&url));
        assert!(bench.repositories.addresses_of_project("default").is_empty());
    }
    // Other projects use the Secret for all projects or, if there is none, no credentials.
    bench.server.set_behavior(requires_authorization("Basic dGhlbTpvdGhlcg=="));
    assert_eq!(look_and_read("default").unwrap().len(), 1);
    assert!(look_and_read("payments").is_err());
    assert_eq!(bench.mirrors().len(), 2);
    bench.server.set_behavior(requires_authorization(ME));
    let mut only = Credentials::default();
    assert!(only.add(&mine).unwrap());
    bench.repositories.set_credentials(only);
    assert_eq!(look_and_read("payments").unwrap().len(), 1);
    let refused = look_and_read("default").unwrap_err().to_string();
    assert!(refused.contains("requires credentials"), "{refused}");
    // A project without a separate Secret uses the Secret for all projects, and shares the data.
    let source = tidegate_model::argo::ApplicationSource { repo_url: url.clone(), ..Default::default() };
    let address = |project| bench.repositories.address(&source, of(project)).unwrap();
    assert_ne!(address("payments"), address("default"));
    bench.repositories.set_credentials(credentials("repository", &[("url", &url), ("password", "hunter2")]));
    assert_eq!(address("payments"), address("default"));
    // Credential templates apply to all projects. A template with a project is invalid.
    let template =
        [("url", url.as_str()), ("username", "me"), ("password", "hunter2"), ("project", "payments")];
    bench.repositories.set_credentials(credentials("repo-creds", &template));
    for project in ["payments", "default"] {
        let refused = look_and_read(project).unwrap_err().to_string();
        assert!(refused.contains("Secret given has a project"), "{refused}");
    }
}
