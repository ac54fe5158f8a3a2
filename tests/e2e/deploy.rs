//! What `deploy/` has to install the service with: read by the command itself, and by the tools it is for where they are.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::bench::Bench;

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(deploy(name)).unwrap()
}

/// A tool of somebody else's, in a folder of `TIDEGATE_TOOLS` or on the `PATH`.
fn tool(name: &str) -> Option<PathBuf> {
    let folders = ["TIDEGATE_TOOLS", "PATH"].map(|variable| env::var_os(variable).unwrap_or_default());
    let mut paths = folders.iter().flat_map(env::split_paths).map(|folder| folder.join(name));
    let found = paths.find(|path| path.is_file());
    if found.is_none() {
        eprintln!("skipped: there is no {name} here; TIDEGATE_TOOLS names a folder with it");
    }
    found
}

fn output(program: &Path, args: &[&str]) -> String {
    let ran = Command::new(program).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{args:?}: {said}{}", String::from_utf8_lossy(&ran.stdout));
    String::from_utf8(ran.stdout).unwrap()
}

/// The objects of some manifests, as the command reads them.
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
fn the_plain_manifests_are_those_of_the_base() {
    let bench = Bench::new();
    let base: Vec<String> = ["namespace", "rbac", "service", "statefulset"]
        .iter()
        .map(|name| read(&format!("base/{name}.yaml")))
        .collect();
    let install = read("install.yaml");
    assert_eq!(install, format!("# The same as base/, in one file.\n{}", base.join("---\n")));
    let objects = objects(&bench, &install);
    assert_eq!(objects.len(), 9, "{objects:?}");
    let definitions = bench.run(&["crds"]).expect_code(0).out;
    let is_new = read("chart/crds/crds.yaml") == definitions;
    assert!(is_new, "write them anew: cargo run -- crds > deploy/chart/crds/crds.yaml");
    assert_eq!(read("chart/alerts.yaml"), read("monitoring/alerts.yaml"));
    let arguments = install.lines().filter_map(|line| line.trim().strip_prefix("- --")).collect::<Vec<_>>();
    let help = bench.run(&["serve", "--help"]).expect_code(0).out;
    for argument in &arguments {
        let name = argument.split('=').next().unwrap();
        assert!(help.contains(&format!("--{name} ")), "{name} is no option of serve");
    }
    assert!(arguments.len() >= 3);
}

#[test]
fn kustomize_makes_the_same() {
    let Some(kubectl) = tool("kubectl") else { return };
    let bench = Bench::new();
    let made = output(&kubectl, &["kustomize", deploy("base").to_str().unwrap()]);
    assert_eq!(objects(&bench, &made), objects(&bench, &read("install.yaml")));
}

#[test]
fn the_chart_is_one_and_makes_what_the_base_has() {
    let Some(helm) = tool("helm") else { return };
    let bench = Bench::new();
    let chart = deploy("chart");
    let chart = chart.to_str().unwrap();
    output(&helm, &["lint", "--strict", chart]);
    let template =
        |more: &[&str]| output(&helm, &[&["template", "tidegate", chart, "-n", "tidegate"], more].concat());
    let plain = objects(&bench, &template(&[]));
    let mut base = objects(&bench, &read("install.yaml"));
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
    let none = objects(&bench, &template(&["--set=secretsNamespace="]));
    assert!(!none.iter().any(|object| object.contains("tidegate-secrets")), "{none:?}");
    // Without tokens it would not start.
    let without = Command::new(&helm)
        .args(["template", "tidegate", chart, "--set=tokens.existingSecret="])
        .output()
        .unwrap();
    assert!(!without.status.success() && String::from_utf8_lossy(&without.stderr).contains("without tokens"));
}
