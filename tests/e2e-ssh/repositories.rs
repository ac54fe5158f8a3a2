//! An Application whose repository is on the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::proxy::Proxy;

use crate::bench::{Bench, CommandOutput, Running};
use crate::sshd::{KeyPair, Sshd, run};

struct Stage {
    bench: Bench,
    server: Sshd,
    /// Key that the server accepts.
    key: KeyPair,
    /// Address of the repository in the Application.
    url: String,
}

impl Stage {
    fn new(config: &str) -> Self {
        Self::with_url(config, Sshd::url)
    }

    /// Returns a configuration in which the Application uses an address other than the server's.
    fn with_url(config: &str, url: impl Fn(&Sshd, &Path) -> String) -> Self {
        let bench = Bench::new();
        let key = KeyPair::new(bench.path(), "deploy");
        let server = Sshd::start(bench.path(), &key, config);
        let url = url(&server, &bench.path().join("served/repo.git"));
        let stage = Self { bench, server, key, url };
        run(Command::new("git")
            .args(["init", "--quiet", "--bare", "--initial-branch=main"])
            .arg(stage.bare_repository()));
        stage.push("1");
        let app = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "one"},
            "spec": {
                "project": "default", "source": {"repoURL": stage.url, "path": "one", "targetRevision": "main"},
                "destination": {"name": "in-cluster", "namespace": "one"},
                "syncPolicy": {
                    "automated": {"prune": true, "selfHeal": true}, "syncOptions": ["CreateNamespace=true"],
                },
            },
        });
        stage.bench.write("apps/one.yaml", app.to_string());
        stage
    }

    fn bare_repository(&self) -> PathBuf {
        self.bench.path().join("served/repo.git")
    }

    /// Creates a commit and pushes it.
    fn push(&self, value: &str) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"value": value},
        });
        self.bench.write("work/one/a.yaml", map.to_string());
        self.bench.run(&["example", "commit", "work"]).expect_code(0);
        let work = self.bench.path().join("work");
        let mut push = Command::new("git");
        push.env("HOME", self.bench.path())
            .arg("-C")
            .arg(work)
            .args(["push", "--quiet"])
            .arg(self.bare_repository());
        run(push.arg("HEAD:main"));
    }

    /// Writes a Secret with a key, and the known hosts.
    fn write_repository_secret(&self, key: &KeyPair, hosts: &str) {
        self.write_repository_secret_with_proxy(None, key, hosts);
    }

    fn write_repository_secret_with_proxy(&self, proxy: Option<&str>, key: &KeyPair, hosts: &str) {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "given", "labels": {"argocd.argoproj.io/secret-type": "repository"}},
            "stringData": {"url": self.url, "sshPrivateKey": key.private},
        });
        if let Some(proxy) = proxy {
            secret["stringData"]["proxy"] = proxy.into();
        }
        let known = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-ssh-known-hosts-cm"},
            "data": {"ssh_known_hosts": hosts},
        });
        self.bench.write("given/repository.yaml", secret.to_string());
        self.bench.write("given/hosts.yaml", known.to_string());
    }

    fn serve(&self) -> Running {
        let mut service =
            self.bench.start(&["serve", "--sim", "--apps", "apps", "--repositories", "given", "-vv"]);
        service.wait_for_line("managing");
        service
    }

    fn wait_until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let get = || self.bench.json(&["app", "get", "one", "-o", "json"]);
        let found = std::iter::repeat_with(get).take(3000).find(|app| is_met(app));
        found.unwrap_or_else(|| panic!("{}", get()))
    }

    /// Waits for a comparison error with this text.
    fn wait_until_refused(&self, words: &str) -> Value {
        self.wait_until(|app| {
            let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let says = |one: &Value| one["message"].as_str().unwrap().contains(words);
            conditions.iter().any(|one| one["type"] == "ComparisonError" && says(one))
        })
    }

    fn refresh(&self) {
        self.bench.run(&["app", "refresh", "one"]).expect_code(0);
    }

    fn wait_until_synced(&self) {
        self.bench.run(&["app", "wait", "one", "--timeout", "10m"]).expect_code(0);
    }

    /// Returns the value of the application's object in the cluster.
    fn deployed_value(&self) -> Option<Value> {
        let objects = self.bench.json(&["sim", "objects", "-o", "json"]);
        let list = objects.as_array().or_else(|| objects["objects"].as_array()).unwrap().clone();
        let map = list.iter().find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == "a");
        map.map(|one| one["data"]["value"].clone())
    }

    /// Stops the service. Checks that no key appears in the output or in a remaining file.
    fn stop(&self, service: Running, keys: &[&KeyPair]) {
        let mut outputs: Vec<CommandOutput> = [
            &["app", "get", "one", "-o", "yaml"][..],
            &["app", "explain", "one"],
            &["app", "list", "-o", "json"],
            &["ops", "list", "-o", "json"],
        ]
        .into_iter()
        .map(|command| self.bench.run(command).expect_code(0))
        .collect();
        service.signal("TERM");
        outputs.push(service.finish().expect_code(0));
        let holds = |folder: PathBuf, text: &str| {
            let found = Command::new("grep").args(["-rqaF", text]).arg(folder).status().unwrap();
            found.success()
        };
        for secret in keys.iter().flat_map(|key| key.secrets()) {
            for ran in &outputs {
                assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "a key is printed: {ran:?}");
            }
            assert!(!holds(self.bench.state(), secret), "a key is in the state directory");
        }
        let last = keys.last().and_then(|key| key.secrets().pop().map(str::to_owned)).unwrap();
        assert!(holds(self.bench.path().join("given"), &last), "the search finds existing objects");
        let mirrors = self.bench.state().join("repositories");
        let left = fs::read_dir(mirrors).into_iter().flatten().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("ssh-")).collect();
        assert!(left.is_empty(), "keys and known hosts are left: {left:?}");
    }
}

