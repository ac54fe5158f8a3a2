use serde_json::json;

use crate::{ExpectedResult, check, degraded, healthy, progressing, suspended};

#[test]
fn deployment() {
    let done = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3});
    let late = json!([{"type": "Progressing", "status": "True", "reason": "ProgressDeadlineExceeded"}]);
    let rows = vec![
        (json!({"spec": {"paused": true}}), suspended("Deployment is paused")),
        (
            json!({"metadata": {"generation": 3}, "spec": {"replicas": 3}, "status": done}),
            progressing("Waiting for the controller to observe generation 3; it has observed generation 2"),
        ),
        (
            json!({"metadata": {"generation": 1}}),
            progressing("Waiting for the controller to observe generation 1; it has observed generation 0"),
        ),
        (
            json!({"spec": {"replicas": 3}, "status": {"conditions": late}}),
            degraded("Deployment \"x\" exceeded its progress deadline"),
        ),
        (
            json!({"metadata": {"generation": 1}, "status": {"conditions": late}}),
            progressing("Waiting for the controller to observe generation 1; it has observed generation 0"),
        ),
        (
            json!({"spec": {"replicas": 3}, "status": {"replicas": 3, "updatedReplicas": 1}}),
            progressing("Waiting for rollout: 1 of 3 replicas updated"),
        ),
        (
            json!({"spec": {"replicas": 3}, "status": {"replicas": 4, "updatedReplicas": 3}}),
            progressing("Waiting for rollout: 1 old replicas pending termination"),
        ),
        (
            json!({"spec": {"replicas": 3}, "status": {"replicas": 3, "updatedReplicas": 3, "availableReplicas": 1}}),
            progressing("Waiting for rollout: 1 of 3 replicas available"),
        ),
        (
            json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": done}),
            healthy("3 of 3 replicas available"),
        ),
        (json!({"spec": {"replicas": 0}}), healthy("0 of 0 replicas available")),
        (json!({}), healthy("0 of 0 replicas available")),
        (
            json!({"spec": {"replicas": "3"}}),
            ExpectedResult::Error("field spec.replicas must be a whole number, found a string"),
        ),
        (json!({"status": []}), ExpectedResult::Error("field status must be a map, found a list")),
        (
            json!({"status": {"conditions": [{"type": 1}]}}),
            ExpectedResult::Error("field status.conditions[].type must be a string, found a number"),
        ),
        (
            json!({"status": {"conditions": [7]}}),
            ExpectedResult::Error("field status.conditions[] must be a map, found a number"),
        ),
    ];
    check("apps/v1", "Deployment", rows);
}

#[test]
fn replica_set() {
    let failing =
        |status: &str| json!([{"type": "ReplicaFailure", "status": status, "message": "quota exceeded"}]);
    let rows = vec![
        (
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}),
            progressing("Waiting for the controller to observe generation 2; it has observed generation 1"),
        ),
        (json!({"status": {"conditions": failing("True")}}), degraded("quota exceeded")),
        (json!({"status": {"conditions": failing("False")}}), healthy("0 replicas available")),
        (
            json!({"spec": {"replicas": 2}, "status": {"availableReplicas": 1}}),
            progressing("Waiting for rollout: 1 of 2 replicas available"),
        ),
        (
            json!({"spec": {"replicas": 2}, "status": {"availableReplicas": 2}}),
            healthy("2 replicas available"),
        ),
        (json!({"status": {"availableReplicas": 1}}), healthy("1 replicas available")),
    ];
    check("apps/v1", "ReplicaSet", rows);
}

#[test]
fn stateful_set() {
    let strategy = |kind: &str| json!({"type": kind});
    let partition = |below: i64| json!({"type": "RollingUpdate", "rollingUpdate": {"partition": below}});
    let status = |ready: i64, updated: i64, newest: &str| {
        json!({"observedGeneration": 1, "readyReplicas": ready, "updatedReplicas": updated,
            "currentRevision": "a", "updateRevision": newest})
    };
    let rows = vec![
        (json!({}), progressing("Waiting for the controller to observe the StatefulSet")),
        (
            json!({"metadata": {"generation": 2}, "status": status(3, 3, "a")}),
            progressing("Waiting for the controller to observe generation 2; it has observed generation 1"),
        ),
        (
            json!({"spec": {"replicas": 3}, "status": status(1, 3, "a")}),
            progressing("Waiting for rollout: 1 of 3 replicas ready"),
        ),
        (
            json!({"spec": {"replicas": 3, "updateStrategy": partition(1)}, "status": status(3, 1, "b")}),
            progressing("Waiting for partitioned rollout: 1 of 2 replicas updated"),
        ),
        (
            json!({"spec": {"replicas": 3, "updateStrategy": partition(1)}, "status": status(3, 2, "b")}),
            healthy("3 replicas ready, 2 updated"),
        ),
        (
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
                "status": status(1, 0, "b")}),
            healthy("1 replicas ready, 0 updated"),
        ),
        (
            json!({"spec": {"replicas": 3, "updateStrategy": strategy("OnDelete")}, "status": status(3, 0, "b")}),
            healthy("3 replicas ready"),
        ),
        (
            json!({"spec": {"replicas": 3, "updateStrategy": strategy("RollingUpdate")}, "status": status(3, 2, "b")}),
            progressing("Waiting for rollout: 2 replicas at revision b"),
        ),
        (json!({"spec": {"replicas": 3}, "status": status(3, 3, "a")}), healthy("3 replicas ready")),
    ];
    check("apps/v1", "StatefulSet", rows);
}

#[test]
fn daemon_set() {
    let status = |desired: i64, updated: i64, available: i64| {
        json!({"observedGeneration": 1, "desiredNumberScheduled": desired, "updatedNumberScheduled": updated,
            "numberAvailable": available})
    };
    let rows = vec![
        (
            json!({"metadata": {"generation": 2}, "status": status(1, 1, 1)}),
            progressing("Waiting for the controller to observe generation 2; it has observed generation 1"),
        ),
        (
            json!({"spec": {"updateStrategy": {"type": "OnDelete"}}, "status": status(4, 0, 2)}),
            healthy("2 of 4 nodes available"),
        ),
        (json!({"status": status(4, 3, 4)}), progressing("Waiting for rollout: 3 of 4 nodes updated")),
        (json!({"status": status(4, 4, 3)}), progressing("Waiting for rollout: 3 of 4 nodes available")),
        (json!({"status": status(4, 4, 4)}), healthy("4 of 4 nodes available")),
    ];
    check("apps/v1", "DaemonSet", rows);
}

#[test]
fn other_versions_are_unsupported() {
    for kind in ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"] {
        let text = match kind {
            "Deployment" => "no health rule for apps/v1beta1 Deployment: only apps/v1 is supported",
            "ReplicaSet" => "no health rule for apps/v1beta1 ReplicaSet: only apps/v1 is supported",
            "StatefulSet" => "no health rule for apps/v1beta1 StatefulSet: only apps/v1 is supported",
            _ => "no health rule for apps/v1beta1 DaemonSet: only apps/v1 is supported",
        };
        check("apps/v1beta1", kind, vec![(json!({}), ExpectedResult::Error(text))]);
    }
}
