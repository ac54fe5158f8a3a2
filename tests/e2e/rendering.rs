//! Applications whose manifests a program makes: charts and kustomizations.

use serde_json::{Value, json};
use tidegate_testkit::git::{self, Asked, GitServer};
use tidegate_testkit::tools;

use crate::bench::{Bench, Running};

struct Stage {
    bench: Bench,
}

impl Stage {
    /// A repository with a chart, a kustomization and a plain folder, another one with values, and an application of each.
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
        let mut serving = self.bench.start(&[&["serve", "--sim", "--apps", "apps"], options].concat());
        serving.await_line("serving");
        serving
    }

    fn until(&self, name: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        // One whose file was written just now may not be known yet.
        let get = || self.bench.run(&["app", "get", name, "-o", "json"]);
        let told = || serde_json::from_str::<Value>(&get().out).unwrap_or_default();
        let found = std::iter::repeat_with(told).take(3000).find(|app| app.is_object() && is_met(app));
        found.unwrap_or_else(|| panic!("{:?}", get()))
    }

    fn wait(&self, names: &[&str]) {
        self.bench.run(&[&["app", "wait", "--timeout", "10m"], names].concat()).expect_code(0);
    }

    fn value(&self, name: &str) -> Value {
        let objects = self.bench.json(&["sim", "objects", "-o", "json"]);
        let list = objects.as_array().or_else(|| objects["objects"].as_array()).unwrap();
        let found = list.iter().find(|one| one["kind"] == "ConfigMap" && one["metadata"]["name"] == name);
        found.map(|one| one["data"]["value"].clone()).unwrap_or_default()
    }
}

fn end(serving: Running) {
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

#[test]
fn charts_and_kustomizations_are_synced() {
    let (Some(helm), Some(kustomize)) = (tools::helm(), tools::kustomize()) else { return };
    let mut stage = Stage::new();
    stage.bench.set("TIDEGATE_HELM", helm);
    stage.bench.set("TIDEGATE_KUSTOMIZE", kustomize);
    let serving = stage.serve();
    stage.wait(&[]);
    assert_eq!(["charted", "my-map", "plain"].map(|name| stage.value(name)), ["one", "base", "plain"]);
    assert_eq!(stage.bench.creations("Job", "before"), 1, "a hook of Helm is a hook");
    let app = stage.until("charted", |_| true);
    assert_eq!(app["status"]["sourceTypes"], json!(["Helm", "Directory"]));
    assert_eq!(stage.until("built", |_| true)["status"]["sourceType"], "Kustomize");
    // A commit of the values alone is a change of the application.
    stage.bench.write("apps/values/values.yaml", "value: two");
    stage.commit("values");
    stage.bench.run(&["app", "refresh", "charted"]).expect_code(0);
    stage.until("charted", |app| app["status"]["history"].as_array().is_some_and(|all| all.len() == 2));
    assert_eq!(stage.value("charted"), "two");
    // What Helm says against it is a condition of this application alone.
    stage.bench.write("apps/repo/chart/templates/map.yaml", "{{ fail \"sorry\" }}");
    stage.commit("repo");
    stage.bench.run(&["app", "refresh", "plain"]).expect_code(0);
    let says = |app: &Value, part: &str| app["status"]["conditions"].to_string().contains(part);
    let app = stage.until("charted", |app| says(app, "sorry"));
    assert!(
        says(&app, "spec.sources[0]: helm template of chart") && says(&app, "web/templates/map.yaml"),
        "{app}"
    );
    stage.wait(&["plain", "built"]);
    assert_eq!(stage.value("charted"), "two", "nothing is touched");
    end(serving);
    let left = std::fs::read_dir(stage.bench.state().join("working")).unwrap().count();
    assert_eq!(left, 0, "nothing is left of what programs have seen");
}

/// What a chart asks of its cluster is what that serves: as it is now, and unless the source says otherwise.
#[test]
fn a_chart_is_made_for_what_its_cluster_serves() {
    let Some(helm) = tools::helm() else { return };
    let mut stage = Stage::new();
    stage.bench.set("TIDEGATE_HELM", helm);
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
    let serving = stage.serve();
    stage.wait(&["asks", "told"]);
    assert_eq!(["asks", "told"].map(|name| stage.value(name)), ["false", "true"]);
    stage.app("kinds", "source: {repoURL: ./repo, path: kinds}");
    stage.until("kinds", |app| app["status"]["sync"]["status"] == "Synced");
    stage.bench.run(&["app", "refresh", "asks"]).expect_code(0);
    stage.until("asks", |_| stage.value("asks") == "true");
    stage.wait(&["asks", "told"]);
    end(serving);
}

/// A base on a server: fetched only where that is allowed and the project permits it, and looked at with the application.
#[test]
fn a_remote_base_is_synced_where_it_is_allowed() {
    let Some(kustomize) = tools::kustomize() else { return };
    if !git::is_there() {
        return;
    }
    let mut stage = Stage::new();
    stage.bench.set("TIDEGATE_KUSTOMIZE", kustomize);
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
    let serving = stage.serve();
    let app = stage.until("remote", |app| told(app, "--allow-remote-bases"));
    assert!(told(&app, "remote/kustomization.yaml names http://127.0.0.1"), "{app}");
    stage.wait(&["plain", "built"]);
    assert!(server.asked().is_empty(), "nobody has asked");
    end(serving);
    let serving = stage.serve_with(&[&format!("--allow-remote-bases={base}")]);
    stage.wait(&["remote"]);
    let fetched = server.asked().into_iter().filter(|asked| *asked == Asked::Objects).count();
    assert_eq!((stage.value("far"), fetched), (json!("1"), 1), "its names are asked for again before a sync");
    // The repository of the application has not moved, and the base has.
    push("2");
    stage.bench.run(&["app", "refresh", "remote"]).expect_code(0);
    stage.until("remote", |_| stage.value("far") == "2");
    stage.wait(&["remote"]);
    // A project that permits the source alone.
    stage.bench.write("apps/project.yaml", "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: default}\nspec:\n  sourceRepos: ['./*']\n  destinations: [{server: '*', namespace: '*'}]\n  clusterResourceWhitelist: [{group: '*', kind: '*'}]\n");
    let app = stage.until("remote", |app| told(app, "sourceRepos"));
    assert!(told(&app, &base) && app["status"]["sync"]["status"] == "Unknown", "{app}");
    stage.wait(&["plain", "built"]);
    assert_eq!(stage.value("far"), "2", "nothing is touched");
    end(serving);
}

#[test]
fn without_the_programs_the_others_go_on() {
    let mut stage = Stage::new();
    stage.bench.set("PATH", "");
    let serving = stage.serve();
    stage.wait(&["plain"]);
    for (name, part) in [("charted", "there is no program helm here"), ("built", "kustomize or kubectl")] {
        let told = |app: &Value| app["status"]["conditions"].to_string();
        let app = stage.until(name, |app| told(app).contains(part));
        assert!(told(&app).contains("ComparisonError") && told(&app).contains("install"), "{app}");
    }
    end(serving);
}
