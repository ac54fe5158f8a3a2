use serde_json::{Value, json};

use crate::{ExpectedResult, check, degraded, healthy, progressing, unknown};

fn pod(policy: &str, status: Value) -> Value {
    json!({"spec": {"restartPolicy": policy}, "status": status})
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"name": "web", "state": {"waiting": {"reason": reason, "message": message}}})
}

#[test]
fn a_container_that_cannot_start_degrades_a_pod_that_should_run_always() {
    let two = json!([waiting("ErrImagePull", "no such image"), waiting("CrashLoopBackOff", "back-off 5m")]);
    let rows = vec![
        (
            pod("Always", json!({"phase": "Pending", "containerStatuses": two})),
            degraded("no such image, back-off 5m"),
        ),
        (
            pod(
                "Always",
                json!({"phase": "Pending", "containerStatuses": [waiting("CreateContainerError", "")]}),
            ),
            degraded("CreateContainerError"),
        ),
        (
            pod(
                "Always",
                json!({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating", "")]}),
            ),
            progressing("Waiting for container \"web\": ContainerCreating"),
        ),
        // Init containers are ignored. A pod that runs to completion may still be able to pull its image.
        (
            pod(
                "Always",
                json!({"phase": "Pending", "initContainerStatuses": [waiting("ErrImagePull", "no")]}),
            ),
            progressing("Waiting for container \"web\": ErrImagePull"),
        ),
        (
            pod(
                "Never",
                json!({"phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff", "no")]}),
            ),
            progressing("Waiting for container \"web\": ImagePullBackOff"),
        ),
    ];
    check("v1", "Pod", rows);
}

#[test]
fn phases() {
    let unscheduled =
        json!([{"type": "PodScheduled", "status": "False", "message": "0/3 nodes have memory"}]);
    let rows = vec![
        (pod("Never", json!({"phase": "Pending"})), progressing("Waiting for the pod to start")),
        (pod("Never", json!({"phase": "Pending", "message": "soon"})), progressing("soon")),
        (
            pod("Never", json!({"phase": "Pending", "conditions": unscheduled})),
            progressing("Waiting to be scheduled: 0/3 nodes have memory"),
        ),
        (pod("Never", json!({"phase": "Succeeded"})), healthy("Pod succeeded")),
        (pod("Never", json!({"phase": "Succeeded", "message": "all done"})), healthy("all done")),
        (pod("Never", json!({"phase": "Running"})), progressing("Waiting for the pod to complete")),
        (pod("OnFailure", json!({"phase": "Running"})), progressing("Waiting for the pod to complete")),
        (pod("Always", json!({"phase": "Running"})), progressing("Waiting for the pod to become ready")),
        (
            pod("Always", json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
            healthy("Pod is ready"),
        ),
        (
            pod(
                "Always",
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}],
                "containerStatuses": [{"name": "web", "lastState": {"terminated": {"exitCode": 1}}}]}),
            ),
            degraded("container \"web\" was restarted and is not ready"),
        ),
        (
            pod(
                "Always",
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "web", "lastState": {"terminated": {"exitCode": 1}}}]}),
            ),
            healthy("Pod is ready"),
        ),
        (pod("", json!({"phase": "Running"})), unknown("Unrecognized restart policy \"\"")),
        (pod("Always", json!({"phase": "Unknown"})), unknown("Unrecognized pod phase \"Unknown\"")),
        (json!({}), unknown("Pod has no phase")),
        (
            pod("Always", json!({"containerStatuses": {}})),
            ExpectedResult::Error("field status.containerStatuses must be a list, found a map"),
        ),
    ];
    check("v1", "Pod", rows);
}

#[test]
fn a_failed_pod_says_why() {
    let ended = |terminated: Value| json!([{"name": "web", "state": {"terminated": terminated}}]);
    let rows = vec![
        (pod("Never", json!({"phase": "Failed", "message": "evicted: disk"})), degraded("evicted: disk")),
        (
            pod(
                "Never",
                json!({"phase": "Failed",
                "initContainerStatuses": ended(json!({"message": "no schema", "exitCode": 3})),
                "containerStatuses": ended(json!({"message": "later"}))}),
            ),
            degraded("no schema"),
        ),
        (
            pod(
                "Never",
                json!({"phase": "Failed",
                "initContainerStatuses": ended(json!({"exitCode": 0})),
                "containerStatuses": ended(json!({"reason": "OOMKilled", "exitCode": 137}))}),
            ),
            degraded("OOMKilled"),
        ),
        (
            pod("Never", json!({"phase": "Failed", "containerStatuses": ended(json!({"exitCode": 2}))})),
            degraded("container \"web\" failed with exit code 2"),
        ),
        (pod("Never", json!({"phase": "Failed", "reason": "Evicted"})), degraded("Evicted")),
        (pod("Never", json!({"phase": "Failed"})), degraded("Pod failed")),
    ];
    check("v1", "Pod", rows);
}
