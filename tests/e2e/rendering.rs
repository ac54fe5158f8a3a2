//! Applications with generated manifests: charts and kustomizations.

use serde_json::{Value, json};
use tidegate_testkit::git::{self, GitServer, RequestKind};
use tidegate_testkit::tools;

use crate::bench::{Bench, Running};

struct Stage {
    bench: Bench,
}

impl Stage {
    /// Creates a repository with a chart, a kustomization, a plain folder and a folder with values, and an application
    /// for each.
    fn new() -> Self {
        let stage = Self { bench: Bench::new() };
        let map = |name: &str, value: &str| {
            format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{value: {value}}}}}\n"
            )
        };
        for (file, content) in [
            ("repo/chart/Chart.yaml", "{apiVersion: v2, name: web, version: 0.1.0}".to_owned()),
            ("repo/chart/values.yaml", "value: chart".to_owned()),
            ("repo/chart/templates/map.yaml", map("{{ .Release.Name }}", "{{ .Values.value }}")),
            ("repo/chart/templates/job.yaml", "{apiVersion: batch/v1, kind: Job, metadata: {name: before, annotations: {helm.sh/hook: pre-install}}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}".to_owned()),
            ("repo/base/kustomization.yaml", "resources: [map.yaml]".to_owned()),
            ("repo/base/map.yaml", map("map", "base")),
            ("repo/plain/map.yaml", map("plain", "plain")),
            ("values/values.yaml", "value: one".to_owned()),
        ] {
            stage.bench.write(&format!("apps/{file}"), content);
        }
        stage.commit("repo");
        stage.commit("values");
        stage.app("charted", "sources: [{repoURL: ./repo, path: chart, helm: {valueFiles: [$values/values.yaml]}}, {repoURL: ./values, ref: values}]");
        stage.app("built", "source: {repoURL: ./repo, path: base, kustomize: {namePrefix: my-}}");
        stage.app("plain", "source: {repoURL: ./repo, path: plain}");
        stage
    }

    fn commit(&self, repository: &str) {
        self.bench.run(&["example", "commit", &format!("apps/{repository}")]).expect_code(0);
    }

    fn app(&self, name: &str, sources: &str) {
        self.bench.write(
            &format!("apps/{name}.yaml"),
            format!(
                "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: {name}}}\nspec:\n  project: default\n  {sources}\n  \
                 destination: {{name: in-cluster, namespace: web}}\n  \
                 syncPolicy: {{automated: {{prune: true, selfHeal: true}}, syncOptions: [CreateNamespace=true]}}\n"
            ),
        );
    }

    fn serve(&self) -> Running {
        self.serve_with(&[])
    }

    fn serve_with(&self, options: &[&str]) -> Running {
        let mut service = self.bench.start(&[&["serve", "--sim", "--apps", "apps"], options].concat());
        service.wait_for_line("managing");
        service
    }

    fn wait_until(&self, name: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        // A recently written application may not be known yet.
        let get = || self.bench.run(&["app", "get", name, "-o", "json"]);
        let told = || serde_json::from_str::<Value>(&get().out).unwrap_or_default();
        let found = std::iter::repeat_with(told).take(3000).find(|app| app.is_object() && is_met(app));
        found.unwrap_or_else(|| panic!("{:?}", get()))
    }

    fn wait_until_synced(&self, names: &[&str]) {
        self.bench.run(&[&["app", "wait", "--timeout", "10m"], names].concat()).expect_code(0);
    }

    fn deployed_value(&self, name: &str) -> Value {
        let objects = self.bench.json(&["sim", "objects", "-o", "json"]);
        let list = objects.as_array().or_else(|| objects["objects"].as_array()).unwrap();
        let found = list.iter().find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == name);
        found.map(|one| one["data"]["value"].clone()).unwrap_or_default()
    }
}

fn stop_service(service: Running) {
    service.signal("TERM");
    service.finish().expect_code(0);
}

#[test]
fn charts_and_kustomizations_are_synced() {
    let (Some(helm), Some(kustomize)) = (tools::helm(), tools::kustomize()) else { return };
    let mut stage = Stage::new();
    stage.bench.set_variable("TIDEGATE_HELM", helm);
    stage.bench.set_variable("TIDEGATE_KUSTOMIZE", kustomize);
    let service = stage.serve();
    stage.wait_until_synced(&[]);
    assert_eq!(
        ["charted", "my-map", "plain"].map(|name| stage.deployed_value(name)),
        ["one", "base", "plain"]
    );
    assert_eq!(stage.bench.creations("Job", "before"), 1, "a hook of Helm is a hook");
    let app = stage.wait_until("charted", |_| true);
    assert_eq!(app["status"]["sourceTypes"], json!(["Helm", "Directory"]));
    assert_eq!(stage.wait_until("built", |_| true)["status"]["sourceType"], "Kustomize");
    // A commit of only the values changes the application.
    stage.bench.write("apps/values/values.yaml", "value: two");
    stage.commit("values");
    stage.bench.run(&["app", "refresh", "charted"]).expect_code(0);
    stage.wait_until("charted", |app| app["status"]["history"].as_array().is_some_and(|all| all.len() == 2));
    assert_eq!(stage.deployed_value("charted"), "two");
    // An error of Helm is a condition of this application only.
    stage.bench.write("apps/repo/chart/templates/map.yaml", "{{ fail \"sorry\" }}");
    stage.commit("repo");
    stage.bench.run(&["app", "refresh", "plain"]).expect_code(0);
    let says = |app: &Value, part: &str| app["status"]["conditions"].to_string().contains(part);
    let app = stage.wait_until("charted", |app| says(app, "sorry"));
    assert!(
        says(&app, "spec.sources[0]: helm template of chart") && says(&app, "web/templates/map.yaml"),
        "{app}"
    );
    stage.wait_until_synced(&["plain", "built"]);
    assert_eq!(stage.deployed_value("charted"), "two", "nothing is changed");
    stop_service(service);
    let left = std::fs::read_dir(stage.bench.state().join("working")).unwrap().count();
    assert_eq!(left, 0, "no data of the programs is left");
}

