//! The installation files of `deploy/` on a real control plane.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::kube::{Options, User};

use crate::kube_bench::{KubeBench, Plane};
use crate::kubectl::{kubectl, tool};

/// Returns a file of `deploy/`.
fn file(name: &str) -> String {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    deploy.join(name).to_str().unwrap().to_owned()
}

pub async fn the_manifests_are_accepted_and_the_pod_is_admitted() {
    let control = Plane::own(Options::default());
    let bench = KubeBench::on_plane(control, "deploy").await;
    bench
        .run(&["sync", &file("chart/crds/crds.yaml"), "--app", &bench.app("crds"), "--wait", "healthy"])
        .expect_code(0);
    // Namespace of the Applications, repositories and clusters.
    let argocd = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    bench.observer().post("/api/v1/namespaces", &argocd).await.unwrap();
    let app = bench.app("tidegate");
    bench.run(&["sync", &file("install.yaml"), "--app", &app, "-n", "tidegate"]).expect_code(0);
    // The Deployment's controller creates the pod, which PodSecurity must admit. There are no nodes to run
    // it.
    let is_made = |pod: &Value| pod["spec"]["containers"][0]["name"] == "tidegate";
    let pod = "/api/v1/namespaces/tidegate/pods/tidegate-0";
    let made = bench.observer().wait_until(pod, |pod| pod.is_some_and(is_made)).await.unwrap();
    assert_eq!(made["spec"]["securityContext"]["runAsNonRoot"], json!(true));
    assert_read_rights(&bench).await;
}

/// User name of the pod.
pub const ACCOUNT: &str = "system:serviceaccount:tidegate:tidegate";
/// Maximum number of polls, because rights take effect a moment after they are written.
const MAX_POLLS: usize = 1000;

/// Waits until the account has a right.
pub async fn wait_until_allowed(bench: &KubeBench, wanted: (&str, &str, &str)) {
    let mut read_count = 0;
    while !has_right(bench, wanted).await {
        read_count += 1;
        assert!(read_count < MAX_POLLS, "{wanted:?}");
    }
}

async fn has_right(bench: &KubeBench, (namespace, resource, verb): (&str, &str, &str)) -> bool {
    is_allowed(bench, json!({"namespace": namespace, "resource": resource, "verb": verb})).await
}

async fn is_allowed(bench: &KubeBench, attributes: Value) -> bool {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "resourceAttributes": attributes},
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    bench.observer().post(path, &review).await.unwrap()["status"]["allowed"] == true
}

/// Checks that only Secrets and ConfigMaps in the Applications' namespace can be read.
async fn assert_read_rights(bench: &KubeBench) {
    // ApplicationSet generators read individual objects.
    let verbs = ["list", "watch", "get"];
    for (kind, verb) in ["secrets", "configmaps"].into_iter().flat_map(|kind| verbs.map(|verb| (kind, verb)))
    {
        wait_until_allowed(bench, ("argocd", kind, verb)).await;
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
        assert!(!has_right(bench, forbidden).await, "{forbidden:?}");
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
        assert!(is_allowed(bench, attributes).await, "{verb} {resource}/{subresource}");
    }
    // With the rights from the manifests and the arguments of the pod, no request is rejected.
    let mut service =
        bench.start(&["serve", "--app-namespace=argocd", "--secrets-namespace=argocd", "--as", ACCOUNT]);
    service.wait_for_line("managing 0 applications");
    service.signal("TERM");
    let ended = service.finish().expect_code(0);
    assert!(!ended.err.contains("failed to list") && !ended.err.contains("forbidden"), "{}", ended.err);
}

