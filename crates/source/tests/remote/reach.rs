//! Who is asked, with which credentials.

use std::path::Path;

use tidegate_model::Object;
use tidegate_source::{Credentials, Home};
use tidegate_testkit::git::{GitServer, Manners};

use super::bench::{Bench, credentials, read, secret};

/// `git:hunter2` and `me:hunter2`.
const GIT: &str = "Basic Z2l0Omh1bnRlcjI=";
const ME: &str = "Basic bWU6aHVudGVyMg==";

fn asks_for(authorization: &str) -> Manners {
    Manners { authorization: Some(authorization.into()), ..Manners::default() }
}

#[test]
fn credentials_are_given() {
    let Some(bench) = Bench::new() else { return };
    let url = bench.url();
    let host = url.trim_end_matches("repo").trim_end_matches('/').to_owned();
    for (kind, fields, authorization) in [
        ("repository", vec![("url", url.as_str()), ("username", "me"), ("password", "hunter2")], ME),
        ("repository", vec![("url", url.as_str()), ("password", "hunter2")], GIT),
        ("repo-creds", vec![("url", host.as_str()), ("username", "me"), ("password", "hunter2")], ME),
        ("repository", vec![("url", url.as_str()), ("bearerToken", "hunter2")], "Bearer hunter2"),
    ] {
        bench.server.behave(asks_for(authorization));
        bench.repositories.set_credentials(Credentials::default());
        let error = bench.look_and_read("main").unwrap_err().to_string();
        assert!(error.contains("asks for credentials") && error.contains("repo-creds"), "{error}");
        bench.repositories.set_credentials(credentials(kind, &fields));
        let read = bench.look_and_read("main");
        assert_eq!(read.map(|files| files.len()), Ok(1), "{kind} {fields:?}");
        bench.server.behave(asks_for("Basic another"));
        let error = bench.look_and_read("main").unwrap_err().to_string();
        assert!(error.contains("does not accept the credentials of Secret given"), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("aHVudGVyMg"), "{error}");
    }
}

