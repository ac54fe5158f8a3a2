//! An Application whose manifests are Applications, managed in the simulated cluster that contains them.

use std::fs;

use serde_json::{Value, json};

use crate::bench::Running;
use crate::fleet::Fleet;

/// Health script from docs/guides/app-of-apps.md.
const HEALTH: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm}
data:
  resource.customizations.health.argoproj.io_Application: |
    hs = {status = \"Progressing\", message = \"\"}
    if obj.status ~= nil and obj.status.health ~= nil then
      hs.status = obj.status.health.status
      hs.message = obj.status.health.message or \"\"
    end
    return hs
";

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd}\n---\n";

/// Returns an automated Application whose manifests are in the folder with its name.
fn application(name: &str, wave: u8, namespace: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: {name}
  namespace: argocd
  annotations: {{argocd.argoproj.io/sync-wave: '{wave}'}}
spec:
  project: default
  source: {{repoURL: ./fleet/repo, targetRevision: main, path: {name}}}
  destination: {{name: in-cluster, namespace: {namespace}}}
  syncPolicy:
    automated: {{prune: true, selfHeal: true}}
    syncOptions: [CreateNamespace=true]
"
    )
}

/// Returns a Deployment that becomes ready, or one that never does.
fn deployment(name: &str, is_ready: bool) -> String {
    let annotations = if is_ready { "{}" } else { "{sim.tidegate.dev/outcome: never-ready}" };
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  annotations: {annotations}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: main, image: busybox}}]}}
"
    )
}

/// A parent with two children in waves 1 and 2. The first child doesn't become ready.
struct Family {
    fleet: Fleet,
}

impl Family {
    fn new() -> Self {
        let fleet = Fleet::new();
        let bench = &fleet.bench;
        fs::remove_dir_all(fleet.path("repo")).unwrap();
        for (name, wave, is_ready) in [("first", 1, false), ("second", 2, true)] {
            bench.write(&format!("fleet/repo/parent/{name}.yaml"), application(name, wave, "shop"));
            bench.write(&format!("fleet/repo/{name}/all.yaml"), deployment(name, is_ready));
        }
        fleet.commit();
        let definitions = bench.run(&["crds"]).expect_code(0).out;
        bench.run_with_input(&["sync", "-", "--app", "crds", "--sim"], &definitions).expect_code(0);
        bench.write("parent.yaml", format!("{NAMESPACE}{}", application("parent", 0, "argocd")));
        let sync = ["sync", "parent.yaml", "--app", "root", "--sim", "--skip-dry-run", "-n", "argocd"];
        bench.run(&sync).expect_code(0);
        bench.write("health.yaml", HEALTH);
        Self { fleet }
    }

    fn serve(&self, options: &[&str]) -> Running {
        let args = [&["serve", "--sim", "--listen", "off"], options].concat();
        let mut service = self.fleet.bench.start(&args);
        service.wait_for_line("managing");
        service
    }

    /// Makes the first child become ready.
    fn make_first_child_ready(&self) {
        self.fleet.bench.write("fleet/repo/first/all.yaml", deployment("first", true));
        self.fleet.commit();
        self.fleet.bench.run(&["app", "refresh", "first"]).expect_code(0);
    }

    /// Polls until an Application exists and satisfies a predicate.
    #[track_caller]
    fn wait_until(&self, name: &str, is_met: impl Fn(&Value) -> bool) {
        let get = || self.fleet.bench.run(&["app", "get", name, "-o", "json"]);
        let is_met = |text: &str| serde_json::from_str(text).is_ok_and(|app| is_met(&app));
        assert!((0..3000).any(|_| is_met(&get().out)), "{:?}", get());
    }

    /// Returns the positions of the successful writes to an object in the list of all writes, in order.
    fn write_numbers(&self, kind: &str, name: &str) -> Vec<u64> {
        let writes = self.fleet.bench.writes();
        let of = writes.iter().filter(|one| {
            one["kind"] == kind && one["name"] == name && one["code"].as_u64().is_some_and(|code| code < 300)
        });
        of.map(|one| one["sequence"].as_u64().unwrap()).collect()
    }
}

fn health(app: &Value) -> &str {
    app["status"]["health"]["status"].as_str().unwrap_or_default()
}

fn is_synced_and_healthy(app: &Value) -> bool {
    let status = &app["status"];
    health(app) == "Healthy"
        && status["sync"]["status"] == "Synced"
        && status["operationState"]["phase"] == "Succeeded"
}

#[test]
fn a_child_of_a_later_wave_waits_for_healthy_earlier_children() {
    let family = Family::new();
    let fleet = &family.fleet;
    let mut service = family.serve(&["--customizations", "health.yaml"]);
    family.wait_until("parent", |app| {
        let message = app["status"]["operationState"]["message"].as_str().unwrap_or_default();
        message.contains("waiting for healthy state of argoproj.io/Application/first")
    });
    family.wait_until("first", |app| {
        health(app) == "Progressing" && app["status"]["operationState"]["phase"] == "Succeeded"
    });
    let waits = || fleet.bench.run(&["explain", "parent"]).expect_code(0).out;
    let is_named = || waits().contains("for Application argocd/first (Progressing");
    assert!((0..3000).any(|_| is_named()), "{}", waits());
    // The parent keeps waiting after its service was killed.
    service.signal("KILL");
    service.finish();
    service = family.serve(&["--customizations", "health.yaml"]);
    family.wait_until("parent", |app| app["status"]["operationState"]["phase"] == "Running");
    family.wait_until("first", |app| health(app) == "Progressing");
    assert_eq!(family.write_numbers("Application", "second"), Vec::<u64>::new());
    family.make_first_child_ready();
    for name in ["first", "second", "parent"] {
        family.wait_until(name, is_synced_and_healthy);
    }
    let of = |name: &str| fleet.bench.json(&["app", "get", name, "-o", "json"])["status"].take();
    let told =
        |status: Value| (status["summary"]["isAppOfApps"].clone(), status["controllerNamespace"].clone());
    assert_eq!(told(of("parent")), (json!(true), json!("argocd")));
    assert_eq!(told(of("first")), (Value::Null, json!("argocd")));
    // The Deployment becomes ready, then its Application becomes healthy, then the next Application is
    // written.
    let ready = family.write_numbers("Deployment", "first")[1];
    let second = family.write_numbers("Application", "second")[0];
    let told = family.write_numbers("Application", "first");
    assert!(told.iter().any(|number| (ready..second).contains(number)), "{ready} {told:?} {second}");
    assert_eq!(
        (fleet.creations("Application", "first").len(), fleet.creations("Application", "second").len()),
        (1, 1)
    );
    assert!(second < family.write_numbers("Deployment", "second")[0]);
    // The parent has only one operation, although its service was killed.
    let parents = fleet.bench.json(&["ops", "list", "--app", "parent", "-o", "json"]);
    let [operation] = parents.as_array().unwrap().as_slice() else { panic!("{parents}") };
    assert_eq!(operation["phase"], "Succeeded");
    Fleet::stop(service);
}

/// Without a health script, an Application as an object has no health status, as in Argo CD.
#[test]
fn without_a_health_script_waves_only_order_applications() {
    let family = Family::new();
    let service = family.serve(&[]);
    family.wait_until("second", is_synced_and_healthy);
    family.wait_until("parent", |app| app["status"]["operationState"]["phase"] == "Succeeded");
    family.wait_until("first", |app| health(app) == "Progressing");
    assert!(
        family.write_numbers("Application", "first")[0] < family.write_numbers("Application", "second")[0]
    );
    Fleet::stop(service);
}
