//! A control plane in a namespace other than `argocd`. Its Applications have names without a namespace.

use std::fs;

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

#[test]
fn an_invalid_namespace_is_refused() {
    let mut fleet = Fleet::new();
    let refused = fleet.bench.run(&["serve", "--sim", "--control-namespace", "Open_Shift"]).expect_code(2);
    assert!(refused.err.contains("--control-namespace"), "{}", refused.err);
    fleet.bench.set_variable("TIDEGATE_CONTROL_NAMESPACE", "Open_Shift");
    let refused = fleet.bench.run(&["app", "list"]).expect_code(2);
    assert!(refused.err.contains("TIDEGATE_CONTROL_NAMESPACE"), "{}", refused.err);
}
