//! Installation files in `deploy/`, read by the command itself and, if installed, by the tools they are made
//! for.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::bench::Bench;

fn deploy_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn read_file(name: &str) -> String {
    fs::read_to_string(deploy_path(name)).unwrap()
}

/// Returns an external tool in a folder of `TIDEGATE_TOOLS` or on the `PATH`.
fn tool(name: &str) -> Option<PathBuf> {
    let folders = ["TIDEGATE_TOOLS", "PATH"].map(|variable| env::var_os(variable).unwrap_or_default());
    let mut paths = folders.iter().flat_map(env::split_paths).map(|folder| folder.join(name));
    let found = paths.find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: {name} is missing; set TIDEGATE_TOOLS to its folder");
    }
    found
}

fn run_program(program: &Path, args: &[&str]) -> String {
    let ran = Command::new(program).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&ran.stdout));
    String::from_utf8(ran.stdout).unwrap()
}

/// Returns the objects of some manifests, as read by the command.
fn objects(bench: &Bench, manifests: &str) -> BTreeSet<String> {
    let args = ["plan", "-", "--app", "tidegate", "-n", "tidegate", "--offline", "-o", "json"];
    let plan: Value =
        serde_json::from_str(&bench.run_with_input(&args, manifests).expect_code(0).out).unwrap();
    let tasks = plan["waves"].as_array().unwrap().iter().flat_map(|wave| wave["tasks"].as_array().unwrap());
    tasks
        .map(|task| {
            let text = |name: &str| task[name].as_str().unwrap_or_default();
            format!("{} {}/{}", text("kind"), text("namespace"), text("name"))
        })
        .collect()
}

#[test]
fn the_plain_manifests_match_the_base() {
    let bench = Bench::new();
    let base: Vec<String> = ["namespace", "rbac", "service", "statefulset"]
        .iter()
        .map(|name| read_file(&format!("base/{name}.yaml")))
        .collect();
    let install = read_file("install.yaml");
    assert_eq!(install, format!("# All resources of base/ in one file.\n{}", base.join("---\n")));
    let objects = objects(&bench, &install);
    assert_eq!(objects.len(), 11, "{objects:?}");
    let definitions = bench.run(&["crds"]).expect_code(0).out;
    let is_new = read_file("chart/crds/crds.yaml") == definitions;
    assert!(is_new, "stale CRDs: run cargo run -- crds > deploy/chart/crds/crds.yaml");
    assert_eq!(read_file("chart/alerts.yaml"), read_file("monitoring/alerts.yaml"));
    let arguments = install.lines().filter_map(|line| line.trim().strip_prefix("- --")).collect::<Vec<_>>();
    let help = bench.run(&["serve", "--help"]).expect_code(0).out;
    for argument in &arguments {
        let name = argument.split('=').next().unwrap();
        assert!(help.contains(&format!("--{name} ")), "serve has no option {name}");
    }
    assert!(arguments.len() >= 2);
    assert!(install.contains("- name: TIDEGATE_CONTROL_NAMESPACE\n              value: argocd\n"));
    assert!(help.contains("TIDEGATE_CONTROL_NAMESPACE"), "{help}");
}

#[test]
fn kustomize_renders_the_same() {
    let Some(kubectl) = tool("kubectl") else { return };
    let bench = Bench::new();
    let made = run_program(&kubectl, &["kustomize", deploy_path("base").to_str().unwrap()]);
    assert_eq!(objects(&bench, &made), objects(&bench, &read_file("install.yaml")));
}

#[test]
fn the_chart_is_valid_and_renders_the_base() {
    let Some(helm) = tool("helm") else { return };
    let bench = Bench::new();
    let chart = deploy_path("chart");
    let chart = chart.to_str().unwrap();
    run_program(&helm, &["lint", "--strict", chart]);
    let template = |more: &[&str]| {
        run_program(&helm, &[&["template", "tidegate", chart, "-n", "tidegate"], more].concat())
    };
    let plain = objects(&bench, &template(&[]));
    let mut base = objects(&bench, &read_file("install.yaml"));
    base.retain(|object| !object.starts_with("Namespace "));
    assert_eq!(plain, base);
    let all = template(&[
        "--set=rbac.namespaces={shop,blog}",
        "--set=rbac.clusterWide=true",
        "--set=appNamespaces={apps,*}",
        "--set=onlyLabelled=true",
        "--set=tls.existingSecret=tidegate-tls",
        "--set=webhooks.existingSecret=hooks",
        "--set=oidc.existingSecret=sign-in",
        "--set=secretsNamespace=apps",
        "--set=tokens.lines[0]=ann operator sha256:00",
        "--set=persistence.storageClass=fast",
        "--set=nodeSelector.disk=ssd",
        "--set=extraArgs={--refresh-every=1m}",
        "--set=execCredentials.allow={login,/opt/login}",
        "--set=remoteBases.allow={https://github.com/acme,*}",
        "--set=chartDependencies.allow={oci://registry.example.com/charts}",
        "--set=monitoring.rules=true",
        "--set=tracing.endpoint=http://collector:4318",
        "--set=tracing.existingSecret=collector-headers",
    ]);
    let made = objects(&bench, &all);
    for object in [
        "RoleBinding shop/tidegate",
        "RoleBinding blog/tidegate-claims",
        "Role apps/tidegate-secrets",
        "RoleBinding apps/tidegate-secrets",
        "Secret tidegate/tidegate-tokens",
    ] {
        assert!(made.contains(object), "{object}: {made:?}");
    }
    for part in [
        "--app-namespace=*",
        "--only-labelled",
        "scheme: HTTPS",
        "--tls-key=",
        "--webhook-secrets=/etc/tidegate-webhooks",
        "secretName: hooks",
        "--oidc=/etc/tidegate-oidc/oidc.yaml",
        "secretName: sign-in",
        "--secrets-namespace=apps",
        "--refresh-every=1m",
        "--allow-exec-credentials=/opt/login",
        "--allow-remote-bases=https://github.com/acme",
        "--allow-remote-bases=*",
        "--allow-chart-dependencies=oci://registry.example.com/charts",
        "PrometheusRule",
        "--otlp=http://collector:4318",
        "name: OTEL_EXPORTER_OTLP_HEADERS",
        "name: collector-headers",
    ] {
        assert!(all.contains(part), "{part}");
    }
    let elsewhere = template(&["--set=controlNamespace=openshift-gitops"]);
    assert!(
        elsewhere.contains("- name: TIDEGATE_CONTROL_NAMESPACE\n              value: \"openshift-gitops\"\n")
    );
    let made = objects(&bench, &elsewhere);
    assert!(made.contains("Role openshift-gitops/tidegate-secrets"), "{made:?}");
    assert!(made.iter().all(|object| !object.contains(" argocd/")), "{made:?}");
    let none = objects(&bench, &template(&["--set=secretsNamespace="]));
    assert!(!none.iter().any(|object| object.contains("tidegate-secrets")), "{none:?}");
    // Without tokens, the service wouldn't start.
    let without = Command::new(&helm)
        .args(["template", "tidegate", chart, "--set=tokens.existingSecret="])
        .output()
        .unwrap();
    assert!(!without.status.success() && String::from_utf8_lossy(&without.stderr).contains("without tokens"));
}
