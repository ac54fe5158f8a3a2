//! Tests of the control plane and its helpers.

use serde_json::{Value, json};
use tidegate_testkit::kube::{ControlPlane, Options, User};

fn pod(name: &str, annotations: &Value, policy: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "busybox"}]},
    })
}

fn template(labels: &Value, policy: &str) -> Value {
    json!({
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "busybox"}]},
    })
}

fn job(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": annotations},
        "spec": {"backoffLimit": 0, "template": template(&json!({}), "Never")},
    })
}

fn deployment(name: &str, annotations: &Value) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "annotations": annotations},
        "spec": {"selector": {"matchLabels": labels}, "template": template(&labels, "Always")},
    })
}

fn has_value(object: Option<&Value>, path: &str, expected: &Value) -> bool {
    object.and_then(|object| object.pointer(path)) == Some(expected)
}

fn has_condition(object: Option<&Value>, kind: &str) -> bool {
    let conditions = object.and_then(|object| object.pointer("/status/conditions")).and_then(Value::as_array);
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == kind && one["status"] == "True"))
}

pub async fn pods_behave_as_annotated() {
    let control = ControlPlane::shared();
    let (observer, namespace) =
        (control.client(User::OBSERVER), control.create_namespace("pods").await.unwrap());
    let core = format!("/api/v1/namespaces/{namespace}");
    let outcome = |what: &str| json!({"sim.tidegate.dev/outcome": what});
    for (name, annotations, policy, path, expected) in [
        ("serves", json!({}), "Always", "/status/containerStatuses/0/ready", json!(true)),
        ("ends", json!({}), "Never", "/status/phase", json!("Succeeded")),
        ("fails", outcome("fail"), "OnFailure", "/status/phase", json!("Failed")),
        (
            "crashes",
            outcome("crashloop"),
            "Always",
            "/status/containerStatuses/0/state/waiting/reason",
            json!("CrashLoopBackOff"),
        ),
        ("waits", outcome("never-ready"), "Always", "/status/containerStatuses/0/started", json!(true)),
    ] {
        observer.post(&format!("{core}/pods"), &pod(name, &annotations, policy)).await.unwrap();
        observer.wait_until(&format!("{core}/pods/{name}"), |pod| has_value(pod, path, &expected)).await;
    }
    let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    observer.post(&jobs, &job("good", &json!({}))).await.unwrap();
    observer.wait_until(&format!("{jobs}/good"), |job| has_condition(job, "Complete")).await;
    let once = json!({"sim.tidegate.dev/fail-times": "1"});
    observer.post(&jobs, &job("second", &once)).await.unwrap();
    observer.wait_until(&format!("{jobs}/second"), |job| has_condition(job, "Failed")).await;
    observer.delete(&format!("{jobs}/second"), &json!({"propagationPolicy": "Foreground"})).await.unwrap();
    observer.wait_until(&format!("{jobs}/second"), |job| job.is_none()).await;
    observer.post(&jobs, &job("second", &once)).await.unwrap();
    observer.wait_until(&format!("{jobs}/second"), |job| has_condition(job, "Complete")).await;

    let apps = format!("/apis/apps/v1/namespaces/{namespace}");
    observer.post(&format!("{apps}/deployments"), &deployment("web", &json!({}))).await.unwrap();
    let web = format!("{apps}/deployments/web");
    observer.wait_until(&web, |web| has_value(web, "/status/availableReplicas", &json!(1))).await;
    let crashing = deployment("broken", &outcome("fail"));
    observer.post(&format!("{apps}/deployments"), &crashing).await.unwrap();
    let reason = "/items/0/status/containerStatuses/0/state/waiting/reason";
    let pods = format!("{core}/pods?labelSelector=app%3Dbroken");
    observer.wait_until(&pods, |pods| has_value(pods, reason, &json!("CrashLoopBackOff"))).await;
    let labels = json!({"app": "agent"});
    let agent = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": labels}, "template": template(&labels, "Always")},
    });
    observer.post(&format!("{apps}/daemonsets"), &agent).await.unwrap();
    let agent = format!("{apps}/daemonsets/agent");
    observer.wait_until(&agent, |agent| has_value(agent, "/status/numberReady", &json!(1))).await;
}

pub async fn storage_and_addresses_are_provided() {
    let control = ControlPlane::shared();
    let (observer, namespace) =
        (control.client(User::OBSERVER), control.create_namespace("settle").await.unwrap());
    let core = format!("/api/v1/namespaces/{namespace}");
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    });
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    });
    let scaler = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    let ingresses = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses");
    let scalers = format!("/apis/autoscaling/v1/namespaces/{namespace}/horizontalpodautoscalers");
    observer.post(&format!("{core}/persistentvolumeclaims"), &claim).await.unwrap();
    observer.post(&format!("{core}/services"), &service).await.unwrap();
    observer.post(&ingresses, &ingress).await.unwrap();
    observer.post(&scalers, &scaler).await.unwrap();
    let claim = format!("{core}/persistentvolumeclaims/disk");
    observer.wait_until(&claim, |claim| has_value(claim, "/status/phase", &json!("Bound"))).await;
    for path in [format!("{core}/services/web"), format!("{ingresses}/web")] {
        let address = "/status/loadBalancer/ingress/0/ip";
        observer.wait_until(&path, |found| found.is_some_and(|found| found.pointer(address).is_some())).await;
    }
    let scaler = format!("{scalers}/web");
    observer.wait_until(&scaler, |scaler| has_value(scaler, "/status/desiredReplicas", &json!(1))).await;
}

