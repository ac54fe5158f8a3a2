//! A control plane in a namespace other than `argocd`. Its Applications have names without a namespace.

use std::fs;

use crate::bench::Bench;
use crate::fleet::Fleet;

const NAMESPACE: &str = "openshift-gitops";
const ID: &str = "argocd.argoproj.io/tracking-id";

/// Returns the fleet with an Application that explicitly specifies the control namespace, and another
/// Application in `argocd`.
fn fleet() -> Fleet {
    let fleet = Fleet::new();
    fleet.replace(
        "backend.yaml",
        "  name: backend\n",
        &format!("  name: backend\n  namespace: {NAMESPACE}\n"),
    );
    let other = fs::read_to_string(fleet.path("database.yaml")).unwrap();
    let other = other.replace("  name: database\n", "  name: other\n  namespace: argocd\n");
    let other = other.replace("    path: database\n", "    path: other\n");
    fs::write(fleet.path("other.yaml"), other).unwrap();
    fs::create_dir(fleet.path("repo/other")).unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n";
    fs::write(fleet.path("repo/other/other.yaml"), map).unwrap();
    let project = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: default}\nspec:\n  sourceRepos: ['*']\n  sourceNamespaces: [argocd]\n  destinations: [{server: '*', namespace: '*'}]\n  clusterResourceWhitelist: [{group: '*', kind: '*'}]\n";
    fs::write(fleet.path("project.yaml"), project).unwrap();
    fleet.commit();
    fleet
}

fn check(fleet: &Fleet) {
    fleet.wait_until_synced(&[]);
    let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]);
    let ids: Vec<&str> = objects
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|object| object["metadata"]["annotations"][ID].as_str())
        .collect();
    for (begins, expected) in [
        ("database:", true),
        ("backend:", true),
        ("argocd_other:", true),
        (NAMESPACE, false),
        ("other:", false),
    ] {
        assert_eq!(ids.iter().any(|id| id.starts_with(begins)), expected, "{begins}: {ids:?}");
    }
    let list = fleet.bench.run(&["app", "list"]).expect_code(0).out;
    assert!(list.contains("argocd/other") && !list.contains(NAMESPACE), "{list}");
    let operations = fleet.bench.run(&["ops", "list"]).expect_code(0).out;
    assert!(operations.contains("argocd_other") && !operations.contains(NAMESPACE), "{operations}");
    for name in ["backend", "openshift-gitops/backend", "argocd/other"] {
        let explained = fleet.bench.run(&["app", "explain", name]).expect_code(0).out;
        assert!(!explained.contains(NAMESPACE), "{explained}");
        let operations = fleet.bench.json(&["ops", "list", "--app", name, "-o", "json"]);
        assert_eq!(operations.as_array().map(Vec::len), Some(1), "{name}: {operations}");
    }
}

#[test]
fn applications_of_another_control_namespace_use_plain_names() {
    let mut fleet = fleet();
    // The variable applies to the service and its clients.
    fleet.bench.set_variable("TIDEGATE_CONTROL_NAMESPACE", NAMESPACE);
    let service = fleet.serve();
    check(&fleet);
    Fleet::stop(service);
    // The flag has the same effect.
    let service = fleet.serve_with(&["--control-namespace", NAMESPACE]);
    check(&fleet);
    Fleet::stop(service);
}

/// The clients aren't configured. They learn the namespace from the service.
#[test]
fn clients_use_the_control_namespace_of_the_service() {
    let fleet = fleet();
    let service = fleet.serve_with(&["--control-namespace", NAMESPACE]);
    check(&fleet);
    for name in ["backend", "argocd/other"] {
        let shown = fleet.bench.run(&["app", "get", name]).expect_code(0).out;
        assert!(shown.contains(name) && !shown.contains(NAMESPACE), "{shown}");
        fleet.bench.run(&["app", "sync", name]).expect_code(0);
    }
    Fleet::stop(service);
    // The last recorded status has the same names.
    let list = fleet.bench.run(&["app", "list"]).expect_code(0).out;
    assert!(list.contains("argocd/other") && !list.contains(NAMESPACE), "{list}");
    // The service doesn't take its own namespace from an earlier one.
    let service = fleet.serve_with(&[]);
    let list = fleet.bench.run(&["app", "list"]).expect_code(0).out;
    assert!(!list.contains("argocd/other") && list.contains("openshift-gitops/backend"), "{list}");
    Fleet::stop(service);
}

