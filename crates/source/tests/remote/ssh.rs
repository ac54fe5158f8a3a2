//! Tests for Git over SSH. A script replaces `ssh`, records its arguments, and then acts like a server.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use tidegate_model::Object;
use tidegate_source::{Credentials, RemoteAccess, Repositories, commit_folder};
use tidegate_testkit::program::write_script;

use super::fixture::{MAP, SHORT, read, secret, write};
use super::lfs::{CONTENT, authorized_requests, pointer, respond_with};
use super::temporary_tokens::server::{Server, json as answer};

const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----";

struct SshFixture {
    folder: TempDir,
    program: PathBuf,
}

impl SshFixture {
    /// Creates a test setup. After the script has recorded its arguments, it runs the command `server`.
    fn new(server: &str) -> Option<Self> {
        if !tidegate_testkit::git::is_available() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("repo's"), "app/a.yaml", MAP);
        commit_folder(&folder.path().join("repo's"), "change", 1_795_253_400).unwrap();
        let program = folder.path().join("ssh");
        let record = folder.path().join("record");
        let script = format!(
            "R={}\nprintf '%s\\n' \"$@\" >> $R\nenv >> $R\n\
             for a; do case $a in */key) stat -c %a $a >> $R; cat $a >> $R;; \
             UserKnownHostsFile=/*) cat ${{a#*=}} >> $R;; esac; l=$a; done\n{server}",
            record.display()
        );
        write_script(&program, &script);
        Some(Self { folder, program })
    }

    fn repositories(&self, credentials: Credentials) -> Repositories {
        let mut reach = RemoteAccess::new(self.mirrors());
        (reach.ssh, reach.credentials) = (self.program.clone(), credentials);
        reach.limits.list_refs = SHORT * 20;
        Repositories::new(reach)
    }

    fn mirrors(&self) -> PathBuf {
        self.folder.path().join("mirrors")
    }

    fn url(&self) -> String {
        format!("ssh://deploy@example.com:2222{}/repo's", self.folder.path().display())
    }

    fn error(&self) -> String {
        let repository = self
            .repositories(ssh_credentials("repository", &self.url()))
            .open(&self.url(), Path::new("/"))
            .unwrap();
        let error = repository.observe().unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        error
    }
}

fn ssh_credentials(kind: &str, url: &str) -> Credentials {
    let mut credentials = Credentials::default();
    credentials.add(&secret(kind, &[("url", url), ("sshPrivateKey", KEY)])).unwrap();
    let hosts = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-ssh-known-hosts-cm"},
        "data": {"ssh_known_hosts": "example.com ssh-ed25519 AAAA"},
    });
    assert!(credentials.add(&Object::try_from(hosts).unwrap()).unwrap());
    credentials
}

#[test]
fn a_repository_by_ssh() {
    let Some(stage) = SshFixture::new("eval \"git ${l#git-}\" | cat") else { return };
    let url = stage.url();
    let repositories = stage.repositories(ssh_credentials("repository", &url));
    let repository = repositories.open(&url, Path::new("/")).unwrap();
    for _ in 0..2 {
        repository.observe().unwrap();
        let commit = repository.resolve("main").unwrap();
        assert_eq!(read(&repository, &commit).unwrap().len(), 1);
    }
    let record = fs::read_to_string(stage.folder.path().join("record")).unwrap();
    assert_eq!(record.matches("BatchMode=yes").count(), 3, "two refreshes, one commit");
    for line in [
        "StrictHostKeyChecking=yes",
        "IdentityAgent=none",
        "-F\nnone",
        "-p\n2222",
        "-l\ndeploy\n--\nexample.com",
        "600\n-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----\n",
        "example.com ssh-ed25519 AAAA",
        "GIT_PROTOCOL=version=2",
        "/repo'\\''s'",
    ] {
        assert!(record.contains(line), "{line:?}: {record}");
    }
    assert!(!record.contains("CARGO"), "the environment is not inherited: {record}");
    let left: Vec<_> =
        fs::read_dir(stage.mirrors()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "no key is left: {left:?}");
    // If a process is killed, the next process deletes its files.
    fs::create_dir(stage.mirrors().join("ssh-left")).unwrap();
    stage.repositories(Credentials::default());
    assert!(!stage.mirrors().join("ssh-left").exists());
}

