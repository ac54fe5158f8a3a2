//! An Application whose repository is on the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::proxy::Proxy;

use crate::bench::{Bench, Ran, Running};
use crate::sshd::{Keys, Sshd, run};

struct Stage {
    bench: Bench,
    server: Sshd,
    /// What the server lets in.
    key: Keys,
    /// The address of the repository, as the Application has it.
    url: String,
}

impl Stage {
    fn new(config: &str) -> Self {
        Self::at(config, Sshd::url)
    }

    /// With another address than that of the server.
    fn at(config: &str, url: impl Fn(&Sshd, &Path) -> String) -> Self {
        let bench = Bench::new();
        let key = Keys::new(bench.path(), "deploy");
        let server = Sshd::start(bench.path(), &key, config);
        let url = url(&server, &bench.path().join("served/repo.git"));
        let stage = Self { bench, server, key, url };
        run(Command::new("git")
            .args(["init", "--quiet", "--bare", "--initial-branch=main"])
            .arg(stage.bare()));
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

    fn bare(&self) -> PathBuf {
        self.bench.path().join("served/repo.git")
    }

    /// Makes a commit and pushes it.
    fn push(&self, value: &str) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"value": value},
        });
        self.bench.write("work/one/a.yaml", map.to_string());
        self.bench.run(&["example", "commit", "work"]).expect_code(0);
        let work = self.bench.path().join("work");
        let mut push = Command::new("git");
        push.env("HOME", self.bench.path()).arg("-C").arg(work).args(["push", "--quiet"]).arg(self.bare());
        run(push.arg("HEAD:main"));
    }

    /// A Secret with a key, and the hosts that are known.
    fn repositories(&self, key: &Keys, hosts: &str) {
        self.repositories_through(None, key, hosts);
    }

    fn repositories_through(&self, proxy: Option<&str>, key: &Keys, hosts: &str) {
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
        let mut serving =
            self.bench.start(&["serve", "--sim", "--apps", "apps", "--repositories", "given", "-vv"]);
        serving.await_line("serving");
        serving
    }

    fn until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let get = || self.bench.json(&["app", "get", "one", "-o", "json"]);
        let found = std::iter::repeat_with(get).take(3000).find(|app| is_met(app));
        found.unwrap_or_else(|| panic!("{}", get()))
    }

    /// Waits until it says that it cannot be compared, in these words.
    fn until_refused(&self, words: &str) -> Value {
        self.until(|app| {
            let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let says = |one: &Value| one["message"].as_str().unwrap().contains(words);
            conditions.iter().any(|one| one["type"] == "ComparisonError" && says(one))
        })
    }

    fn refresh(&self) {
        self.bench.run(&["app", "refresh", "one"]).expect_code(0);
    }

    fn wait(&self) {
        self.bench.run(&["app", "wait", "one", "--timeout", "10m"]).expect_code(0);
    }

    /// What there is of the application in the cluster.
    fn value(&self) -> Option<Value> {
        let objects = self.bench.json(&["sim", "objects", "-o", "json"]);
        let list = objects.as_array().or_else(|| objects["objects"].as_array()).unwrap().clone();
        let map = list.iter().find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == "a");
        map.map(|one| one["data"]["value"].clone())
    }

    /// Ends the service; no key is in what it and the commands have said, or among what it has left.
    fn end(&self, serving: Running, keys: &[&Keys]) {
        let mut said: Vec<Ran> = [
            &["app", "get", "one", "-o", "yaml"][..],
            &["app", "explain", "one"],
            &["app", "list", "-o", "json"],
            &["ops", "list", "-o", "json"],
        ]
        .into_iter()
        .map(|command| self.bench.run(command).expect_code(0))
        .collect();
        serving.signal("TERM");
        said.push(serving.finish().expect_code(0));
        let holds = |folder: PathBuf, text: &str| {
            let found = Command::new("grep").args(["-rqaF", text]).arg(folder).status().unwrap();
            found.success()
        };
        for secret in keys.iter().flat_map(|key| key.secrets()) {
            for ran in &said {
                assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "a key is shown: {ran:?}");
            }
            assert!(!holds(self.bench.state(), secret), "a key is among the state");
        }
        let last = keys.last().and_then(|key| key.secrets().pop().map(str::to_owned)).unwrap();
        assert!(holds(self.bench.path().join("given"), &last), "the search finds what is there");
        let mirrors = self.bench.state().join("repositories");
        let left = fs::read_dir(mirrors).into_iter().flatten().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("ssh-")).collect();
        assert!(left.is_empty(), "keys and known hosts are left: {left:?}");
    }
}

