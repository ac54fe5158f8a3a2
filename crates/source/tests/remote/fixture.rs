//! Test setup: a Git server with one repository, and clients of the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_model::Object;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::{
    Credentials, File, RemoteAccess, RemoteLimits, RenderInputs, Repositories, Repository, SourceError,
    commit_folder,
};
use tidegate_testkit::git::GitServer;

pub const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";

/// Short time limit for requests.
pub const SHORT: Duration = Duration::from_millis(300);

pub struct RemoteFixture {
    pub folder: TempDir,
    pub server: GitServer,
    pub repositories: Repositories,
    pub name: &'static str,
}

/// Writes a file. Creates its parent folders if necessary.
pub fn write(folder: &Path, file: &str, content: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

impl RemoteFixture {
    /// Creates a repository with one commit. Returns `None` if Git's HTTP server isn't available.
    pub fn new() -> Option<Self> {
        Self::with(GitServer::start, |_| {})
    }

    pub fn with(start: fn(&Path) -> GitServer, set: impl FnOnce(&mut RemoteAccess)) -> Option<Self> {
        if !tidegate_testkit::git::is_available() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        write(&root.join("repo"), "app/a.yaml", MAP);
        commit_folder(&root.join("repo"), "change", 1_795_253_400).unwrap();
        let server = start(&root);
        let mut reach = RemoteAccess::new(folder.path().join("mirrors"));
        set(&mut reach);
        let repositories = Repositories::new(reach);
        Some(Self { folder, server, repositories, name: "repo" })
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("root").join(self.name)
    }

    pub fn commit(&self, file: &str, content: &str) -> String {
        write(&self.path(), file, content);
        commit_folder(&self.path(), "change", 1_795_253_400).unwrap().unwrap()
    }

    /// Runs `git` in the repository, for tests that are simpler that way.
    pub fn git(&self, arguments: &[&str]) -> String {
        let path = self.path();
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let run = Command::new("git").arg("-C").arg(&path).args(who).args(arguments).output().unwrap();
        assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8_lossy(&run.stdout).trim().to_owned()
    }

    pub fn url(&self) -> String {
        self.server.url(self.name)
    }

    pub fn open(&self) -> Arc<Repository> {
        self.repositories.open(&self.url(), Path::new("/")).unwrap()
    }

    /// Observes the refs and reads the files of a revision.
    pub fn observe_and_read(&self, revision: &str) -> Result<Vec<File>, SourceError> {
        self.open().observe()?;
        let commit = self.open().resolve(revision)?;
        self.read(&commit)
    }

    /// Reads the files of a commit.
    pub fn read(&self, commit: &str) -> Result<Vec<File>, SourceError> {
        read(&self.open(), commit)
    }

    /// Returns the folders of all mirrors.
    pub fn mirrors(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(self.folder.path().join("mirrors")).unwrap();
        found.map(|entry| entry.unwrap().path()).collect()
    }
}

pub fn read(repository: &Repository, commit: &str) -> Result<Vec<File>, SourceError> {
    let source = ApplicationSource { path: "app".into(), ..ApplicationSource::default() };
    let located = repository.locate_manifests(&source, commit, &RenderInputs::default())?;
    repository.read(&located, &RenderInputs::default())
}

/// Returns a Secret with this label and the credentials for a server.
pub fn secret(kind: &str, fields: &[(&str, &str)]) -> Object {
    let fields: serde_json::Map<_, _> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let value = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": fields,
        "metadata": {"name": "given", "labels": {"argocd.argoproj.io/secret-type": kind}},
    });
    Object::try_from(value).unwrap()
}

pub fn credentials(kind: &str, fields: &[(&str, &str)]) -> Credentials {
    let mut credentials = Credentials::default();
    assert!(credentials.add(&secret(kind, fields)).unwrap());
    credentials
}

pub fn limits(set: impl FnOnce(&mut RemoteLimits)) -> impl FnOnce(&mut RemoteAccess) {
    |reach| set(&mut reach.limits)
}
