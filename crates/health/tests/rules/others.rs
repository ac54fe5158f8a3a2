use serde_json::{Value, json};

use crate::{ExpectedResult, check, degraded, healthy, progressing, suspended, unknown};

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

fn with(conditions: &[Value]) -> Value {
    json!({"status": {"conditions": conditions}})
}

#[test]
fn volume_claim() {
    let rows = vec![
        (
            json!({"spec": {"volumeName": "disk-1"}, "status": {"phase": "Bound"}}),
            healthy("Bound to volume disk-1"),
        ),
        (json!({"status": {"phase": "Pending"}}), progressing("Waiting for a volume")),
        (
            json!({"spec": {"volumeName": "disk-1"}, "status": {"phase": "Lost"}}),
            degraded("Volume disk-1 is lost"),
        ),
        (json!({"status": {"phase": "Odd"}}), unknown("Unrecognized claim phase \"Odd\"")),
        (json!({}), unknown("Claim has no phase")),
    ];
    check("v1", "PersistentVolumeClaim", rows);
}

#[test]
fn service_and_ingress() {
    let balanced = |entries: Value| json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": entries}}});
    let rows = vec![
        (json!({}), healthy("Service needs no load balancer")),
        (json!({"spec": {"type": "ClusterIP"}}), healthy("Service needs no load balancer")),
        (
            json!({"spec": {"type": "LoadBalancer"}}),
            progressing("Waiting for the load balancer to get an address"),
        ),
        (balanced(json!([])), progressing("Waiting for the load balancer to get an address")),
        (balanced(json!([{}])), healthy("1 address")),
        (
            balanced(json!("10.0.0.1")),
            ExpectedResult::Error("field status.loadBalancer.ingress must be a list, found a string"),
        ),
    ];
    check("v1", "Service", rows);
    for version in ["networking.k8s.io/v1", "networking.k8s.io/v1beta1", "extensions/v1beta1"] {
        let rows = vec![
            (json!({}), progressing("Waiting for an ingress controller to assign an address")),
            (
                json!({"status": {"loadBalancer": {"ingress": [{}, {"ip": "10.0.0.1"}]}}}),
                healthy("2 addresses"),
            ),
            (
                json!({"status": {"loadBalancer": 1}}),
                ExpectedResult::Error("field status.loadBalancer must be a map, found a number"),
            ),
        ];
        check(version, "Ingress", rows);
    }
}

#[test]
fn pod_autoscaler() {
    let mut rows = vec![
        (json!({}), progressing("Waiting to Autoscale")),
        (with(&[condition("AbleToScale", "True", "ReadyForNewScale", "ready")]), healthy("ready")),
        (
            with(&[condition("ScalingLimited", "True", "TooFewReplicas", "at the minimum")]),
            healthy("at the minimum"),
        ),
        (with(&[condition("AbleToScale", "False", "BackoffBoth", "")]), progressing("Waiting to Autoscale")),
        (
            with(&[condition("ScalingActive", "True", "ValidMetricFound", "")]),
            progressing("Waiting to Autoscale"),
        ),
    ];
    for (kind, reason) in [
        ("AbleToScale", "FailedGetScale"),
        ("AbleToScale", "FailedUpdateScale"),
        ("ScalingActive", "FailedGetResourceMetric"),
        ("ScalingActive", "FailedGetObjectMetric"),
        ("ScalingActive", "FailedGetPodsMetric"),
        ("ScalingActive", "FailedGetExternalMetric"),
        ("ScalingActive", "FailedComputeMetricsReplicas"),
        ("ScalingActive", "InvalidSelector"),
    ] {
        // A failure takes precedence over a working condition, whatever the failing condition's status.
        let works = condition("ScalingLimited", "True", "", "");
        rows.push((with(&[works, condition(kind, "True", reason, "no")]), degraded("no")));
    }
    for version in ["autoscaling/v2", "autoscaling/v2beta1", "autoscaling/v2beta2"] {
        check(version, "HorizontalPodAutoscaler", rows.clone());
    }
    let other = "no health rule for autoscaling/v3 HorizontalPodAutoscaler: \
        only autoscaling/v1 or autoscaling/v2 is supported";
    check("autoscaling/v3", "HorizontalPodAutoscaler", vec![(json!({}), ExpectedResult::Error(other))]);
}

