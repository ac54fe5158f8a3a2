//! What `deploy/` has, on a real control plane.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::kube::{Options, User};

use crate::kubectl::{kubectl, tool};
use crate::site::{Plane, Site};

/// A file of `deploy/`.
fn file(name: &str) -> String {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    deploy.join(name).to_str().unwrap().to_owned()
}

pub async fn the_manifests_are_taken_and_the_pod_is_admitted() {
    let control = Plane::own(Options::default());
    let site = Site::on(control, "deploy").await;
    site.run(&["sync", &file("chart/crds/crds.yaml"), "--app", &site.app("crds"), "--wait", "healthy"])
        .expect_code(0);
    // Where Applications are, and what is said of repositories and clusters.
    let argocd = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    site.observer().post("/api/v1/namespaces", &argocd).await.unwrap();
    let app = site.app("tidegate");
    site.run(&["sync", &file("install.yaml"), "--app", &app, "-n", "tidegate"]).expect_code(0);
    // Its controller makes the pod, which PodSecurity must let in; there are no nodes to run it.
    let is_made = |pod: &Value| pod["spec"]["containers"][0]["name"] == "tidegate";
    let pod = "/api/v1/namespaces/tidegate/pods/tidegate-0";
    let made = site.observer().until(pod, |pod| pod.is_some_and(is_made)).await.unwrap();
    assert_eq!(made["spec"]["securityContext"]["runAsNonRoot"], json!(true));
    the_process_may_read_what_it_is_for(&site).await;
}

/// As whom the pod asks.
pub const ACCOUNT: &str = "system:serviceaccount:tidegate:tidegate";
/// Rights are told to the server a moment after they are written.
const LOOKS: usize = 1000;

/// Waits until the account has a right.
pub async fn until_allowed(site: &Site, wanted: (&str, &str, &str)) {
    let mut looks = 0;
    while !may(site, wanted).await {
        looks += 1;
        assert!(looks < LOOKS, "{wanted:?}");
    }
}

async fn may(site: &Site, (namespace, resource, verb): (&str, &str, &str)) -> bool {
    is_allowed(site, json!({"namespace": namespace, "resource": resource, "verb": verb})).await
}

async fn is_allowed(site: &Site, attributes: Value) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    site.observer().post(path, &review).await.unwrap()["status"]["allowed"] == true
}

/// The Secrets and ConfigMaps beside the Applications, and no others.
async fn the_process_may_read_what_it_is_for(site: &Site) {
    // Generators of ApplicationSets ask for single ones.
    let verbs = ["list", "watch", "get"];
    for (kind, verb) in ["secrets", "configmaps"].into_iter().flat_map(|kind| verbs.map(|verb| (kind, verb)))
    {
        until_allowed(site, ("argocd", kind, verb)).await;
    }
    for forbidden in [
        ("argocd", "secrets", "create"),
        ("argocd", "secrets", "patch"),
        ("argocd", "configmaps", "delete"),
        ("tidegate", "secrets", "list"),
        ("kube-system", "secrets", "list"),
        ("", "secrets", "list"),
        ("", "configmaps", "watch"),
    ] {
        assert!(!may(site, forbidden).await, "{forbidden:?}");
    }
    for (resource, subresource, verb) in [
        ("applications", "", "create"),
        ("applications", "", "update"),
        ("applications", "", "delete"),
        ("applicationsets", "", "watch"),
        ("applicationsets", "", "update"),
        ("applicationsets", "", "delete"),
        ("applicationsets", "status", "update"),
        ("applicationsets", "finalizers", "update"),
    ] {
        let attributes = json!({"group": "argoproj.io", "namespace": "argocd", "resource": resource, "subresource": subresource, "verb": verb});
        assert!(is_allowed(site, attributes).await, "{verb} {resource}/{subresource}");
    }
    // With the rights of the manifests and the arguments of the pod, nothing is refused.
    let mut serving =
        site.start(&["serve", "--app-namespace=argocd", "--secrets-namespace=argocd", "--as", ACCOUNT]);
    serving.await_line("serving 0 applications");
    serving.signal("TERM");
    let ended = serving.finish().expect_code(0);
    assert!(!ended.err.contains("cannot be listed") && !ended.err.contains("forbidden"), "{}", ended.err);
}

/// All that the chart has to offer at once.
fn everything() -> Value {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
    ]}}});
    json!({
        "image": {"repository": "registry.example.com/tidegate", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "appNamespaces": ["apps", "*"],
        "secretsNamespace": "apps",
        "onlyLabelled": true,
        "extraArgs": ["--refresh-every=1m"],
        "tokens": {"existingSecret": "tokens", "lines": ["ann operator sha256:00"]},
        "oidc": {"existingSecret": "sign-in"},
        "tls": {"existingSecret": "tidegate-tls"},
        "webhooks": {"existingSecret": "hooks"},
        "rbac": {"watchDefinitions": true, "namespaces": ["shop", "blog"], "clusterWide": true},
        "impersonation": {"enabled": true},
        "execCredentials": {"allow": ["login", "/opt/login"]},
        "remoteBases": {"allow": ["https://github.com/acme", "*"]},
        "chartDependencies": {"allow": ["oci://registry.example.com/charts"]},
        "service": {"port": 80},
        "persistence": {"size": "10Gi", "storageClass": "fast"},
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "deploy", "effect": "NoSchedule"}],
        "affinity": affinity,
        "podAnnotations": {"example.com/scrape": "true"},
        "monitoring": {"rules": true},
        "tracing": {"endpoint": "http://collector:4318", "existingSecret": "collector-headers"},
    })
}

