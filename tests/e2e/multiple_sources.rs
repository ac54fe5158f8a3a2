//! Applications with several sources.

use serde_json::{Value, json};

use crate::bench::{Bench, Running};

struct Stage {
    bench: Bench,
}

impl Stage {
    /// Creates two repositories, each with its own ConfigMap and a ConfigMap that both contain.
    fn new() -> Self {
        let stage = Self { bench: Bench::new() };
        for name in ["one", "two"] {
            stage.write_map(name, name, name);
            stage.write_map(name, "both", name);
            stage.commit(name);
        }
        stage.app("{repoURL: ./one, path: app}", "{repoURL: ./two, path: app, targetRevision: main}");
        stage
    }

    fn write_map(&self, repository: &str, name: &str, value: &str) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value},
        });
        self.bench.write(&format!("apps/{repository}/app/{name}.yaml"), map.to_string());
    }

    fn commit(&self, repository: &str) -> String {
        self.bench.run(&["example", "commit", &format!("apps/{repository}")]).expect_code(0);
        let head = self.bench.path().join(format!("apps/{repository}/.git/refs/heads/main"));
        std::fs::read_to_string(head).unwrap().trim().to_owned()
    }

    fn app(&self, first: &str, second: &str) {
        self.write(&format!("  sources:\n  - {first}\n  - {second}\n"));
    }

    fn write(&self, sources: &str) {
        self.bench.write(
            "apps/web.yaml",
            format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: web}}\nspec:\n  project: default\n{sources}  \
                 destination: {{name: in-cluster, namespace: web}}\n  \
                 syncPolicy: {{automated: {{prune: true, selfHeal: true}}, syncOptions: [CreateNamespace=true]}}\n"
            ),
        );
    }

    fn serve(&self) -> Running {
        let mut service = self.bench.start(&["serve", "--sim", "--apps", "apps"]);
        service.wait_for_line("managing");
        service
    }

    fn wait_until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let get = || self.bench.json(&["app", "get", "web", "-o", "json"]);
        let found = std::iter::repeat_with(get).take(3000).find(is_met);
        found.unwrap_or_else(|| panic!("{}", get()))
    }

    fn deployed_value(&self, name: &str) -> Value {
        let objects = self.bench.json(&["sim", "objects", "-o", "json"]);
        let list = objects.as_array().or_else(|| objects["objects"].as_array()).unwrap();
        let found = list.iter().find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == name);
        found.map(|one| one["data"]["value"].clone()).unwrap_or_default()
    }
}