/// The API is the only source of the namespace for a client on another machine. Its state directory has none.
#[test]
fn remote_clients_use_the_control_namespace_of_the_service() {
    let fleet = fleet();
    let serve = ["serve", "--sim", "--apps", "fleet", "--listen", "0", "--control-namespace", NAMESPACE];
    let mut service = fleet.bench.start(&serve);
    let url = format!("http://{}", service.wait_for_api());
    service.wait_for_line("managing");
    fleet.wait_until_synced(&[]);
    let client = Bench::new();
    for args in [&["app", "list"][..], &["app", "get", "backend"], &["app", "explain", "backend"]] {
        let ran = client.run(&[args, &["--server", &url]].concat()).expect_code(0);
        assert!(ran.out.contains("backend") && !ran.out.contains(NAMESPACE), "{args:?}: {}", ran.out);
    }
    Fleet::stop(service);
}

/// An ApplicationSet in the control namespace has a plain name too. The plain name refers to it, even if
/// another namespace has one with the same name.
#[test]
fn plain_names_refer_to_the_control_namespace() {
    let bench = Bench::new();
    let set = |namespace: &str| {
        format!(
            "---\napiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: sets, namespace: {namespace}}}\n\
             spec:\n  generators: [{{list: {{elements: []}}}}]\n  template:\n    metadata: {{name: '{{{{name}}}}'}}\n\
             \x20   spec: {{project: default, source: {{repoURL: ./repo, path: web}}, destination: {{name: in-cluster}}}}\n"
        )
    };
    let application = |namespace: &str| {
        format!(
            "---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: web, namespace: {namespace}}}\n\
             spec: {{project: default, source: {{repoURL: ./repo, path: web}}, destination: {{name: in-cluster}}}}\n"
        )
    };
    bench.write("apps/own.yaml", set(NAMESPACE) + &application(NAMESPACE));
    bench.write("apps/other.yaml", set("team") + &application("team"));
    let mut service = bench.start(&["serve", "--sim", "--apps", "apps", "--control-namespace", NAMESPACE]);
    service.wait_for_line("managing");
    for kind in ["app", "appset"] {
        let name = if kind == "app" { "web" } else { "sets" };
        let list = bench.run(&[kind, "list"]).expect_code(0).out;
        assert!(list.contains(&format!("team/{name}")) && !list.contains(NAMESPACE), "{list}");
        let found = bench.json(&[kind, "get", name, "-o", "json"]);
        assert_eq!(found["metadata"]["namespace"], NAMESPACE, "{found}");
        let found = bench.json(&[kind, "get", &format!("team/{name}"), "-o", "json"]);
        assert_eq!(found["metadata"]["namespace"], "team", "{found}");
        let explained = bench.run(&[kind, "explain", name]).expect_code(0).out;
        let heading = explained.lines().next().unwrap();
        assert!(heading.contains(name) && !heading.contains(NAMESPACE), "{explained}");
    }
    Fleet::stop(service);
}

#[test]
fn an_invalid_namespace_is_refused() {
    let mut fleet = Fleet::new();
    let refused = fleet.bench.run(&["serve", "--sim", "--control-namespace", "Open_Shift"]).expect_code(2);
    assert!(refused.err.contains("--control-namespace"), "{}", refused.err);
    fleet.bench.set_variable("TIDEGATE_CONTROL_NAMESPACE", "Open_Shift");
    let refused = fleet.bench.run(&["app", "list"]).expect_code(2);
    assert!(refused.err.contains("TIDEGATE_CONTROL_NAMESPACE"), "{}", refused.err);
}
