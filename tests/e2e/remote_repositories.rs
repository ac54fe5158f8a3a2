//! Applications whose repository is on a real server on loopback.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_testkit::git::{self, GitServer, RequestKind, ServerBehavior};

use crate::bench::{Bench, Running};

/// Basic authentication with `me:hunter2`.
const CREDENTIALS: &str = "Basic bWU6aHVudGVyMg==";

const READER: &str = "readers-may-look-and-no-more";

struct Stage {
    bench: Bench,
    server: GitServer,
}

impl Stage {
    fn new() -> Option<Self> {
        if !git::is_available() {
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

    /// Creates a commit as a push would.
    fn push(&self, value: &str) {
        for name in ["one", "two"] {
            let map = format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {{value: '{value}'}}}}\n"
            );
            self.bench.write(&format!("root/repo/{name}/a.yaml"), map);
        }
        self.bench.run(&["example", "commit", "root/repo"]).expect_code(0);
    }

    fn write_secret(&self, password: &str) {
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
        let mut service = self.bench.start(&[&["serve", "--sim", "--apps", "apps"], options].concat());
        service.wait_for_line("managing");
        service
    }

    fn wait_until(&self, name: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let get = || self.bench.json(&["app", "get", name, "-o", "json"]);
        let found = std::iter::repeat_with(get).take(3000).find(|app| is_met(app));
        found.unwrap_or_else(|| panic!("{}", get()))
    }

    fn refresh(&self, name: &str) {
        self.bench.run(&["app", "refresh", name]).expect_code(0);
    }

    fn wait_until_synced(&self) {
        self.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    }

    fn values(&self) -> Vec<Value> {
        let objects = self.bench.json(&["sim", "objects", "-o", "json"]);
        let list = objects.as_array().or_else(|| objects["objects"].as_array()).unwrap();
        let maps = list.iter().filter(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == "a");
        maps.map(|one| one["data"]["value"].clone()).collect()
    }
}

fn has_condition(app: &Value, part: &str) -> bool {
    let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions
        .iter()
        .any(|one| one["type"] == "ComparisonError" && one["message"].as_str().unwrap().contains(part))
}

fn history_length(app: &Value) -> usize {
    app["status"]["history"].as_array().map_or(0, Vec::len)
}

/// Returns true if a file below a folder contains a secret.
fn has_secret(folder: &Path, secret: &str) -> bool {
    let found = Command::new("grep").args(["-rqaF", secret]).arg(folder).status().unwrap();
    found.success()
}