fn condition(app: &Value, kind: &str) -> Option<String> {
    let conditions = app["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|one| one["type"] == kind)?;
    found["message"].as_str().map(str::to_owned)
}

fn stop_service(service: Running) {
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn all_sources_are_synced_and_the_last_wins() {
    let stage = Stage::new();
    let service = stage.serve();
    stage.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    assert_eq!(["one", "two", "both"].map(|name| stage.deployed_value(name)), ["one", "two", "two"]);
    let app = stage.wait_until(|_| true);
    let message = condition(&app, "RepeatedResourceWarning").unwrap();
    assert!(message.contains("/ConfigMap/web/both appeared 2 times"), "{message}");
    let status = &app["status"];
    assert_eq!(status["sourceTypes"], json!(["Directory", "Directory"]));
    assert_eq!(
        (status["sync"].get("revision"), status["sync"]["revisions"].as_array().unwrap().len()),
        (None, 2)
    );
    assert_eq!(status["history"][0]["sources"], app["spec"]["sources"]);
    // A commit to either repository is synced, and the other source stays at its revision.
    let before = status["sync"]["revisions"].clone();
    stage.write_map("two", "two", "2");
    let commit = stage.commit("two");
    stage.bench.run(&["app", "refresh", "web"]).expect_code(0);
    let app = stage.wait_until(|app| app["status"]["history"][1]["revisions"][1] == json!(commit));
    assert_eq!(app["status"]["history"][1]["revisions"][0], before[0]);
    assert_eq!(stage.deployed_value("two"), "2");
    // Lost state is rebuilt from the log, without another sync.
    stop_service(service);
    let known = app["status"]["history"].clone();
    std::fs::remove_file(stage.bench.state().join("applications/argocd_web.json")).unwrap();
    let service = stage.serve();
    let app = stage.wait_until(|app| condition(app, "StatusRebuiltWarning").is_some());
    let without_who = |history: &Value| {
        let entries = history.as_array().unwrap().iter();
        entries.map(|one| (one["revisions"].clone(), one["sources"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(without_who(&app["status"]["history"]), without_who(&known));
    let listed = stage.bench.run(&["app", "list"]).expect_code(0).out;
    assert!(listed.contains("./one (+1)"), "{listed}");
    let shown = stage.bench.run(&["app", "get", "web"]).expect_code(0).out;
    assert!(shown.contains("./one app at HEAD") && shown.contains("./two app at main"), "{shown}");
    stop_service(service);
}

#[test]
fn one_of_several_sources_is_synced_to_another_revision() {
    let stage = Stage::new();
    let automated = "syncPolicy: {automated: {prune: true, selfHeal: true}, ";
    let file = stage.bench.path().join("apps/web.yaml");
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap().replace(automated, "syncPolicy: {"))
        .unwrap();
    let mut heads = Vec::new();
    for name in ["one", "two"] {
        for value in ["older", "newer"] {
            stage.write_map(name, name, value);
            heads.push(stage.commit(name));
        }
    }
    let [_, newest, older, _] = heads.as_slice() else { panic!("{heads:?}") };
    let service = stage.serve();
    let sync = |revisions: &[&str]| {
        let args = [&["app", "sync", "web", "-o", "json"], revisions].concat();
        stage.bench.run(&args).expect_code(0)
    };
    let app: Value =
        serde_json::from_str(&sync(&["--revisions", older, "--source-positions", "2"]).out).unwrap();
    assert_eq!(app["kind"], "Application");
    assert_eq!(app["status"]["operationState"]["syncResult"]["revisions"], json!([newest, older]));
    assert_eq!(["one", "two"].map(|name| stage.deployed_value(name)), ["newer", "older"]);
    // Sources that aren't specified use their target revision, regardless of earlier syncs.
    let both = ["--source-positions=2", "--revisions=main", "--source-positions=1", "--revisions=main"];
    sync(&both);
    assert_eq!(["one", "two"].map(|name| stage.deployed_value(name)), ["newer", "newer"]);
    for (revisions, expected) in [
        (&["--revisions", "main"][..], "--source-positions"),
        (&["--revisions", "main", "--source-positions", "3"], "application web has 2 sources"),
        (&["--revisions", "main", "--source-positions", "0"], "application web has 2 sources"),
        (
            &["--revisions", "a", "--revisions", "b", "--source-positions", "1"],
            "one --source-positions for each",
        ),
        (&["--revisions=a", "--source-positions=1", "--revisions=b", "--source-positions=1"], "is repeated"),
        (&["--revision", "main", "--revisions", "main", "--source-positions", "1"], "cannot be used with"),
    ] {
        let refused = stage.bench.run(&[&["app", "sync", "web"], revisions].concat()).expect_code(2);
        assert!(refused.err.contains(expected), "{refused:?}");
    }
    // If the command doesn't wait, its output suggests how to wait. Its JSON output is the current
    // application.
    let asked = stage.bench.run(&["app", "sync", "web", "--async"]).expect_code(0);
    assert!(asked.out.is_empty() && asked.err.contains("tidegate app wait web --operation"), "{asked:?}");
    let waited = stage.bench.json(&["app", "wait", "web", "--operation", "-o", "json"]);
    assert_eq!((&waited["kind"], &waited["items"][0]["metadata"]["name"]), (&json!("List"), &json!("web")));
    let asked = stage.bench.json(&["app", "sync", "web", "--async", "-o", "json"]);
    assert_eq!(asked["metadata"]["name"], "web");
    stop_service(service);
}

#[test]
fn errors_name_their_source() {
    let stage = Stage::new();
    stage.app("{repoURL: ./one, path: app}", "{repoURL: ./two, path: none}");
    let service = stage.serve();
    let app = stage.wait_until(|app| condition(app, "ComparisonError").is_some());
    let message = condition(&app, "ComparisonError").unwrap();
    assert!(message.contains("spec.sources[1]") && message.contains("\"none\""), "{message}");
    for (sources, expected) in [
        ("  source: {repoURL: ./one, path: app}\n  sources: [{repoURL: ./two, path: app}]\n", "both set"),
        ("  sources: [{repoURL: ./one, path: app}, {repoURL: ./two}]\n", "spec.sources[1].path is missing"),
        ("  sources: [{repoURL: ./one, ref: a b}]\n", "spec.sources[0].ref \"a b\""),
        ("  sources: [{repoURL: ./one, ref: a}, {repoURL: ./two, ref: a}]\n", "the same ref \"a\""),
        ("  sources: [{repoURL: ./one, ref: a, chart: b}]\n", "both ref and chart"),
        ("  source: {repoURL: ./one, path: app, ref: a}\n", "spec.source.ref"),
    ] {
        stage.write(sources);
        let is_told = |app: &Value| {
            condition(app, "InvalidSpecError").is_some_and(|message| message.contains(expected))
        };
        stage.wait_until(is_told);
    }
    // A source that only provides values doesn't create manifests and doesn't need a path.
    stage.app("{repoURL: ./one, path: app}", "{repoURL: ./two, ref: values}");
    stage.bench.run(&["app", "wait", "--timeout", "10m"]).expect_code(0);
    assert_eq!((stage.deployed_value("both"), stage.deployed_value("two")), (json!("one"), Value::Null));
    let refused = stage.bench.run(&["app", "sync", "web", "--revision", "main"]);
    assert_eq!(refused.code(), 4);
    assert!(refused.err.contains("revisions for 2 sources"), "{refused:?}");
    stop_service(service);
}
