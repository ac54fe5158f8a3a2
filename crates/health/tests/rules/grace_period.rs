//! Temporary failures: Progressing for a grace period, then Degraded.

use serde_json::{Value, json};
use tidegate_health::{HealthRules, assess, observe, review_annotations};
use tidegate_model::HealthStatus::{Degraded, Progressing};
use tidegate_model::{HealthStatus, Object, ObservedState};

use super::{at_noon, noon, object};

/// Returns an object created at one time of day, with a failing condition since another.
fn failing(api_version: &str, kind: &str, created: &str, condition: Value) -> Object {
    let fields = json!({
        "metadata": {"creationTimestamp": time(created)},
        "status": {"conditions": [condition]},
    });
    object(api_version, kind, fields)
}

fn time(of_day: &str) -> String {
    format!("2026-01-01T{of_day}Z")
}

fn metrics(reason: &str, since: &str) -> Value {
    json!({"type": "ScalingActive", "status": "False", "reason": reason, "message": "no metrics",
        "lastTransitionTime": time(since)})
}

fn scaler(created: &str, since: &str) -> Object {
    failing("autoscaling/v2", "HorizontalPodAutoscaler", created, metrics("FailedGetResourceMetric", since))
}

fn status(object: &Object) -> HealthStatus {
    at_noon(object).unwrap().unwrap().status
}

fn changes_at(object: &Object) -> Option<String> {
    HealthRules::built_in().health_changes_at(object, noon()).map(|at| at.to_string())
}

#[test]
fn missing_metrics_are_tolerated_after_a_creation_and_a_change() {
    // Columns: creation, start of the missing metrics, health, end of the grace period.
    for (created, since, expected, ends) in [
        ("11:59:30", "11:59:40", Progressing, Some("2026-01-01T12:04:40.000Z")),
        ("11:54:00", "11:54:10", Degraded, None),
        ("11:55:00", "11:55:00", Degraded, None),
        ("00:00:00", "11:58:00", Progressing, Some("2026-01-01T12:03:00.000Z")),
        // The cluster's clock is ahead.
        ("12:01:00", "12:01:00", Progressing, Some("2026-01-01T12:05:00.000Z")),
    ] {
        let scaler = scaler(created, since);
        assert_eq!((status(&scaler), changes_at(&scaler).as_deref()), (expected, ends), "{created} {since}");
        assert_eq!(at_noon(&scaler).unwrap().unwrap().message, "no metrics");
    }
    let unborn = object(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        json!({"status": {"conditions": [
        {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric", "message": "no"}]}}),
    );
    assert_eq!((status(&unborn), changes_at(&unborn)), (Progressing, None));
    assert_eq!(assess(&unborn).unwrap().unwrap().status, Progressing);
}

#[test]
fn a_change_of_the_spec_restarts_the_grace_period() {
    let mut changed = scaler("00:00:00", "00:00:10").as_value().clone();
    changed["metadata"]["managedFields"] = json!([
        {"manager": "tidegate", "operation": "Apply", "time": time("11:57:00"),
            "fieldsV1": "{\"f:spec\": {\"f:scaleTargetRef\": {}}}"},
        {"manager": "kubectl", "operation": "Update", "time": time("11:56:00"), "fieldsV1": {"f:spec": {}}},
        {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status",
            "time": time("11:59:59"), "fieldsV1": {"f:spec": {}, "f:status": {}}},
    ]);
    let changed = Object::try_from(changed).unwrap();
    assert_eq!(status(&changed), Progressing);
    assert_eq!(changes_at(&changed).as_deref(), Some("2026-01-01T12:02:00.000Z"));
}

#[test]
fn an_annotation_sets_the_grace_period() {
    let with = |grace: &str| {
        let mut scaler = scaler("11:50:00", "11:50:00");
        scaler.set_annotation("tidegate.dev/health-grace", grace);
        scaler
    };
    assert_eq!(
        (status(&with("15m")), changes_at(&with("15m")).as_deref()),
        (Progressing, Some("2026-01-01T12:05:00.000Z"))
    );
    assert_eq!(status(&with("9m")), Degraded);
    let mut none = scaler("12:00:00", "12:00:00");
    none.set_annotation("tidegate.dev/health-grace", "0s");
    assert_eq!((status(&none), changes_at(&none)), (Degraded, None));
    let invalid = with("soon");
    assert_eq!(status(&invalid), Degraded, "the default grace period applies");
    let said: Vec<_> = review_annotations(&invalid);
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].0, "invalid-health-grace");
    assert!(review_annotations(&with("15m")).is_empty());
}

#[test]
fn the_conditions_of_autoscaling_v1_count() {
    let conditions = json!([metrics("FailedGetResourceMetric", "11:59:00")]).to_string();
    let fields = json!({"metadata": {"creationTimestamp": time("00:00:00"),
        "annotations": {"autoscaling.alpha.kubernetes.io/conditions": conditions}}});
    let scaler = object("autoscaling/v1", "HorizontalPodAutoscaler", fields);
    assert_eq!(changes_at(&scaler).as_deref(), Some("2026-01-01T12:04:00.000Z"));
}

/// Non-final states of Kubernetes' own kinds.
#[test]
fn only_final_failures_are_degraded_immediately() {
    let failure = |kind: &str, reason: &str| {
        json!({"type": kind, "status": if kind == "ReplicaFailure" { "True" } else { "False" }, "reason": reason,
            "message": "no", "lastTransitionTime": time("11:59:00")})
    };
    for (version, kind, condition, expected) in [
        ("autoscaling/v2", "HorizontalPodAutoscaler", failure("AbleToScale", "FailedGetScale"), Progressing),
        ("autoscaling/v2", "HorizontalPodAutoscaler", failure("ScalingActive", "InvalidSelector"), Degraded),
        ("apps/v1", "ReplicaSet", failure("ReplicaFailure", "FailedCreate"), Progressing),
        ("policy/v1", "PodDisruptionBudget", failure("DisruptionAllowed", "SyncFailed"), Progressing),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            failure("NamesAccepted", "NamesConflict"),
            Degraded,
        ),
        ("batch/v1", "Job", failure("Failed", "BackoffLimitExceeded"), Degraded),
    ] {
        let mut young = failing(version, kind, "11:59:00", condition).as_value().clone();
        young["metadata"]["generation"] = 1.into();
        young["status"]["observedGeneration"] = 1.into();
        assert_eq!(status(&Object::try_from(young).unwrap()), expected, "{kind}");
    }
    let pod = |phase: &str, created: &str| {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
        let fields = json!({
            "metadata": {"creationTimestamp": time(created)},
            "spec": {"restartPolicy": "Always"},
            "status": {"phase": phase, "containerStatuses": [{"name": "web", "state": waiting}]},
        });
        object("v1", "Pod", fields)
    };
    assert_eq!(status(&pod("Running", "11:59:00")), Progressing);
    assert_eq!(status(&pod("Running", "11:50:00")), Degraded);
    assert_eq!(status(&pod("Failed", "11:59:00")), Degraded);
}

/// The health of an unchanged object changes when its grace period ends, so that a periodic read can end the
/// wave.
#[test]
fn an_observation_ends_with_the_grace_period() {
    let scaler = scaler("11:59:00", "11:59:00");
    let seen =
        |minutes: u64| match observe(&scaler, noon() + std::time::Duration::from_secs(60 * minutes)).seen {
            ObservedState::Present { health, .. } => health.unwrap().status,
            ObservedState::Gone { .. } => panic!("it is there"),
        };
    assert_eq!([seen(0), seen(3), seen(4)], [Progressing, Progressing, Degraded]);
}