/// What cannot be used is said when it is used, and by name.
#[test]
fn secrets_that_cannot_be_used() {
    let Some(bench) = Bench::new() else { return };
    let url = bench.url();
    for (field, value, expected) in [
        ("type", "helm", "type helm"),
        ("githubAppID", "1", "GitHub App"),
        ("useAzureWorkloadIdentity", "true", "AZURE_CLIENT_ID is not set"),
        ("insecure", "perhaps", "insecure"),
        ("tlsClientCertData", "hunter2", "tlsClientCertKey"),
        ("pasword", "hunter2", "pasword"),
        ("password", "hunter2\n", "cannot be sent"),
        ("proxy", "gopher://hunter2@proxy", "proxy of Secret given"),
    ] {
        let mut fields = vec![("url", url.as_str()), (field, value)];
        if field == "password" {
            fields.push(("bearerToken", "hunter2\n"));
        }
        bench.repositories.set_credentials(credentials("repository", &fields));
        let error = bench.look_and_read("main").unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("Secret given"), "{field}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    assert!(bench.server.requests().is_empty(), "nobody was asked");
}

/// A server that is sent on to may be another one: it learns nothing.
#[test]
fn credentials_do_not_follow_to_another_host() {
    let Some(bench) = Bench::new() else { return };
    let other = GitServer::start(&bench.folder.path().join("root"));
    let fields = [("url", bench.url()), ("username", "me".into()), ("password", "hunter2".into())];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    bench.repositories.set_credentials(credentials("repository", &fields));
    // The same server knows them, under another path too.
    std::os::unix::fs::symlink(bench.path(), bench.path().with_file_name("moved")).unwrap();
    let redirect = Some(("/repo/info".to_owned(), format!("{}/info", bench.server.url("moved"))));
    bench.server.behave(Manners { redirect, ..asks_for(ME) });
    assert_eq!(bench.look_and_read("main").map(|files| files.len()), Ok(1));
    assert!(bench.server.requests().iter().all(|one| one.authorization.as_deref() == Some(ME)));
    // Another server does not.
    let redirect = Some(("/repo".to_owned(), other.url("repo")));
    bench.server.behave(Manners { redirect, ..Manners::default() });
    bench.commit("app/new.yaml", "{}");
    assert_eq!(bench.look_and_read("main").map(|files| files.len()), Ok(2));
    let (to_this, to_other) = (bench.server.requests(), other.requests());
    assert!(to_this.iter().all(|one| one.authorization.is_some()) && !to_this.is_empty());
    assert!(to_other.iter().all(|one| one.authorization.is_none()) && to_other.len() >= 4, "{to_other:?}");
    // Where it asks for them, that is what is told: the Secret may be right.
    other.behave(asks_for(ME));
    bench.commit("app/newer.yaml", "{}");
    let error = bench.look_and_read("main").unwrap_err().to_string();
    let there = other.url("").trim_start_matches("http://").trim_end_matches('/').to_owned();
    assert!(error.contains(&format!("sent us on to {there}, which is not shown the credentials")), "{error}");
    assert!(!error.contains("does not accept") && !error.contains("hunter2"), "{error}");
}

#[test]
fn an_authority_of_ones_own() {
    let Some(bench) = Bench::with(GitServer::start_tls, |_| {}) else { return };
    let error = bench.look_and_read("main").unwrap_err().to_string();
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
    let error = bench.look_and_read("main").unwrap_err().to_string();
    assert!(error.contains("no certificates in PEM"), "{error}");
    bench.repositories.set_credentials(trusted(bench.server.authority()));
    assert_eq!(bench.look_and_read("main").map(|files| files.len()), Ok(1));
    let url = bench.url();
    let insecure = credentials("repository", &[("url", &url), ("insecure", "true")]);
    bench.repositories.set_credentials(insecure);
    assert_eq!(bench.look_and_read("main").map(|files| files.len()), Ok(1));
    // Another one's certificate is none.
    let other = GitServer::start_tls(&bench.folder.path().join("root"));
    bench.repositories.set_credentials(trusted(other.authority()));
    assert!(bench.look_and_read("main").is_err());
}

/// From a safe door to an open one nobody is sent.
#[test]
fn https_stays_https() {
    let Some(bench) = Bench::with(GitServer::start_tls, |_| {}) else { return };
    let open = GitServer::start(&bench.folder.path().join("root"));
    let url = bench.url();
    bench.repositories.set_credentials(credentials("repository", &[("url", &url), ("insecure", "true")]));
    let redirect = Some(("/repo".to_owned(), open.url("repo")));
    bench.server.behave(Manners { redirect, ..Manners::default() });
    let error = bench.look_and_read("main").unwrap_err().to_string();
    assert!(error.contains("https to http"), "{error}");
    assert!(open.requests().is_empty());
}

#[test]
fn link_local_addresses_are_not_asked() {
    let Some(bench) = Bench::new() else { return };
    let metadata = bench.repositories.open("http://169.254.169.254/latest", Path::new("/")).unwrap();
    let error = metadata.look().unwrap_err().to_string();
    assert!(error.contains("link-local"), "{error}");
    let redirect = Some(("/repo".to_owned(), "http://169.254.169.254/latest".to_owned()));
    bench.server.behave(Manners { redirect, ..Manners::default() });
    let error = bench.look_and_read("main").unwrap_err().to_string();
    assert!(error.contains("link-local"), "{error}");
}

/// A Secret of one host is for no other, however alike their names are.
#[test]
fn the_longest_beginning_counts() {
    let Some(bench) = Bench::new() else { return };
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
    bench.server.behave(asks_for(ME));
    assert_eq!(bench.look_and_read("main").map(|files| files.len()), Ok(1));
    // `http://127.0.0.1:1` is not the beginning of `http://127.0.0.1:12345`.
    let half = host.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let port = host.trim_start_matches(&half).to_owned();
    let begin = format!("{half}{}", &port[..1]);
    let fields = [("url", begin.as_str()), ("username", "me"), ("password", "hunter2")];
    bench.repositories.set_credentials(credentials("repo-creds", &fields));
    assert!(bench.look_and_read("main").unwrap_err().to_string().contains("asks for credentials"));
}

/// A Secret with a project is for the Applications of that alone, and so is what was fetched with it.
#[test]
fn a_project_has_repositories_of_its_own() {
    let Some(bench) = Bench::new() else { return };
    let url = bench.url();
    let of = |project| Home { base: Path::new("/"), project };
    let look_and_read = |project| {
        let repository = bench.repositories.open(&url, of(project))?;
        repository.look()?;
        let commit = repository.resolve("main")?;
        read(&repository, &commit)
    };
    let mine = secret(
        "repository",
        &[("url", &url), ("username", "me"), ("password", "hunter2"), ("project", "payments")],
    );
    let shared = secret("repository", &[("url", &url), ("username", "them"), ("password", "other")]);
    // In either order.
    for (first, second) in [(&mine, &shared), (&shared, &mine)] {
        let mut both = Credentials::default();
        assert!(both.add(first).unwrap() && both.add(second).unwrap());
        bench.repositories.set_credentials(both);
        bench.server.behave(asks_for(ME));
        assert_eq!(look_and_read("payments").unwrap().len(), 1);
        for project in ["default", "", "pay"] {
            let refused = look_and_read(project).unwrap_err().to_string();
            assert!(
                refused.contains("does not accept the credentials of Secret given"),
                "{project}: {refused}"
            );
            assert!(!refused.contains("hunter2") && !refused.contains("other"), "{refused}");
        }
        // What is there of it is the project's alone.
        let others = bench.repositories.open(&url, of("default")).unwrap();
        assert!(others.resolve("main").is_err());
        assert_eq!(bench.repositories.of_project("payments"), std::slice::from_ref(&url));
        assert!(bench.repositories.of_project("default").is_empty());
    }
    // Others have the one for all, and without one they are nobody.
    bench.server.behave(asks_for("Basic dGhlbTpvdGhlcg=="));
    assert_eq!(look_and_read("default").unwrap().len(), 1);
    assert!(look_and_read("payments").is_err());
    assert_eq!(bench.mirrors().len(), 2);
    bench.server.behave(asks_for(ME));
    let mut only = Credentials::default();
    assert!(only.add(&mine).unwrap());
    bench.repositories.set_credentials(only);
    assert_eq!(look_and_read("payments").unwrap().len(), 1);
    let refused = look_and_read("default").unwrap_err().to_string();
    assert!(refused.contains("asks for credentials"), "{refused}");
    // Where there is none of its own, a project has what all have, and shares it.
    let source = tidegate_model::argo::ApplicationSource { repo_url: url.clone(), ..Default::default() };
    let address = |project| bench.repositories.address(&source, of(project)).unwrap();
    assert_ne!(address("payments"), address("default"));
    bench.repositories.set_credentials(credentials("repository", &[("url", &url), ("password", "hunter2")]));
    assert_eq!(address("payments"), address("default"));
    // Templates are for all; one that says otherwise is not used for anybody.
    let template =
        [("url", url.as_str()), ("username", "me"), ("password", "hunter2"), ("project", "payments")];
    bench.repositories.set_credentials(credentials("repo-creds", &template));
    for project in ["payments", "default"] {
        let refused = look_and_read(project).unwrap_err().to_string();
        assert!(refused.contains("Secret given has a project"), "{refused}");
    }
}