/// Most servers of the field take the newer protocol; an sshd as Debian installs it is not told that it is asked for.
pub fn a_push_is_synced_whatever_the_server_knows_of_protocols() {
    for (config, protocol) in [("AcceptEnv GIT_PROTOCOL", "version=2"), ("", "no")] {
        let stage = Stage::new(config);
        stage.repositories(&stage.key, &stage.server.known(&stage.server.host.public));
        let serving = stage.serve();
        stage.wait();
        assert_eq!(stage.value(), Some("1".into()));
        let command = format!("{protocol} git-upload-pack '{}'", stage.bare().display());
        let asked = stage.server.asked();
        assert!(asked.len() >= 2 && asked.iter().all(|one| *one == command), "{asked:?}");
        stage.push("2");
        stage.refresh();
        stage.until(|app| app["status"]["history"].as_array().is_some_and(|all| all.len() == 2));
        stage.wait();
        assert_eq!(stage.value(), Some("2".into()));
        stage.end(serving, &[&stage.key]);
        let Stage { server, .. } = stage;
        let log = server.end();
        assert!(log.contains("Accepted publickey for") && !log.contains("Failed"), "{log}");
    }
}

/// The host has no address that anybody could look up, and its key is known under its own name.
pub fn a_host_that_only_a_proxy_reaches_is_reached_and_its_key_is_checked() {
    for (scheme, port, named) in
        [("http", "", "git.example.invalid"), ("socks5", ":2222", "[git.example.invalid]:2222")]
    {
        let stage = Stage::at("AcceptEnv GIT_PROTOCOL", |server, path| {
            format!("ssh://{}@git.example.invalid{port}{}", server.user, path.display())
        });
        let proxy = Proxy::start(&stage.server.address());
        let other = Keys::new(stage.bench.path(), "other");
        let through = |user: &str, host: &str| {
            let proxy = format!("{scheme}://{user}@{}", proxy.address());
            stage.repositories_through(Some(&proxy), &stage.key, &format!("{named} {host}\n"));
        };
        through("me:hunter2", &other.public);
        let serving = stage.serve();
        stage.until_refused("the key of its host is another one than argocd-ssh-known-hosts-cm says");
        through("me:hunter3", &stage.server.host.public);
        stage.refresh();
        stage.until_refused("there is no way through the proxy");
        assert_eq!((stage.value(), stage.server.asked()), (None, Vec::new()), "nobody was let in");
        proxy.asked();
        through("me:hunter2", &stage.server.host.public);
        stage.refresh();
        stage.wait();
        assert_eq!(stage.value(), Some("1".into()));
        let port = port.trim_start_matches(':');
        let asked = proxy.asked();
        let line = format!("git.example.invalid:{}", if port.is_empty() { "22" } else { port });
        assert!(!asked.is_empty() && asked.iter().all(|one| one.contains(&line)), "{asked:?}");
        stage.end(serving, &[&stage.key]);
    }
}

pub fn another_host_or_an_unknown_one_is_refused_and_nothing_is_applied() {
    let stage = Stage::new("AcceptEnv GIT_PROTOCOL");
    let other = Keys::new(stage.bench.path(), "other");
    stage.repositories(&stage.key, &stage.server.known(&other.public));
    let serving = stage.serve();
    let app = stage.until_refused("the key of its host is another one than argocd-ssh-known-hosts-cm says");
    assert_eq!(app["status"]["sync"]["status"], "Unknown");
    // Other hosts are known, and this one is not.
    stage.repositories(&stage.key, &format!("example.com {}\n", other.public));
    stage.refresh();
    stage.until_refused("the key of its host is not known; make sure that it is the right host");
    assert_eq!(stage.value(), None, "nothing is applied");
    assert_eq!(stage.server.asked(), Vec::<String>::new(), "nobody was let in");
    // What is right counts with the next look.
    stage.repositories(&stage.key, &stage.server.known(&stage.server.host.public));
    stage.refresh();
    stage.wait();
    assert_eq!(stage.value(), Some("1".into()));
    stage.end(serving, &[&stage.key]);
}

pub fn a_key_that_the_server_does_not_know_is_named_by_its_secret() {
    let stage = Stage::new("AcceptEnv GIT_PROTOCOL");
    let other = Keys::new(stage.bench.path(), "other");
    stage.repositories(&other, &stage.server.known(&stage.server.host.public));
    let serving = stage.serve();
    stage.until_refused("the server does not accept sshPrivateKey of Secret given");
    assert_eq!((stage.value(), stage.server.asked()), (None, Vec::new()), "nothing is read or applied");
    stage.repositories(&stage.key, &stage.server.known(&stage.server.host.public));
    stage.refresh();
    stage.wait();
    assert_eq!(stage.value(), Some("1".into()));
    stage.end(serving, &[&other, &stage.key]);
    let Stage { server, key, .. } = stage;
    let log = server.end();
    let fingerprint = run(Command::new("ssh-keygen").arg("-lf").arg(key.path()));
    let fingerprint = fingerprint.split_whitespace().nth(1).unwrap();
    let accepted: Vec<&str> = log.lines().filter(|line| line.contains("Accepted publickey")).collect();
    assert!(!accepted.is_empty() && accepted.iter().all(|line| line.contains(fingerprint)), "{log}");
}