#[test]
fn a_push_is_synced_and_the_server_may_be_down_for_a_while() {
    let Some(mut stage) = Stage::new() else { return };
    let service = stage.serve(&[]);
    stage.wait_until_synced();
    let asked = stage.server.request_kinds();
    let objects = asked.iter().filter(|one| **one == RequestKind::Objects).count();
    assert_eq!(objects, 1, "one read for two applications of one commit: {asked:?}");
    stage.push("2");
    // When one application is refreshed, the other one is updated too.
    stage.refresh("one");
    for name in ["one", "two"] {
        stage.wait_until(name, |app| history_length(app) == 2);
    }
    stage.wait_until_synced();
    assert_eq!(stage.server.request_kinds(), [RequestKind::Refs, RequestKind::Objects]);
    assert_eq!(stage.values(), ["2", "2"]);
    stage.server.stop_listening();
    stage.push("3");
    stage.refresh("one");
    let app = stage.wait_until("one", |app| has_condition(app, "cannot be reached"));
    assert_eq!(app["status"]["sync"]["status"], "Unknown");
    assert_eq!(stage.values(), ["2", "2"], "nothing is changed");
    stage.server.resume_listening();
    stage.refresh("one");
    for name in ["one", "two"] {
        stage.wait_until(name, |app| history_length(app) == 3);
    }
    stage.wait_until_synced();
    assert_eq!(stage.values(), ["3", "3"]);
    service.signal("TERM");
    service.finish().expect_code(0);
    // The next process already has everything except the refs.
    stage.server.requests();
    let service = stage.serve(&[]);
    stage.refresh("two");
    stage.wait_until_synced();
    assert!(stage.server.request_kinds().iter().all(|one| *one == RequestKind::Refs));
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// Returns the response of `/metrics` for a user with read-only access.
fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {READER}\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_count_the_requests_to_a_repository() {
    let Some(mut stage) = Stage::new() else { return };
    stage.bench.write_private("tokens", format!("ben read-only {READER}\n"));
    let args = ["serve", "--sim", "--apps", "apps", "--listen", "0", "--tokens", "tokens"];
    let mut service = stage.bench.start(&args);
    let address = service.wait_for_api();
    service.wait_for_line("managing 2 applications");
    stage.wait_until_synced();
    let repository = stage.server.url("repo");
    let count = |name: &str, labels: &str| -> usize {
        let begin = format!("{name}{{repo=\"{repository}\"{labels}}} ");
        let all = metrics(&address);
        let found = all.lines().find_map(|line| line.strip_prefix(&begin));
        found.map_or(0, |number| number.parse().unwrap())
    };
    // Reads the requests from the log of the server.
    let mut asked = Vec::new();
    let mut is_counted = || {
        asked.extend(stage.server.request_kinds());
        [("ls-remote", RequestKind::Refs), ("fetch", RequestKind::Objects)].into_iter().all(|(sort, kind)| {
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
    stage.server.stop_listening();
    stage.refresh("one");
    stage.wait_until("one", |app| has_condition(app, "cannot be reached"));
    assert!(failed()[0] > 0 && failed()[1] == 0, "{:?}", failed());
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn credentials_are_set_changed_and_never_shown() {
    let Some(stage) = Stage::new() else { return };
    stage.server.set_behavior(ServerBehavior {
        authorization: Some(CREDENTIALS.into()),
        ..ServerBehavior::default()
    });
    stage.write_secret("wrong-hunter3");
    let service = stage.serve(&["--repositories", "secrets", "-vv"]);
    for name in ["one", "two"] {
        stage.wait_until(name, |app| has_condition(app, "does not accept the credentials in Secret given"));
    }
    // A changed Secret is used for the next fetch.
    stage.write_secret("hunter2");
    stage.refresh("one");
    stage.wait_until_synced();
    assert_eq!(stage.values(), ["1", "1"]);
    // An unreadable file has no effect.
    stage.bench.write("secrets/broken.yaml", "stringData: {password: hunter4");
    stage.push("2");
    stage.refresh("one");
    stage.wait_until("two", |app| history_length(app) == 2);
    let listed = stage.bench.run(&["app", "get", "one", "-o", "yaml"]).expect_code(0);
    assert!(!listed.out.contains("hunter"), "{}", listed.out);
    service.signal("TERM");
    let ended = service.finish().expect_code(0);
    assert!(ended.err.contains("broken.yaml") && !ended.err.contains("hunter"), "{}", ended.err);
    for secret in ["hunter", "bWU6aHVudGVyMg"] {
        assert!(!has_secret(&stage.bench.state(), secret), "{secret}");
    }
    assert!(has_secret(&stage.bench.path().join("secrets"), "hunter2"), "the search finds existing objects");
    let refused =
        stage.bench.run(&["serve", "--sim", "--apps", "apps", "--repositories", "secrets"]).expect_code(4);
    assert!(refused.err.contains("broken.yaml") && !refused.err.contains("hunter"), "{}", refused.err);
}

/// The fetched data of a repository must be removed some time after its last application.
#[test]
fn an_unused_repository_leaves_nothing_behind() {
    let Some(stage) = Stage::new() else { return };
    let service = stage.serve(&["--refresh-every", "1s"]);
    stage.wait_until_synced();
    let mirrors = || {
        let found =
            fs::read_dir(stage.bench.state().join("repositories")).unwrap().map(|entry| entry.unwrap());
        found.filter(|entry| entry.file_name().len() == 32).count()
    };
    assert_eq!(mirrors(), 1);
    fs::remove_file(stage.bench.path().join("apps/one.yaml")).unwrap();
    stage.push("2");
    stage.wait_until("two", |app| history_length(app) == 2);
    assert_eq!(mirrors(), 1, "it is used by another test");
    fs::remove_file(stage.bench.path().join("apps/two.yaml")).unwrap();
    let is_gone = |_: &i32| {
        stage.bench.run(&["app", "list"]).expect_code(0);
        mirrors() == 0
    };
    assert!((0..3000).find(is_gone).is_some());
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// When a process shuts down, it must not wait for a server that doesn't respond.
#[test]
fn a_hanging_server_does_not_block_shutdown() {
    let Some(stage) = Stage::new() else { return };
    stage.server.set_behavior(ServerBehavior {
        unanswered: Some(RequestKind::Capabilities),
        ..ServerBehavior::default()
    });
    let service = stage.serve(&[]);
    stage.server.wait_for_request();
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// A Secret with a project must permit its repository only to that project.
#[test]
fn a_repository_can_belong_to_one_project() {
    let Some(stage) = Stage::new() else { return };
    stage.server.set_behavior(ServerBehavior {
        authorization: Some(CREDENTIALS.to_owned()),
        ..ServerBehavior::default()
    });
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
    let service = stage.serve(&["--repositories", "secrets"]);
    let is_refused = |app: &Value| {
        let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions
            .iter()
            .any(|one| one["message"].as_str().unwrap().contains("is not permitted in project 'team'"))
    };
    stage.wait_until("one", is_refused);
    stage.wait_until("two", |app| has_condition(app, "requires credentials"));
    secret("team");
    // A Secret in files is read at the next refresh.
    stage.refresh("two");
    stage.refresh("one");
    stage.bench.run(&["app", "wait", "one", "--timeout", "10m"]).expect_code(0);
    stage.refresh("two");
    let other = stage.wait_until("two", |app| has_condition(app, "requires credentials"));
    assert_eq!(history_length(&other), 0);
    assert_eq!(stage.values(), ["1"]);
    service.signal("TERM");
    service.finish().expect_code(0);
}
