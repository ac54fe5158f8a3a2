//! Repositories that are asked with tokens which somebody gives for a while.

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
use tidegate_source::{Credentials, Reach, RemoteLimits, SourceError};
use tidegate_testkit::git::{GitServer, Manners};

use super::bench::{Bench, credentials, read, secret};
pub(super) use server::key;
use server::{Server, TOKEN, Told};

/// A repository, and who gives tokens for it.
struct Stage {
    bench: Bench,
    told: Told,
    github: Server,
}

impl Stage {
    fn new() -> Option<Self> {
        Self::with(|_| {})
    }

    fn with(set: impl FnOnce(&mut RemoteLimits)) -> Option<Self> {
        Self::reaching(|reach, _| set(&mut reach.limits))
    }

    /// `set` is told where the server is that gives tokens.
    fn reaching(set: impl FnOnce(&mut Reach, &str)) -> Option<Self> {
        let told = Told::new();
        let github = Server::github(key(0), &told);
        let (clock, url) = (told.clock(), github.url());
        let mut bench = Bench::with(GitServer::start, |reach| {
            reach.clock = clock;
            set(reach, &url);
        })?;
        // Below an owner, as GitHub has it.
        let root = bench.folder.path().join("root");
        fs::create_dir(root.join("acme")).unwrap();
        symlink(root.join("repo"), root.join("acme/repo")).unwrap();
        bench.name = "acme/repo";
        Some(Self { bench, told, github })
    }

    /// The host of the repository, whole.
    fn host(&self) -> String {
        self.bench.server.url("").trim_end_matches('/').to_owned()
    }

    /// Credentials with the App of the first key, some of whose fields are other ones; empty ones are not there.
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

    fn give(&self, credentials: Credentials) {
        self.bench.repositories.set_credentials(credentials);
    }

    /// The Git server accepts this token alone.
    fn accept(&self, user: &str, token: &str) {
        let authorization = Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{token}"))));
        self.bench.server.behave(Manners { authorization, ..Manners::default() });
    }

    /// How many files `main` has, by a new look at it.
    fn files(&self) -> Result<usize, SourceError> {
        self.bench.look_and_read("main").map(|files| files.len())
    }

    /// The same of a repository below another name.
    fn files_of(&self, name: &str) -> Result<usize, SourceError> {
        let repository = self.bench.repositories.open(&self.bench.server.url(name), Path::new("/")).unwrap();
        repository.look()?;
        Ok(read(&repository, &repository.resolve("main")?)?.len())
    }

    /// What a look fails with. It shows nothing that is secret.
    fn error(&self) -> String {
        let error = self.files().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(TOKEN) && !shown.contains("BEGIN") && !shown.contains("eyJ"), "{shown}");
        error.to_string()
    }

    /// How often it was asked for a token.
    fn asked(&self) -> Vec<String> {
        self.github.requests().into_iter().map(|request| request.asked).collect()
    }
}

const ASKED: &str = "POST /app/installations/7/access_tokens";

#[test]
fn no_key_shows() {
    let fields =
        [("url", "https://example.com/a"), ("githubAppID", "17"), ("githubAppPrivateKey", "hunter2")];
    let mut given = Credentials::default();
    given.add(&secret("repository", &fields)).unwrap();
    assert!(!format!("{given:?}").contains("hunter2"));
}