/// Most servers accept the newer protocol. The sshd of a default Debian installation doesn't receive the
/// request for it.
pub fn a_push_is_synced_with_any_git_protocol() {
    for (config, protocol) in [("AcceptEnv GIT_PROTOCOL", "version=2"), ("", "no")] {
        let stage = Stage::new(config);
        stage.write_repository_secret(&stage.key, &stage.server.known_hosts_entry(&stage.server.host.public));
        let service = stage.serve();
        stage.wait_until_synced();
        assert_eq!(stage.deployed_value(), Some("1".into()));
        let command = format!("{protocol} git-upload-pack '{}'", stage.bare_repository().display());
        let audit_events = stage.server.take_requests();
        assert!(
            audit_events.len() >= 2 && audit_events.iter().all(|one| *one == command),
            "{audit_events:?}"
        );
        stage.push("2");
        stage.refresh();
        stage.wait_until(|app| app["status"]["history"].as_array().is_some_and(|all| all.len() == 2));
        stage.wait_until_synced();
        assert_eq!(stage.deployed_value(), Some("2".into()));
        stage.stop(service, &[&stage.key]);
        let Stage { server, .. } = stage;
        let log = server.end();
        assert!(log.contains("Accepted publickey for") && !log.contains("Failed"), "{log}");
    }
}