/// Fails where a value is as the chart has it by default, unless that is on already.
fn assert_given(path: &str, default: &Value, given: &Value) {
    match default.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, default) in fields {
                assert_given(&format!("{path}.{name}"), default, &given[name]);
            }
        }
        None => {
            assert!(!given.is_null(), "{path} of values.yaml is not tried");
            assert!(*default == json!(true) || given != default, "{path} is tried as it is anyway");
        }
    }
}

/// The definition of the Prometheus operator, as far as rules use it.
async fn define_rules(site: &Site) {
    let words = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let rule = json!({"type": "object", "required": ["expr"], "properties": {
        "alert": {"type": "string"}, "record": {"type": "string"},
        "expr": {"x-kubernetes-int-or-string": true},
        "for": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d|w|y)$"},
        "labels": words, "annotations": words,
    }});
    let group = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "interval": {"type": "string"}, "rules": {"type": "array", "items": rule},
    }});
    let schema = json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "properties": {"groups": {"type": "array", "items": group}}},
    }});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "prometheusrules.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": {"kind": "PrometheusRule", "plural": "prometheusrules"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    site.observer().post(path, &definition).await.unwrap();
    let is_there = |found: Option<&Value>| found.is_some();
    site.observer().until("/apis/monitoring.coreos.com/v1", is_there).await;
}

/// Has each object tried as `kubectl apply` does it, with every field checked, and returns them as they would be.
async fn accepted(site: &Site, name: &str, manifests: &str) -> Vec<Value> {
    let file = site.write(&format!("{name}.yaml"), manifests);
    let (since, file) = (site.control.mark(), file.to_str().unwrap());
    let args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "json", "-f", file];
    let told: Value = serde_json::from_str(&kubectl(site, &args).unwrap()).unwrap();
    let objects = told["items"].as_array().unwrap().clone();
    let written = manifests.lines().filter(|line| line.starts_with("kind: ")).count();
    let asked = site.control.audit_since(since).await.unwrap().of(User::OBSERVER);
    let asked = asked.only(|event| event.is_write());
    assert!(asked.0.iter().all(|event| event.dry_run && event.succeeded()), "{asked:#?}");
    assert_eq!((objects.len(), asked.0.len()), (written, written), "{name}: {:#?}", asked.summaries());
    objects
}

/// The controller would make such a pod, with the claim as a volume.
async fn is_admitted(site: &Site, objects: &[Value]) {
    let set = objects.iter().find(|object| object["kind"] == "StatefulSet").unwrap();
    let mut pod = set["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "tidegate-0".into();
    pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "state", "emptyDir": {}}));
    site.observer().post("/api/v1/namespaces/tidegate/pods?dryRun=All", &pod).await.unwrap();
}

fn template(site: &Site, helm: &PathBuf, more: &[&str]) -> String {
    let chart = file("chart");
    let args = ["template", "tidegate", &chart, "-n", "tidegate"];
    let ran = Command::new(helm).args(args).args(more).env("HOME", site.path()).output().unwrap();
    assert!(ran.status.success(), "{more:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// By the word of the API server, whose dry run each object has to pass.
pub async fn what_the_chart_and_the_base_make_is_accepted() {
    let (Some(helm), Some(_)) = (tool("helm"), tool("kubectl")) else {
        eprintln!("skipped: the chart needs helm, and the base kubectl");
        return;
    };
    let values = everything();
    let defaults: Value =
        serde_saphyr::from_str(&fs::read_to_string(file("chart/values.yaml")).unwrap()).unwrap();
    assert_given("", &defaults, &values);
    let bare = Options { nodes: false, controllers: false, ..Options::default() };
    let site = Site::on(Plane::own(bare), "accepted").await;
    for name in ["tidegate", "argocd", "apps", "shop", "blog"] {
        let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let metadata = json!({"name": name, "labels": restricted});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        site.observer().post("/api/v1/namespaces", &namespace).await.unwrap();
    }
    define_rules(&site).await;
    let given = site.write("values.json", values.to_string());
    let base = kubectl(&site, &["kustomize", &file("base")]).unwrap();
    for (name, manifests) in [
        ("base", base),
        ("chart", template(&site, &helm, &["--include-crds"])),
        ("chart-with-everything", template(&site, &helm, &["--values", given.to_str().unwrap()])),
    ] {
        let objects = accepted(&site, name, &manifests).await;
        is_admitted(&site, &objects).await;
        let rules = objects.iter().any(|object| object["kind"] == "PrometheusRule");
        assert_eq!(rules, name == "chart-with-everything");
    }
}
