//! Tests for repositories with temporary tokens, which a token server issues.

mod apps;
mod azure;
mod google;
mod hostile;
pub(super) mod server;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tidegate_source::{Credentials, RemoteAccess, RemoteLimits, SourceError};
use tidegate_testkit::git::{GitServer, ServerBehavior};

use super::fixture::{RemoteFixture, credentials, read, secret};
pub(super) use server::key;
use server::{Server, TOKEN, TestClock};

/// A repository and its token server.
struct TokenFixture {
    bench: RemoteFixture,
    clock: TestClock,
    github: Server,
}

impl TokenFixture {
    fn new() -> Option<Self> {
        Self::with(|_| {})
    }

    fn with(set: impl FnOnce(&mut RemoteLimits)) -> Option<Self> {
        Self::with_remote_access(|reach, _| set(&mut reach.limits))
    }

    /// Creates a test setup. `set` changes the settings, given the URL of the token server.
    fn with_remote_access(set: impl FnOnce(&mut RemoteAccess, &str)) -> Option<Self> {
        let told = TestClock::new();
        let github = Server::github(key(0), &told);
        let (clock, url) = (told.clock(), github.url());
        let mut bench = RemoteFixture::with(GitServer::start, |reach| {
            reach.clock = clock;
            set(reach, &url);
        })?;
        // As on GitHub, the path of the repository starts with its owner.
        let root = bench.folder.path().join("root");
        fs::create_dir(root.join("acme")).unwrap();
        symlink(root.join("repo"), root.join("acme/repo")).unwrap();
        bench.name = "acme/repo";
        Some(Self { bench, clock: told, github })
    }

    /// Returns the host and the port of the repository.
    fn host(&self) -> String {
        self.bench.server.url("").trim_end_matches('/').to_owned()
    }

    /// Returns credentials for the App with the first key. `others` replaces some fields, or removes them if
    /// the value is empty.
    fn app(&self, kind: &str, others: &[(&str, &str)]) -> Credentials {
        let (url, base) =
            (if kind == "repository" { self.bench.url() } else { self.host() }, self.github.url());
        let mut fields = vec![
            ("url", url.as_str()),
            ("githubAppID", "17"),
            ("githubAppInstallationID", "7"),
            ("githubAppPrivateKey", key(0).pkcs1.as_str()),
            ("githubAppEnterpriseBaseUrl", base.as_str()),
        ];
        fields.retain(|(name, _)| others.iter().all(|(other, _)| other != name));
        fields.extend(others.iter().filter(|(_, value)| !value.is_empty()));
        credentials(kind, &fields)
    }

    fn set_credentials(&self, credentials: Credentials) {
        self.bench.repositories.set_credentials(credentials);
    }

    /// Makes the Git server accept only this token.
    fn accept(&self, user: &str, token: &str) {
        let authorization = Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{token}"))));
        self.bench.server.set_behavior(ServerBehavior { authorization, ..ServerBehavior::default() });
    }

    /// Observes the repository and returns the number of files in `main`.
    fn files(&self) -> Result<usize, SourceError> {
        self.bench.observe_and_read("main").map(|files| files.len())
    }

    /// Like `files`, but for a repository with this name.
    fn files_of(&self, name: &str) -> Result<usize, SourceError> {
        let repository = self.bench.repositories.open(&self.bench.server.url(name), Path::new("/")).unwrap();
        repository.observe()?;
        Ok(read(&repository, &repository.resolve("main")?)?.len())
    }

    /// Observes the repository and returns the error. Fails if the error contains secrets.
    fn error(&self) -> String {
        let error = self.files().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(TOKEN) && !shown.contains("BEGIN") && !shown.contains("eyJ"), "{shown}");
        error.to_string()
    }

    /// Returns the token requests since the previous call.
    fn token_requests(&self) -> Vec<String> {
        self.github.requests().into_iter().map(|request| request.line).collect()
    }
}

const ASKED: &str = "POST /app/installations/7/access_tokens";

#[test]
fn keys_are_not_shown() {
    let fields =
        [("url", "https://example.com/a"), ("githubAppID", "17"), ("githubAppPrivateKey", "hunter2")];
    let mut given = Credentials::default();
    given.add(&secret("repository", &fields)).unwrap();
    assert!(!format!("{given:?}").contains("hunter2"));
}