/// The host doesn't have a resolvable address, and its key is known under the host's own name.
pub fn a_host_behind_a_proxy_is_reached_and_its_key_is_checked() {
    for (scheme, port, named) in
        [("http", "", "git.example.invalid"), ("socks5", ":2222", "[git.example.invalid]:2222")]
    {
        let stage = Stage::with_url("AcceptEnv GIT_PROTOCOL", |server, path| {
            format!("ssh://{}@git.example.invalid{port}{}", server.user, path.display())
        });
        let proxy = Proxy::start(&stage.server.address());
        let other = KeyPair::new(stage.bench.path(), "other");
        let through = |user: &str, host: &str| {
            let proxy = format!("{scheme}://{user}@{}", proxy.address());
            stage.write_repository_secret_with_proxy(Some(&proxy), &stage.key, &format!("{named} {host}\n"));
        };
        through("me:hunter2", &other.public);
        let service = stage.serve();
        stage.wait_until_refused("the server's host key differs from the key in argocd-ssh-known-hosts-cm");
        through("me:hunter3", &stage.server.host.public);
        stage.refresh();
        stage.wait_until_refused("cannot connect through the proxy");
        assert_eq!(
            (stage.deployed_value(), stage.server.take_requests()),
            (None, Vec::new()),
            "all requests were rejected"
        );
        proxy.requests();
        through("me:hunter2", &stage.server.host.public);
        stage.refresh();
        stage.wait_until_synced();
        assert_eq!(stage.deployed_value(), Some("1".into()));
        let port = port.trim_start_matches(':');
        let audit_events = proxy.requests();
        let line = format!("git.example.invalid:{}", if port.is_empty() { "22" } else { port });
        assert!(
            !audit_events.is_empty() && audit_events.iter().all(|one| one.contains(&line)),
            "{audit_events:?}"
        );
        stage.stop(service, &[&stage.key]);
    }
}

pub fn a_wrong_or_unknown_host_key_is_refused_and_nothing_is_applied() {
    let stage = Stage::new("AcceptEnv GIT_PROTOCOL");
    let other = KeyPair::new(stage.bench.path(), "other");
    stage.write_repository_secret(&stage.key, &stage.server.known_hosts_entry(&other.public));
    let service = stage.serve();
    let app =
        stage.wait_until_refused("the server's host key differs from the key in argocd-ssh-known-hosts-cm");
    assert_eq!(app["status"]["sync"]["status"], "Unknown");
    // Other hosts are known, but not this host.
    stage.write_repository_secret(&stage.key, &format!("example.com {}\n", other.public));
    stage.refresh();
    stage.wait_until_refused("the server's host key is unknown; verify the host");
    assert_eq!(stage.deployed_value(), None, "nothing is applied");
    assert_eq!(stage.server.take_requests(), Vec::<String>::new(), "all requests were rejected");
    // The correct key takes effect at the next refresh.
    stage.write_repository_secret(&stage.key, &stage.server.known_hosts_entry(&stage.server.host.public));
    stage.refresh();
    stage.wait_until_synced();
    assert_eq!(stage.deployed_value(), Some("1".into()));
    stage.stop(service, &[&stage.key]);
}

pub fn a_key_that_the_server_refuses_is_named_by_its_secret() {
    let stage = Stage::new("AcceptEnv GIT_PROTOCOL");
    let other = KeyPair::new(stage.bench.path(), "other");
    stage.write_repository_secret(&other, &stage.server.known_hosts_entry(&stage.server.host.public));
    let service = stage.serve();
    stage.wait_until_refused("the server does not accept the sshPrivateKey in Secret given");
    assert_eq!(
        (stage.deployed_value(), stage.server.take_requests()),
        (None, Vec::new()),
        "nothing is read or applied"
    );
    stage.write_repository_secret(&stage.key, &stage.server.known_hosts_entry(&stage.server.host.public));
    stage.refresh();
    stage.wait_until_synced();
    assert_eq!(stage.deployed_value(), Some("1".into()));
    stage.stop(service, &[&other, &stage.key]);
    let Stage { server, key, .. } = stage;
    let log = server.end();
    let fingerprint = run(Command::new("ssh-keygen").arg("-lf").arg(key.path()));
    let fingerprint = fingerprint.split_whitespace().nth(1).unwrap();
    let accepted: Vec<&str> = log.lines().filter(|line| line.contains("Accepted publickey")).collect();
    assert!(!accepted.is_empty() && accepted.iter().all(|line| line.contains(fingerprint)), "{log}");
}