/// Returns values that enable all features of the chart.
fn everything() -> Value {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
    ]}}});
    let spread = json!([
        {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": "disk", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"team": "platform"}}},
    ]);
    json!({
        "image": {"repository": "registry.example.com/tidegate", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "replicas": 3,
        "sharedLog": {"existingSecret": "log"},
        "appNamespaces": ["apps", "*"],
        "controlNamespace": "apps",
        "standby": true,
        "secretsNamespace": "apps",
        "onlyLabelled": true,
        "extraArgs": ["--refresh-every=1m"],
        "tokens": {"existingSecret": "tokens", "lines": ["ann operator sha256:00"]},
        "oidc": {"existingSecret": "sign-in"},
        "tls": {"existingSecret": "tidegate-tls", "serverName": "tidegate.example.com", "privateAuthority": true},
        "webhooks": {"existingSecret": "hooks"},
        "rbac": {"watchDefinitions": true, "namespaces": ["shop", "blog"], "clusterWide": true},
        "impersonation": {"enabled": true},
        "execCredentials": {"allow": ["login", "/opt/login"]},
        "remoteBases": {"allow": ["https://github.com/acme", "*"]},
        "chartDependencies": {"allow": ["oci://registry.example.com/charts"]},
        "service": {"port": 80},
        "ipv6": true,
        "persistence": {"size": "10Gi", "storageClass": "fast"},
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "deploy", "effect": "NoSchedule"}],
        "affinity": affinity,
        "topologySpreadConstraints": spread,
        "podAnnotations": {"example.com/scrape": "true"},
        "monitoring": {"rules": true},
        "tracing": {"endpoint": "http://collector:4318", "existingSecret": "collector-headers"},
    })
}

/// Fails if a value equals the chart's default, unless that is already enabled.
fn assert_overridden(path: &str, default: &Value, given: &Value) {
    match default.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, default) in fields {
                assert_overridden(&format!("{path}.{name}"), default, &given[name]);
            }
        }
        None => {
            assert!(!given.is_null(), "{path} of values.yaml is not tested");
            assert!(*default == json!(true) || given != default, "{path} is already tested");
        }
    }
}

/// Installs the part of the Prometheus operator's definition that the rules use.
async fn define_rules(bench: &KubeBench) {
    let text = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let rule = json!({"type": "object", "required": ["expr"], "properties": {
        "alert": {"type": "string"}, "record": {"type": "string"},
        "expr": {"x-kubernetes-int-or-string": true},
        "for": {"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d|w|y)$"},
        "labels": text, "annotations": text,
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
    bench.observer().post(path, &definition).await.unwrap();
    let is_there = |found: Option<&Value>| found.is_some();
    bench.observer().wait_until("/apis/monitoring.coreos.com/v1", is_there).await;
}

/// Runs a dry run for each object as in `kubectl apply`, with strict field validation, and returns the
/// results.
async fn dry_run_objects(bench: &KubeBench, name: &str, manifests: &str) -> Vec<Value> {
    let file = bench.write(&format!("{name}.yaml"), manifests);
    let (since, file) = (bench.control.audit_mark(), file.to_str().unwrap());
    let args = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "json", "-f", file];
    let list: Value = serde_json::from_str(&kubectl(bench, &args).unwrap()).unwrap();
    let objects = list["items"].as_array().unwrap().clone();
    let written = manifests.lines().filter(|line| line.starts_with("kind: ")).count();
    let audit_events = bench.control.audit_since(since).await.unwrap().by_user(User::OBSERVER);
    let audit_events = audit_events.filter(|event| event.is_write());
    assert!(audit_events.0.iter().all(|event| event.dry_run && event.has_succeeded()), "{audit_events:#?}");
    assert_eq!(
        (objects.len(), audit_events.0.len()),
        (written, written),
        "{name}: {:#?}",
        audit_events.summaries()
    );
    objects
}

/// Checks that the pod is admitted by the API server. The controller of a StatefulSet adds the claim as a volume.
async fn assert_pod_admitted(bench: &KubeBench, workload: &Value) {
    let mut pod = workload["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "tidegate-0".into();
    if workload["kind"] == "StatefulSet" {
        pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "state", "emptyDir": {}}));
    }
    bench.observer().post("/api/v1/namespaces/tidegate/pods?dryRun=All", &pod).await.unwrap();
}

