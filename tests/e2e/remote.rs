//! Applications whose repository is on a server: a real one, on loopback.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_testkit::git::{self, Asked, GitServer, Manners};

use crate::bench::{Bench, Running};

/// `me:hunter2`.
const ME: &str = "Basic bWU6aHVudGVyMg==";

const READER: &str = "readers-may-look-and-no-more";

struct Stage {
    bench: Bench,
    server: GitServer,
}

impl Stage {
    fn new() -> Option<Self> {
        if !git::is_there() {
            return None;
        }
        let bench = Bench::new();
        fs::create_dir(bench.path().join("root")).unwrap();
        let server = GitServer::start(&bench.path().join("root"));
        let stage = Self { bench, server };
        stage.push("1");
        let app = |name: &str, revision: &str| {
            let url = stage.server.url("repo");
            stage.bench.write(
                &format!("apps/{name}.yaml"),
                format!(
                    "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: {name}}}\nspec:\n  \
                     project: default\n  source: {{repoURL: '{url}', path: {name}, targetRevision: '{revision}'}}\n  \
                     destination: {{name: in-cluster, namespace: {name}}}\n  \
                     syncPolicy: {{automated: {{prune: true, selfHeal: true}}, syncOptions: [CreateNamespace=true]}}\n"
                ),
            );
        };
        app("one", "main");
        app("two", "main");
        Some(stage)
    }

    /// Makes a commit, as a push would.
    fn push(&self, value: &str) {
        for name in ["one", "two"] {
            let map = format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{value: '{value}'}}}}\n"
            );
            self.bench.write(&format!("root/repo/{name}/a.yaml"), map);
        }
        self.bench.run(&["example", "commit", "root/repo"]).expect_code(0);
    }

    fn secret(&self, password: &str) {
        let url = self.server.url("");
        self.bench.write(
            "secrets/given.yaml",
            format!(
                "apiVersion: v1\nkind: Secret\nmetadata:\n  name: given\n  labels: {{argocd.argoproj.io/secret-type: repo-creds}}\n\
                 stringData: {{url: '{url}', username: me, password: '{password}'}}\n"
            ),
        );
    }

    fn serve(&self, options: &[&str]) -> Running {
        let mut serving = self.bench.start(&[&["serve", "--sim", "--apps", "apps"], options].concat());
        serving.await_line("serving");
        serving
    }

    fn until(&self, name: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let get = || self.bench.json(&["app", "get", name, "-o", "json"]);
        let found = std::iter::repeat_with(get).take(3000).find(|app| is_met(app));
        found.unwrap_or_else(|| panic!("{}", get()))
    }

    fn refresh(&self, name: &str) {
        self.bench.run(&["app", "refresh", name]).expect_code(0);
    }

    fn wait(&self) {
        self.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    }

    fn values(&self) -> Vec<Value> {
        let objects = self.bench.json(&["sim", "objects", "-o", "json"]);
        let list = objects.as_array().or_else(|| objects["objects"].as_array()).unwrap();
        let maps = list.iter().filter(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == "a");
        maps.map(|one| one["data"]["value"].clone()).collect()
    }
}

fn condition(app: &Value, part: &str) -> bool {
    let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions
        .iter()
        .any(|one| one["type"] == "ComparisonError" && one["message"].as_str().unwrap().contains(part))
}

fn history(app: &Value) -> usize {
    app["status"]["history"].as_array().map_or(0, Vec::len)
}

/// Nothing of a secret is in any file below a folder.
fn holds(folder: &Path, secret: &str) -> bool {
    let found = Command::new("grep").args(["-rqaF", secret]).arg(folder).status().unwrap();
    found.success()
}