/// A chart must be rendered for the current API versions of its cluster, unless the source overrides them.
#[test]
fn a_chart_is_rendered_for_the_api_versions_of_its_cluster() {
    let Some(helm) = tools::helm() else { return };
    let mut stage = Stage::new();
    stage.bench.set_variable("TIDEGATE_HELM", helm);
    let has = "{{ .Capabilities.APIVersions.Has \"tools.example/v1/Gadget\" | quote }}";
    let map = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {{{{ .Release.Name }}}}}}, data: {{value: {has}}}}}\n"
    );
    stage.bench.write("apps/repo/asks/Chart.yaml", "{apiVersion: v2, name: asks, version: 0.1.0}");
    stage.bench.write("apps/repo/asks/templates/map.yaml", map);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.tools.example"},
        "spec": {
            "group": "tools.example", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    stage.bench.write("apps/repo/kinds/definition.yaml", definition.to_string());
    stage.commit("repo");
    stage.app("asks", "source: {repoURL: ./repo, path: asks}");
    stage
        .app("told", "source: {repoURL: ./repo, path: asks, helm: {apiVersions: [tools.example/v1/Gadget]}}");
    let service = stage.serve();
    stage.wait_until_synced(&["asks", "told"]);
    assert_eq!(["asks", "told"].map(|name| stage.deployed_value(name)), ["false", "true"]);
    stage.app("kinds", "source: {repoURL: ./repo, path: kinds}");
    stage.wait_until("kinds", |app| app["status"]["sync"]["status"] == "Synced");
    stage.bench.run(&["app", "refresh", "asks"]).expect_code(0);
    stage.wait_until("asks", |_| stage.deployed_value("asks") == "true");
    stage.wait_until_synced(&["asks", "told"]);
    stop_service(service);
}

/// A remote base must be fetched only if allowed and permitted by the project, and must be observed with the
/// application.
#[test]
fn a_remote_base_is_synced_if_permitted() {
    let Some(kustomize) = tools::kustomize() else { return };
    if !git::is_available() {
        return;
    }
    let mut stage = Stage::new();
    stage.bench.set_variable("TIDEGATE_KUSTOMIZE", kustomize);
    std::fs::create_dir(stage.bench.path().join("root")).unwrap();
    let server = GitServer::start(&stage.bench.path().join("root"));
    let push = |value: &str| {
        let map = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: far}}, data: {{value: '{value}'}}}}"
        );
        stage.bench.write("root/base/app/map.yaml", map);
        stage.bench.write("root/base/app/kustomization.yaml", "resources: [map.yaml]");
        stage.bench.run(&["example", "commit", "root/base"]).expect_code(0);
    };
    push("1");
    let base = server.url("base");
    stage.bench.write("apps/repo/remote/kustomization.yaml", format!("resources: ['{base}//app?ref=main']"));
    stage.commit("repo");
    stage.app("remote", "source: {repoURL: ./repo, path: remote}");
    let told = |app: &Value, part: &str| app["status"]["conditions"].to_string().contains(part);
    let service = stage.serve();
    let app = stage.wait_until("remote", |app| told(app, "--allow-remote-bases"));
    assert!(told(&app, "remote/kustomization.yaml refers to http://127.0.0.1"), "{app}");
    stage.wait_until_synced(&["plain", "built"]);
    assert!(server.request_kinds().is_empty(), "there was no request");
    stop_service(service);
    let service = stage.serve_with(&[&format!("--allow-remote-bases={base}")]);
    stage.wait_until_synced(&["remote"]);
    let fetched = server.request_kinds().into_iter().filter(|asked| *asked == RequestKind::Objects).count();
    assert_eq!(
        (stage.deployed_value("far"), fetched),
        (json!("1"), 1),
        "its names are resolved again before a sync"
    );
    // The repository of the application is unchanged, but the base has a new commit.
    push("2");
    stage.bench.run(&["app", "refresh", "remote"]).expect_code(0);
    stage.wait_until("remote", |_| stage.deployed_value("far") == "2");
    stage.wait_until_synced(&["remote"]);
    // A project that permits only the source.
    stage.bench.write("apps/project.yaml", "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: default}\nspec:\n  sourceRepos: ['./*']\n  destinations: [{server: '*', namespace: '*'}]\n  clusterResourceWhitelist: [{group: '*', kind: '*'}]\n");
    let app = stage.wait_until("remote", |app| told(app, "sourceRepos"));
    assert!(told(&app, &base) && app["status"]["sync"]["status"] == "Unknown", "{app}");
    stage.wait_until_synced(&["plain", "built"]);
    assert_eq!(stage.deployed_value("far"), "2", "nothing is changed");
    stop_service(service);
}

#[test]
fn without_the_programs_other_applications_continue() {
    let mut stage = Stage::new();
    stage.bench.set_variable("PATH", "");
    let service = stage.serve();
    stage.wait_until_synced(&["plain"]);
    for (name, part) in [("charted", "the program helm was not found"), ("built", "kustomize or kubectl")] {
        let told = |app: &Value| app["status"]["conditions"].to_string();
        let app = stage.wait_until(name, |app| told(app).contains(part));
        assert!(told(&app).contains("ComparisonError") && told(&app).contains("install"), "{app}");
    }
    stop_service(service);
}