/// Checks that the program accepts the arguments of the container. With `--help`, it does nothing else.
fn assert_known_arguments(bench: &KubeBench, workload: &Value) {
    let arguments = workload["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let arguments = arguments.iter().map(|argument| argument.as_str().unwrap());
    let arguments: Vec<&str> = arguments.chain(["--help"]).collect();
    bench.run(&arguments).expect_code(0);
}

/// Checks that several replicas use a Deployment without claims, and a disruption budget that selects its pods.
fn assert_replicated(objects: &[Value], workload: &Value) {
    let spec = &workload["spec"];
    assert_eq!((&workload["kind"], &spec["replicas"]), (&json!("Deployment"), &json!(3)));
    let budget = objects.iter().find(|object| object["kind"] == "PodDisruptionBudget").unwrap();
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert_eq!(budget["spec"]["selector"], spec["selector"]);
    let pod = &spec["template"]["spec"];
    let selectors: Vec<&Value> = pod["topologySpreadConstraints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|constraint| &constraint["labelSelector"])
        .collect();
    assert_eq!(selectors, [&spec["selector"], &json!({"matchLabels": {"team": "platform"}})]);
}

/// Runs `helm template` for the version of the control plane. Returns the output, or the error.
fn template(bench: &KubeBench, helm: &Path, more: &[&str]) -> Result<String, String> {
    let (chart, version) = (file("chart"), format!("1.{}.0", bench.control.minor()));
    let args = ["template", "tidegate", &chart, "-n", "tidegate", "--kube-version", &version];
    let ran = Command::new(helm).args(args).args(more).env("HOME", bench.path()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if ran.status.success() { Ok(text(ran.stdout)) } else { Err(text(ran.stderr)) }
}

/// The API server validates the output: each object must pass its dry run.
pub async fn the_output_of_the_chart_and_the_base_is_accepted() {
    let (Some(helm), Some(_)) = (tool("helm"), tool("kubectl")) else {
        eprintln!("skipped: the chart needs helm, and the base kubectl");
        return;
    };
    let values = everything();
    let defaults: Value =
        serde_saphyr::from_str(&fs::read_to_string(file("chart/values.yaml")).unwrap()).unwrap();
    assert_overridden("", &defaults, &values);
    let bare = Options { has_nodes: false, has_controllers: false, ..Options::default() };
    let bench = KubeBench::on_plane(Plane::own(bare), "accepted").await;
    for name in ["tidegate", "argocd", "apps", "shop", "blog"] {
        let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let metadata = json!({"name": name, "labels": restricted});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        bench.observer().post("/api/v1/namespaces", &namespace).await.unwrap();
    }
    define_rules(&bench).await;
    let given = bench.write("values.json", values.to_string());
    let base = kubectl(&bench, &["kustomize", &file("base")]).unwrap();
    let everything = ["--values", given.to_str().unwrap()];
    let on_volume = [&everything[..], &["--set", "replicas=1"]].concat();
    for (name, manifests) in [
        ("base", base),
        ("chart", template(&bench, &helm, &["--include-crds"]).unwrap()),
        ("chart-with-everything", template(&bench, &helm, &everything).unwrap()),
        ("chart-with-everything-on-a-volume", template(&bench, &helm, &on_volume).unwrap()),
    ] {
        let objects = dry_run_objects(&bench, name, &manifests).await;
        let is_workload = |object: &&Value| object["kind"] == "StatefulSet" || object["kind"] == "Deployment";
        let workloads: Vec<&Value> = objects.iter().filter(is_workload).collect();
        let [workload] = workloads[..] else { panic!("{name}: {workloads:#?}") };
        assert_pod_admitted(&bench, workload).await;
        assert_known_arguments(&bench, workload);
        if name == "chart-with-everything" {
            assert_replicated(&objects, workload);
        } else {
            assert_eq!(workload["kind"], "StatefulSet", "{name}");
        }
        let rules = objects.iter().any(|object| object["kind"] == "PrometheusRule");
        assert_eq!(rules, name.starts_with("chart-with-everything"));
    }
    let (replicated, with_log) =
        ("replicas=3", "replicas=3,sharedLog.existingSecret=log,tls.existingSecret=tls");
    for (values, missing) in [(replicated, "set sharedLog.existingSecret"), (with_log, "set tls.serverName")]
    {
        let error = template(&bench, &helm, &["--set", values]).unwrap_err();
        assert!(error.contains(missing), "{error}");
    }
}