#[test]
fn a_push_is_synced_and_the_server_may_go_and_come_back() {
    let Some(mut stage) = Stage::new() else { return };
    let serving = stage.serve(&[]);
    stage.wait();
    let asked = stage.server.asked();
    let objects = asked.iter().filter(|one| **one == Asked::Objects).count();
    assert_eq!(objects, 1, "two applications, one commit: {asked:?}");
    stage.push("2");
    // One of them is asked to look: what it finds is told to the other.
    stage.refresh("one");
    for name in ["one", "two"] {
        stage.until(name, |app| history(app) == 2);
    }
    stage.wait();
    assert_eq!(stage.server.asked(), [Asked::Names, Asked::Objects]);
    assert_eq!(stage.values(), ["2", "2"]);
    stage.server.go_away();
    stage.push("3");
    stage.refresh("one");
    let app = stage.until("one", |app| condition(app, "cannot be reached"));
    assert_eq!(app["status"]["sync"]["status"], "Unknown");
    assert_eq!(stage.values(), ["2", "2"], "nothing is touched");
    stage.server.come_back();
    stage.refresh("one");
    for name in ["one", "two"] {
        stage.until(name, |app| history(app) == 3);
    }
    stage.wait();
    assert_eq!(stage.values(), ["3", "3"]);
    serving.signal("TERM");
    serving.finish().expect_code(0);
    // The next process has all it needs but the names.
    stage.server.requests();
    let serving = stage.serve(&[]);
    stage.refresh("two");
    stage.wait();
    assert!(stage.server.asked().iter().all(|one| *one == Asked::Names));
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// What `/metrics` says, to a reader.
fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {READER}\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_tell_what_a_repository_was_asked() {
    let Some(mut stage) = Stage::new() else { return };
    stage.bench.write_closed("tokens", format!("ben read-only {READER}\n"));
    let args = ["serve", "--sim", "--apps", "apps", "--listen", "0", "--tokens", "tokens"];
    let mut serving = stage.bench.start(&args);
    let address = serving.await_api();
    serving.await_line("serving 2 applications");
    stage.wait();
    let repository = stage.server.url("repo");
    let count = |name: &str, labels: &str| -> usize {
        let begin = format!("{name}{{repo=\"{repository}\"{labels}}} ");
        let all = metrics(&address);
        let found = all.lines().find_map(|line| line.strip_prefix(&begin));
        found.map_or(0, |number| number.parse().unwrap())
    };
    // By the word of the server.
    let mut asked = Vec::new();
    let mut is_counted = || {
        asked.extend(stage.server.asked());
        [("ls-remote", Asked::Names), ("fetch", Asked::Objects)].into_iter().all(|(sort, kind)| {
            let all = asked.iter().filter(|one| **one == kind).count();
            let sort = format!(",request_type=\"{sort}\"");
            let names = ["argocd_git_request_total", "argocd_git_request_duration_seconds_count"];
            all > 0 && names.into_iter().all(|name| count(name, &sort) == all)
        })
    };
    assert!((0..3000).any(|_| is_counted()), "{asked:?} {}", metrics(&address));
    let failed =
        || ["argocd_git_lsremote_fail_total", "argocd_git_fetch_fail_total"].map(|name| count(name, ""));
    assert_eq!(failed(), [0, 0]);
    stage.server.go_away();
    stage.refresh("one");
    stage.until("one", |app| condition(app, "cannot be reached"));
    assert!(failed()[0] > 0 && failed()[1] == 0, "{:?}", failed());
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn credentials_are_given_changed_and_never_shown() {
    let Some(stage) = Stage::new() else { return };
    stage.server.behave(Manners { authorization: Some(ME.into()), ..Manners::default() });
    stage.secret("wrong-hunter3");
    let serving = stage.serve(&["--repositories", "secrets", "-vv"]);
    for name in ["one", "two"] {
        stage.until(name, |app| condition(app, "does not accept the credentials of Secret given"));
    }
    // A Secret that is changed is used with the next look.
    stage.secret("hunter2");
    stage.refresh("one");
    stage.wait();
    assert_eq!(stage.values(), ["1", "1"]);
    // What cannot be read changes nothing.
    stage.bench.write("secrets/broken.yaml", "stringData: {password: hunter4");
    stage.push("2");
    stage.refresh("one");
    stage.until("two", |app| history(app) == 2);
    let listed = stage.bench.run(&["app", "get", "one", "-o", "yaml"]).expect_code(0);
    assert!(!listed.out.contains("hunter"), "{}", listed.out);
    serving.signal("TERM");
    let ended = serving.finish().expect_code(0);
    assert!(ended.err.contains("broken.yaml") && !ended.err.contains("hunter"), "{}", ended.err);
    for secret in ["hunter", "bWU6aHVudGVyMg"] {
        assert!(!holds(&stage.bench.state(), secret), "{secret}");
    }
    assert!(holds(&stage.bench.path().join("secrets"), "hunter2"), "the search finds what is there");
    let refused =
        stage.bench.run(&["serve", "--sim", "--apps", "apps", "--repositories", "secrets"]).expect_code(4);
    assert!(refused.err.contains("broken.yaml") && !refused.err.contains("hunter"), "{}", refused.err);
}

/// What was fetched of a repository goes some time after the last application that uses it.
#[test]
fn a_repository_that_nobody_uses_leaves_nothing_behind() {
    let Some(stage) = Stage::new() else { return };
    let serving = stage.serve(&["--refresh-every", "1s"]);
    stage.wait();
    let mirrors = || {
        let found =
            fs::read_dir(stage.bench.state().join("repositories")).unwrap().map(|entry| entry.unwrap());
        found.filter(|entry| entry.file_name().len() == 32).count()
    };
    assert_eq!(mirrors(), 1);
    fs::remove_file(stage.bench.path().join("apps/one.yaml")).unwrap();
    stage.push("2");
    stage.until("two", |app| history(app) == 2);
    assert_eq!(mirrors(), 1, "another uses it");
    fs::remove_file(stage.bench.path().join("apps/two.yaml")).unwrap();
    let is_gone = |_: &i32| {
        stage.bench.run(&["app", "list"]).expect_code(0);
        mirrors() == 0
    };
    assert!((0..3000).find(is_gone).is_some());
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// A process that is to end does not wait for a server that says nothing.
#[test]
fn a_server_that_hangs_keeps_nobody() {
    let Some(stage) = Stage::new() else { return };
    stage.server.behave(Manners { hang: Some(Asked::Greeting), ..Manners::default() });
    let serving = stage.serve(&[]);
    stage.server.await_request();
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// A Secret with a project permits its repository to that project, and is used for nobody else.
#[test]
fn a_repository_is_a_projects_own() {
    let Some(stage) = Stage::new() else { return };
    stage.server.behave(Manners { authorization: Some(ME.to_owned()), ..Manners::default() });
    let file = stage.bench.path().join("apps/one.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("project: default", "project: team")).unwrap();
    let project = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: team}\nspec:\n  \
        destinations: [{server: '*', namespace: one}]\n  \
        clusterResourceWhitelist: [{group: '', kind: Namespace, name: one}]\n";
    stage.bench.write("apps/team.yaml", project);
    let url = stage.server.url("repo");
    let secret = |project: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: own\n  labels: {{argocd.argoproj.io/secret-type: repository}}\n\
             stringData: {{url: '{url}', username: me, password: hunter2, project: '{project}'}}\n"
        );
        stage.bench.write("secrets/own.yaml", text);
    };
    secret("another");
    let serving = stage.serve(&["--repositories", "secrets"]);
    let is_refused = |app: &Value| {
        let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .any(|one| one["message"].as_str().unwrap().contains("is not permitted in project 'team'"))
    };
    stage.until("one", is_refused);
    stage.until("two", |app| condition(app, "asks for credentials"));
    secret("team");
    // Where files say it, it is read with the next look.
    stage.refresh("two");
    stage.refresh("one");
    stage.bench.run(&["app", "wait", "one", "--timeout", "10m"]).expect_code(0);
    stage.refresh("two");
    let other = stage.until("two", |app| condition(app, "asks for credentials"));
    assert_eq!(history(&other), 0);
    assert_eq!(stage.values(), ["1"]);
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
