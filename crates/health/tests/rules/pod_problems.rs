//! Sentences about the reason a workload is blocked.

use serde_json::{Value, json};
use tidegate_health::{binds_with_consumer, newest_warning, pods_reason, unbound_class, workload_reason};
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

fn waiting_state(reason: &str, message: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": message}})
}

fn terminated_state(code: i32, reason: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason}})
}

#[test]
fn each_problem_has_its_sentence() {
    let unschedulable = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available:\n 3 Insufficient cpu."}]});
    let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."});
    let init = json!({"phase": "Pending", "initContainerStatuses": [{"name": "wait", "restartCount": 2,
        "state": waiting_state("CrashLoopBackOff", "back-off"), "lastState": terminated_state(2, "Error")}]});
    for (status, sentence) in [
        (
            container(waiting_state("CrashLoopBackOff", "back-off 40s"), terminated_state(1, "Error"), 4),
            "api-7f is crash-looping (exit 1, restarted 4 times)",
        ),
        (
            container(waiting_state("CrashLoopBackOff", "back-off"), terminated_state(137, "OOMKilled"), 1),
            "api-7f is crash-looping (OOMKilled, exit 137, restarted once)",
        ),
        (
            container(
                waiting_state("ImagePullBackOff", "Back-off pulling image \"shop/api:2\""),
                json!({}),
                0,
            ),
            "api-7f cannot pull image shop/api:2: Back-off pulling image \"shop/api:2\"",
        ),
        (
            container(waiting_state("CreateContainerConfigError", "secret \"db\" not found"), json!({}), 0),
            "api-7f cannot start container main: secret \"db\" not found",
        ),
        (
            container(json!({"running": {}}), terminated_state(3, "Error"), 2),
            "api-7f was restarted 2 times (exit 3)",
        ),
        (container(terminated_state(7, "Error"), json!({}), 0), "api-7f has failed (exit 7)"),
        (unschedulable, "api-7f cannot be scheduled: 0/3 nodes are available: 3 Insufficient cpu."),
        (unready, "api-7f is running but not ready"),
        (evicted, "api-7f has failed (The node was low on memory.)"),
        (init, "api-7f is crash-looping (exit 2, restarted 2 times)"),
    ] {
        assert_eq!(pods_reason(&[pod("api-7f", status)]).as_deref(), Some(sentence));
    }
}

#[test]
fn the_worst_pod_is_named_and_the_others_are_counted() {
    let looping =
        |restarts| container(waiting_state("CrashLoopBackOff", ""), terminated_state(1, "Error"), restarts);
    let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    let pods = [
        pod("a", unready.clone()),
        pod("b", looping(2)),
        pod("c", looping(5)),
        pod("d", json!({"phase": "Running"})),
    ];
    let expected = "c is crash-looping (exit 1, restarted 5 times); 2 more pods are unhealthy";
    assert_eq!(pods_reason(&pods).as_deref(), Some(expected));
    assert_eq!(pods_reason(&pods[..1]).as_deref(), Some("a is running but not ready"));
}

/// Pods that are starting, have completed, or have an invalid status aren't reported.
#[test]
fn healthy_pods_have_no_reason() {
    let starting = json!({"phase": "Pending", "containerStatuses": [{"name": "main", "state": waiting_state("ContainerCreating", "")}]});
    let done = json!({"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": terminated_state(0, "Completed")}]});
    let odd = json!({"phase": 7, "conditions": "none", "containerStatuses": {"a": []}});
    for status in [starting, done, odd, json!({}), Value::Null] {
        assert_eq!(pods_reason(&[pod("api-7f", status.clone())]), None, "{status}");
    }
    assert_eq!(pods_reason(&[]), None);
}

#[test]
fn long_sentences_are_truncated() {
    let long = container(waiting_state("ErrImagePull", &"ä".repeat(5000)), json!({}), 0);
    let sentence = pods_reason(&[pod("api-7f", long)]).unwrap();
    assert!(sentence.ends_with('…') && sentence.chars().count() == 300, "{sentence}");
}

/// With an exceeded quota, there are no pods, and the Deployment itself states the reason. It takes
/// precedence over pod problems.
#[test]
fn pod_creation_failures_come_first() {
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

fn event(kind: &str, reason: &str, message: &str, at: Value) -> Object {
    let mut event = serde_json::json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "type": kind, "reason": reason, "message": message});
    event.as_object_mut().unwrap().extend(at.as_object().unwrap().clone());
    Object::try_from(event).unwrap()
}

#[test]
fn the_newest_warning_counts() {
    let last = |at: &str| json!({"lastTimestamp": at});
    let first = event("Warning", "FailedMount", "secret \"x\" not found", last("2026-01-01T00:00:01Z"));
    let second = event(
        "Warning",
        "BackOff",
        "restarting",
        json!({"eventTime": "2026-01-01T00:00:02.5Z", "lastTimestamp": null}),
    );
    let normal = event("Normal", "Scheduled", "assigned", last("2026-01-01T00:00:09Z"));
    let series = event(
        "Warning",
        "Again",
        "",
        json!({"eventTime": "2026-01-01T00:00:00Z",
        "series": {"lastObservedTime": "2026-01-01T00:00:03Z"}}),
    );
    for (events, expected) in [
        (vec![], None),
        (vec![normal.clone()], None),
        (vec![normal.clone(), first.clone()], Some("FailedMount: secret \"x\" not found")),
        (vec![second.clone(), first.clone(), normal.clone()], Some("BackOff: restarting")),
        (vec![first.clone(), series, second], Some("Again")),
        (vec![event("Warning", "", "", json!({}))], None),
    ] {
        assert_eq!(newest_warning(&events).as_deref(), expected, "{events:?}");
    }
}

/// A claim with a volume or a node, or without a storage class, doesn't wait for a consumer.
#[test]
fn a_claim_waits_for_a_consumer_as_long_as_no_node_was_chosen() {
    let claim = |phase: &str, spec: Value, annotations: Value| {
        Object::try_from(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "annotations": annotations}, "spec": spec, "status": {"phase": phase}}))
        .unwrap()
    };
    let lazy = json!({"storageClassName": "lazy"});
    for (claim, expected) in [
        (claim("Pending", lazy.clone(), json!({})), Some("lazy")),
        (claim("Bound", lazy.clone(), json!({})), None),
        (claim("Lost", lazy.clone(), json!({})), None),
        (claim("Pending", lazy, json!({"volume.kubernetes.io/selected-node": "n"})), None),
        (claim("Pending", json!({"storageClassName": "lazy", "volumeName": "v"}), json!({})), None),
        (claim("Pending", json!({"storageClassName": ""}), json!({})), None),
        (claim("Pending", json!({}), json!({})), None),
    ] {
        assert_eq!(unbound_class(&claim), expected, "{claim:?}");
    }
    for (mode, expected) in [("WaitForFirstConsumer", true), ("Immediate", false), ("", false)] {
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "lazy"},
            "volumeBindingMode": mode});
        assert_eq!(binds_with_consumer(&Object::try_from(class).unwrap()), expected, "{mode}");
    }
}