pub async fn deletion_completes_or_gets_stuck() {
    let control = ControlPlane::shared();
    let (observer, namespace) =
        (control.client(User::OBSERVER), control.create_namespace("gone").await.unwrap());
    let core = format!("/api/v1/namespaces/{namespace}");
    let stuck = json!({"sim.tidegate.dev/outcome": "stuck-deleting"});
    observer.post(&format!("{core}/pods"), &pod("runs", &json!({}), "Always")).await.unwrap();
    let settings =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stays", "annotations": stuck}});
    observer.post(&format!("{core}/configmaps"), &settings).await.unwrap();
    let (runs, stays) = (format!("{core}/pods/runs"), format!("{core}/configmaps/stays"));
    observer.wait_until(&runs, |pod| has_condition(pod, "Ready")).await;
    let held =
        |object: Option<&Value>| object.is_some_and(|object| object["metadata"]["finalizers"].is_array());
    observer.wait_until(&stays, held).await;
    observer.delete(&runs, &Value::Null).await.unwrap();
    observer.delete(&stays, &Value::Null).await.unwrap();
    observer.wait_until(&runs, |pod| pod.is_none()).await;
    let left = observer.get(&stays).await.unwrap();
    assert!(left["metadata"]["deletionTimestamp"].is_string(), "{left}");
    observer.patch(&stays, &json!({"metadata": {"finalizers": null}})).await.unwrap();
    observer.wait_until(&stays, |settings| settings.is_none()).await;
    let place = format!("/api/v1/namespaces/{namespace}");
    observer.delete(&place, &Value::Null).await.unwrap();
    observer.wait_until(&place, |namespace| namespace.is_none()).await;
}

pub async fn the_audit_log_is_complete_and_in_order() {
    let control = ControlPlane::shared();
    let namespace = control.create_namespace("audit").await.unwrap();
    let mark = control.audit_mark();
    let engine = control.client(User::ENGINE);
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    engine.post(&maps, &map("a")).await.unwrap();
    engine.apply(&format!("{maps}/b?fieldManager=tidegate"), &map("b")).await.unwrap();
    engine.apply(&format!("{maps}/c?fieldManager=tidegate&dryRun=All"), &map("c")).await.unwrap();
    engine.patch(&format!("{maps}/a"), &json!({"data": {"x": "y"}})).await.unwrap();
    engine.delete(&format!("{maps}/b"), &json!({"dryRun": ["All"]})).await.unwrap();
    engine.delete(&format!("{maps}/a"), &Value::Null).await.unwrap();
    assert_eq!(engine.delete(&format!("{maps}/a"), &Value::Null).await.unwrap_err().code, 404);
    control.client(User::OBSERVER).post(&maps, &map("d")).await.unwrap();
    let jobs = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
    let mut generated = job("", &json!({}));
    generated["metadata"] = json!({"generateName": "backup-"});
    let name = engine.post(&jobs, &generated).await.unwrap()["metadata"]["name"].as_str().unwrap().to_owned();

    let all = control.audit_since(mark).await.unwrap().by_user(User::ENGINE).in_namespace(&namespace);
    assert_eq!(control.audit_in_namespace(mark, &namespace).await.unwrap().by_user(User::ENGINE), all);
    let codes: Vec<(&str, u16, bool)> =
        all.0.iter().map(|event| (event.verb.as_str(), event.code, event.dry_run)).collect();
    let expected = [
        ("create", 201, false),
        ("patch", 201, false),
        ("patch", 201, true),
        ("patch", 200, false),
        ("delete", 200, true),
        ("delete", 200, false),
        ("delete", 404, false),
        ("create", 201, false),
    ];
    assert_eq!(codes, expected);
    let summaries = all.successful_writes().summaries();
    let expected =
        ["create ConfigMap {}/a", "patch ConfigMap {}/b", "patch ConfigMap {}/a", "delete ConfigMap {}/a"]
            .map(|line| line.replace("{}", &namespace));
    assert_eq!(summaries[..4], expected);
    assert_eq!(summaries[4..], [format!("create Job {namespace}/{name}")]);
}

pub async fn a_limited_user_has_only_its_granted_rights() {
    let control = ControlPlane::shared();
    let namespace = control.create_namespace("limited").await.unwrap();
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]);
    let user = control.create_limited_user(&[(Some(&namespace), rules)]).await.unwrap();
    let caller = control.client(&user);
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    caller.get(&maps).await.unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let refused = caller.post(&maps, &map).await.unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(refused.why.contains(user.name()) && refused.why.contains("configmaps"), "{refused}");
    assert_eq!(caller.get("/api/v1/namespaces/default/configmaps").await.unwrap_err().code, 403);
}

pub async fn a_server_can_be_killed_and_stopped() {
    let control =
        ControlPlane::start(Options { has_controllers: false, has_nodes: true, ..Options::default() })
            .unwrap();
    let namespace = control.create_namespace("hurt").await.unwrap();
    let core = format!("/api/v1/namespaces/{namespace}");
    let observer = control.client(User::OBSERVER);
    control.kill_api_server();
    assert_eq!(control.client(User::OBSERVER).get(&core).await.unwrap_err().code, 0);
    control.restart_api_server().unwrap();
    // The earlier connection is broken, but both the caller and the nodes open a new one.
    observer.wait_until(&core, |namespace| namespace.is_some()).await;
    observer.post(&format!("{core}/pods"), &pod("after", &json!({}), "Always")).await.unwrap();
    observer.wait_until(&format!("{core}/pods/after"), |pod| has_condition(pod, "Ready")).await;
    control.pause_etcd().unwrap();
    let asked = tokio::time::timeout(std::time::Duration::from_secs(1), observer.get(&core)).await;
    assert!(asked.is_err(), "{asked:?}");
    control.resume_etcd().unwrap();
    observer.get(&core).await.unwrap();
    control.check_running().unwrap();
}
