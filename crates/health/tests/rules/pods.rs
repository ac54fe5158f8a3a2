//! The sentence that names what really blocks a workload.

use serde_json::{Value, json};
use tidegate_health::{pods_reason, workload_reason};
use tidegate_model::Object;

fn pod(name: &str, status: Value) -> Object {
    Object::try_from(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"restartPolicy": "Always"}, "status": status,
    }))
    .unwrap()
}

fn container(state: Value, last: Value, restarts: u32) -> Value {
    json!({"phase": "Running", "containerStatuses": [
        {"name": "main", "image": "shop/api:2", "ready": false, "restartCount": restarts, "state": state, "lastState": last},
    ]})
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

fn ended(code: i32, reason: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason}})
}

#[test]
fn each_trouble_has_its_sentence() {
    let unschedulable = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available:\n 3 Insufficient cpu."}]});
    let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."});
    let init = json!({"phase": "Pending", "initContainerStatuses": [{"name": "wait", "restartCount": 2,
        "state": waiting("CrashLoopBackOff", "back-off"), "lastState": ended(2, "Error")}]});
    for (status, sentence) in [
        (
            container(waiting("CrashLoopBackOff", "back-off 40s"), ended(1, "Error"), 4),
            "api-7f is crash-looping (exit 1, restarted 4 times)",
        ),
        (
            container(waiting("CrashLoopBackOff", "back-off"), ended(137, "OOMKilled"), 1),
            "api-7f is crash-looping (OOMKilled, exit 137, restarted once)",
        ),
        (
            container(waiting("ImagePullBackOff", "Back-off pulling image \"shop/api:2\""), json!({}), 0),
            "api-7f cannot pull image shop/api:2: Back-off pulling image \"shop/api:2\"",
        ),
        (
            container(waiting("CreateContainerConfigError", "secret \"db\" not found"), json!({}), 0),
            "api-7f cannot start container main: secret \"db\" not found",
        ),
        (container(json!({"running": {}}), ended(3, "Error"), 2), "api-7f was restarted 2 times (exit 3)"),
        (container(ended(7, "Error"), json!({}), 0), "api-7f has failed (exit 7)"),
        (unschedulable, "api-7f cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu."),
        (unready, "api-7f runs and is not ready"),
        (evicted, "api-7f has failed (The node was low on memory.)"),
        (init, "api-7f is crash-looping (exit 2, restarted 2 times)"),
    ] {
        assert_eq!(pods_reason(&[pod("api-7f", status)]).as_deref(), Some(sentence));
    }
}

#[test]
fn the_worst_pod_is_named_and_the_others_are_counted() {
    let looping = |restarts| container(waiting("CrashLoopBackOff", ""), ended(1, "Error"), restarts);
    let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    let pods = [
        pod("a", unready.clone()),
        pod("b", looping(2)),
        pod("c", looping(5)),
        pod("d", json!({"phase": "Running"})),
    ];
    let expected = "c is crash-looping (exit 1, restarted 5 times); 2 more pods are not well";
    assert_eq!(pods_reason(&pods).as_deref(), Some(expected));
    assert_eq!(pods_reason(&pods[..1]).as_deref(), Some("a runs and is not ready"));
}

/// A pod that is being started, has done its work, or says nonsense, has nothing to tell.
#[test]
fn nothing_to_tell() {
    let starting = json!({"phase": "Pending", "containerStatuses": [{"name": "main", "state": waiting("ContainerCreating", "")}]});
    let done = json!({"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": ended(0, "Completed")}]});
    let odd = json!({"phase": 7, "conditions": "none", "containerStatuses": {"a": []}});
    for status in [starting, done, odd, json!({}), Value::Null] {
        assert_eq!(pods_reason(&[pod("api-7f", status.clone())]), None, "{status}");
    }
    assert_eq!(pods_reason(&[]), None);
}

#[test]
fn a_long_story_is_cut() {
    let long = container(waiting("ErrImagePull", &"ä".repeat(5000)), json!({}), 0);
    let sentence = pods_reason(&[pod("api-7f", long)]).unwrap();
    assert!(sentence.ends_with('…') && sentence.chars().count() == 300, "{sentence}");
}

/// A quota leaves no pods to look at; the Deployment itself says why. What its pods tell comes second.
#[test]
fn why_pods_cannot_be_made_comes_first() {
    let deployment = |status: &str| {
        let conditions = serde_json::json!([
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetCreated", "message": "created"},
            {"type": "ReplicaFailure", "status": status, "reason": "FailedCreate",
             "message": "pods \"api-7f\" is forbidden: exceeded quota: small"},
        ]);
        tidegate_model::Object::try_from(serde_json::json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    };
    let running =
        serde_json::json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    let pods = [pod("api-7f", running)];
    let quota = Some("pods \"api-7f\" is forbidden: exceeded quota: small".to_owned());
    assert_eq!(workload_reason(&deployment("True"), &[]), quota);
    assert_eq!(workload_reason(&deployment("True"), &pods), quota);
    assert_eq!(workload_reason(&deployment("False"), &[]), None);
    assert_eq!(workload_reason(&deployment("False"), &pods), pods_reason(&pods));
}