#[test]
fn pod_autoscaler_v1_keeps_conditions_in_an_annotation() {
    let annotated = |text: &str| json!({"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/conditions": text}}});
    let rows = vec![
        (json!({}), progressing("Waiting to Autoscale")),
        (annotated(""), progressing("Waiting to Autoscale")),
        (annotated("[]"), progressing("Waiting to Autoscale")),
        (annotated(r#"[{"type":"AbleToScale","status":"True","message":"ready"}]"#), healthy("ready")),
        (annotated(r#"[{"type":"AbleToScale","reason":"FailedGetScale"}]"#), degraded("FailedGetScale")),
        (
            annotated("{}"),
            ExpectedResult::Error(
                "the autoscaling.alpha.kubernetes.io/conditions annotation must be a list of conditions in \
                 JSON: the value is not a list",
            ),
        ),
        (
            annotated("oops"),
            ExpectedResult::Error(
                "the autoscaling.alpha.kubernetes.io/conditions annotation must be a list of conditions in \
                 JSON: expected value at line 1 column 1",
            ),
        ),
    ];
    check("autoscaling/v1", "HorizontalPodAutoscaler", rows);
}

#[test]
fn disruption_budget() {
    let allowed = |status, reason| with(&[condition("DisruptionAllowed", status, reason, "")]);
    let rows = vec![
        (json!({}), progressing("Waiting for the controller to observe the PodDisruptionBudget")),
        (allowed("True", "SufficientPods"), healthy("0 disruptions allowed")),
        (allowed("False", "InsufficientPods"), healthy("0 disruptions allowed")),
        (allowed("False", "SyncFailed"), degraded("SyncFailed")),
    ];
    check("policy/v1", "PodDisruptionBudget", rows.clone());
    check("policy/v1beta1", "PodDisruptionBudget", rows);
    // Servers with only the beta version don't write conditions.
    let seen = |observed: i64| json!({"metadata": {"generation": 2}, "status": {"observedGeneration": observed, "disruptionsAllowed": 1}});
    let waiting = progressing("Waiting for the controller to observe the PodDisruptionBudget");
    check(
        "policy/v1beta1",
        "PodDisruptionBudget",
        vec![(seen(2), healthy("1 disruptions allowed")), (seen(1), waiting)],
    );
    check("policy/v1", "PodDisruptionBudget", vec![(seen(2), waiting)]);
}

#[test]
fn definition() {
    let established = |status, reason| condition("Established", status, reason, "");
    let named = condition("NamesAccepted", "True", "NoConflicts", "");
    let rows = vec![
        (json!({}), progressing("Waiting for the kind to be established")),
        (with(std::slice::from_ref(&named)), progressing("Waiting for the kind to be established")),
        (with(&[established("False", "Installing")]), progressing("Waiting for the kind to be established")),
        (with(&[established("False", "NotAccepted")]), degraded("Kind is not established: NotAccepted")),
        (with(&[named, established("True", "InitialNamesAccepted")]), healthy("Kind is served")),
        (
            with(&[established("True", ""), condition("Terminating", "True", "", "clearing")]),
            progressing("Definition is being deleted: clearing"),
        ),
        (
            with(&[established("True", ""), condition("NamesAccepted", "False", "", "plural taken")]),
            degraded("Names are not accepted: plural taken"),
        ),
        (
            with(&[established("True", ""), condition("NonStructuralSchema", "True", "Violations", "")]),
            degraded("Schema is not structural: Violations"),
        ),
    ];
    check("apiextensions.k8s.io/v1", "CustomResourceDefinition", rows);
}

#[test]
fn api_service() {
    let available = |status| with(&[condition("Available", status, "Checked", "answers")]);
    for version in ["apiregistration.k8s.io/v1", "apiregistration.k8s.io/v1beta1"] {
        let rows = vec![
            (json!({}), progressing("Waiting to be processed")),
            (available("True"), healthy("Checked: answers")),
            (available("False"), progressing("Checked: answers")),
        ];
        check(version, "APIService", rows);
    }
}

#[test]
fn workflow() {
    let phase = |phase: &str, message: &str| json!({"status": {"phase": phase, "message": message}});
    let rows = vec![
        (json!({}), progressing("Waiting for the workflow to start")),
        (phase("Pending", ""), progressing("Waiting for the workflow to start")),
        (phase("Running", "step 2"), progressing("step 2")),
        (phase("Succeeded", ""), healthy("Workflow succeeded")),
        (phase("Failed", "step 3 failed"), degraded("step 3 failed")),
        (phase("Error", ""), degraded("Workflow ended in an error")),
        (phase("Odd", ""), unknown("Unrecognized workflow phase \"Odd\"")),
    ];
    check("argoproj.io/v1alpha1", "Workflow", rows);
}

#[test]
fn rollout() {
    let seen = |phase: &str| json!({"metadata": {"generation": 2}, "status": {"observedGeneration": "2", "phase": phase}});
    let counts = |updated: i64, available: i64| {
        json!({"spec": {"replicas": 2}, "status": {"observedGeneration": "6b8f", "updatedReplicas": updated,
            "availableReplicas": available, "currentPodHash": "b"}})
    };
    let rows = vec![
        (seen("Healthy"), healthy("Rollout is healthy")),
        (seen("Paused"), suspended("Rollout is paused")),
        (seen("Degraded"), degraded("Rollout failed")),
        (seen("Progressing"), progressing("Waiting for rollout")),
        (seen("Odd"), unknown("Unrecognized rollout phase \"Odd\"")),
        (json!({"spec": {"paused": true}}), suspended("Rollout is paused")),
        (
            json!({"status": {"pauseConditions": [{"reason": "CanaryPauseStep"}], "message": "CanaryPauseStep"}}),
            suspended("CanaryPauseStep"),
        ),
        (
            json!({"metadata": {"generation": 3}, "status": {"observedGeneration": "2", "phase": "Healthy"}}),
            progressing("Waiting for the controller to observe generation 3"),
        ),
        (with(&[condition("InvalidSpec", "True", "", "no strategy")]), degraded("no strategy")),
        (counts(1, 1), progressing("Waiting for rollout: 1 of 2 replicas updated")),
        (counts(2, 1), progressing("Waiting for rollout: 1 of 2 replicas available")),
        (counts(2, 2), healthy("2 of 2 replicas available")),
    ];
    check("argoproj.io/v1alpha1", "Rollout", rows);
}

#[test]
fn application_set() {
    let rows = vec![
        (json!({}), progressing("Waiting for the status to be reported")),
        (with(&[condition("ErrorOccurred", "True", "", "bad template")]), degraded("bad template")),
        (
            with(&[condition("ResourcesUpToDate", "False", "", "")]),
            degraded("Applications are not up to date"),
        ),
        (
            with(&[
                condition("ResourcesUpToDate", "True", "", ""),
                condition("RolloutProgressing", "True", "", "rollout of step 2"),
            ]),
            progressing("rollout of step 2"),
        ),
        (with(&[condition("ResourcesUpToDate", "True", "", "all generated")]), healthy("all generated")),
    ];
    check("argoproj.io/v1alpha1", "ApplicationSet", rows);
}