#[test]
fn failures_are_described() {
    for (server, expected) in [
        (
            "echo 'Host key verification failed.' >&2; exit 255",
            "the server's host key is unknown; verify the host",
        ),
        (
            "echo 'WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!' >&2; echo 'Host key verification failed.' >&2; exit 255",
            "differs from the key in argocd-ssh-known-hosts-cm",
        ),
        (
            "echo 'deploy@example.com: Permission denied (publickey).' >&2; exit 255",
            "sshPrivateKey in Secret given",
        ),
        ("echo 'Load key \"x\": invalid format' >&2; exit 255", "is invalid or has a passphrase"),
        (
            "echo 'ssh: connect to host example.com port 2222: Connection refused' >&2; exit 255",
            "Connection refused",
        ),
        // The server waits until the time limit of the observation.
        ("exec tail -f /dev/null", "not finish within"),
    ] {
        let Some(stage) = SshFixture::new(server) else { return };
        let error = stage.error();
        assert!(error.contains(expected), "{server}: {error}");
    }
    let Some(mut stage) = SshFixture::new("") else { return };
    stage.program = "/nowhere/ssh".into();
    assert!(stage.error().contains("the program /nowhere/ssh was not found"), "{}", stage.error());
}

#[test]
fn missing_credentials_are_reported_before_the_start() {
    let Some(stage) = SshFixture::new("exit 1") else { return };
    let url = stage.url();
    let mut only_key = Credentials::default();
    only_key.add(&secret("repository", &[("url", &url), ("sshPrivateKey", KEY)])).unwrap();
    for (credentials, expected) in
        [(Credentials::default(), "no SSH key is configured"), (only_key, "ssh-keyscan")]
    {
        let repository = stage.repositories(credentials).open(&url, Path::new("/")).unwrap();
        let error = repository.observe().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(!stage.folder.path().join("record").exists());
}

/// The LFS server issues its credentials over SSH.
#[test]
fn objects_of_git_lfs() {
    let server = Server::start(|_| answer(404, &json!({})));
    let says =
        json!({"href": format!("{}/lfs", server.url()), "header": {"Authorization": "RemoteAuth hunter2"}});
    let asks = format!("case $l in git-lfs*) echo '{says}';; *) eval \"git ${{l#git-}}\" | cat;; esac");
    let Some(stage) = SshFixture::new(&asks) else { return };
    write(&stage.folder.path().join("repo's"), "app/a.yaml", &pointer(CONTENT));
    commit_folder(&stage.folder.path().join("repo's"), "change", 1_795_253_400).unwrap();
    let url = server.url();
    server.set_responses(respond_with(&[CONTENT], move |oid| json!({"href": format!("{url}/{oid}")})));
    let files = |host: &str| {
        let url = stage.url().replace("example.com", host);
        let fields = [("url", url.as_str()), ("sshPrivateKey", KEY), ("enableLfs", "true")];
        // This Secret is for a different host. Its credentials also contain the known hosts.
        let mut credentials = ssh_credentials("repository", "ssh://deploy@other.example/a");
        credentials.add(&secret("repository", &fields)).unwrap();
        let repository = stage.repositories(credentials).open(&url, Path::new("/")).unwrap();
        repository.observe().unwrap();
        read(&repository, &repository.resolve("main").unwrap())
    };
    assert_eq!(files("127.0.0.1").unwrap()[0].content, CONTENT.as_bytes());
    let asked = authorized_requests(&server);
    let shown = Some("RemoteAuth hunter2".to_owned());
    let [(batch, first), (_, second)] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!((batch.as_str(), first, second), ("POST /lfs/objects/batch", &shown, &None));
    let record = fs::read_to_string(stage.folder.path().join("record")).unwrap();
    assert!(
        record.contains("git-lfs-authenticate '") && record.contains("/repo'\\''s' download"),
        "{record}"
    );
    // A server on another machine must not cause requests to this machine.
    let error = files("example.com").unwrap_err().to_string();
    assert!(
        error.contains("cannot fetch app/a.yaml from Git LFS: its host is a loopback address"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 0);
}
