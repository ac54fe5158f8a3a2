//! Grace period for failures that are part of a normal start, such as missing metrics. The object is
//! Progressing during the period, and Degraded after it.

use std::time::Duration;

use serde_json::Value;
use tidegate_model::annotations::HEALTH_GRACE;
use tidegate_model::{Health, HealthStatus, Object, Timestamp, managed_fields, parse_duration};

use crate::autoscaling;

/// Grace period for an object without [`HEALTH_GRACE`].
const GRACE_PERIOD_DEFAULT: Duration = Duration::from_secs(300);

/// Returns true if the kind's built-in rule may return Degraded for a state that isn't final.
pub(crate) fn has_grace_period(object: &Object) -> bool {
    match (object.group(), object.kind()) {
        ("autoscaling", "HorizontalPodAutoscaler") => !autoscaling::is_invalid(object),
        // A pod's containers are restarted until the pod has failed.
        ("", "Pod") => object.text("/status/phase") != "Failed",
        ("apps", "ReplicaSet") | ("policy", "PodDisruptionBudget") => true,
        _ => false,
    }
}

/// Changes Degraded to Progressing during the grace period, and returns the end of the period if known.
///
/// The period starts when the object is created, its spec changes or the failing condition changes, whichever
/// comes last. If none of these times is known, the object hasn't been created yet.
pub(crate) fn apply_grace_period(object: &Object, health: &mut Health, now: Timestamp) -> Option<Timestamp> {
    let period = object
        .annotation(HEALTH_GRACE)
        .and_then(|text| parse_duration(text).ok())
        .unwrap_or(GRACE_PERIOD_DEFAULT);
    if health.status != HealthStatus::Degraded || period.is_zero() {
        return None;
    }
    // The cluster's clock may be ahead of ours.
    let ends = failure_start(object, &health.message).map(|began| began.min(now) + period);
    if ends.is_none_or(|ends| ends > now) {
        health.status = HealthStatus::Progressing;
        return ends;
    }
    None
}

fn failure_start(object: &Object, message: &str) -> Option<Timestamp> {
    let text = |value: &Value, field: &str| value.get(field)?.as_str().map(str::to_owned);
    let of_autoscaling_v1 = autoscaling::conditions_v1(object);
    let conditions = object.pointer("/status/conditions").into_iter().chain(&of_autoscaling_v1);
    let failing = conditions.filter_map(Value::as_array).flatten().filter(|condition| {
        let says = |field| text(condition, field).is_some_and(|found| found == message);
        says("message") || says("reason")
    });
    // A field manager's entry has the time of its last change.
    let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let of_spec = managers.filter(|entry| {
        entry.get("subresource").is_none()
            && managed_fields(entry).is_some_and(|fields| fields.contains_key("f:spec"))
    });
    let changed = failing
        .filter_map(|condition| text(condition, "lastTransitionTime"))
        .chain(of_spec.filter_map(|entry| text(entry, "time")));
    let created = object.text("/metadata/creationTimestamp").to_owned();
    changed.chain([created]).filter_map(|time| time.parse().ok()).max()
}
