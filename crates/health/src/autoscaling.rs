//! HorizontalPodAutoscaler.

use serde_json::Value;
use tidegate_model::Object;

use crate::HealthError;
use crate::fields::{Condition, Node};
use crate::verdict::{Verdict, degraded, first_non_blank, healthy, progressing, require_version};

/// Annotation for the conditions in `autoscaling/v1`, which has none in its status.
const CONDITIONS_V1: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// Pairs of a condition type and a reason that mean that scaling doesn't work, whatever the condition's
/// status.
const FAILURES: [(&str, &str); 8] = [
    ("AbleToScale", "FailedGetScale"),
    ("AbleToScale", "FailedUpdateScale"),
    ("ScalingActive", "FailedGetResourceMetric"),
    ("ScalingActive", "FailedGetObjectMetric"),
    ("ScalingActive", "FailedGetPodsMetric"),
    ("ScalingActive", "FailedGetExternalMetric"),
    ("ScalingActive", "FailedComputeMetricsReplicas"),
    ("ScalingActive", "InvalidSelector"),
];

/// Returns the conditions of an `autoscaling/v1` object.
pub(crate) fn conditions_v1(object: &Object) -> Option<Value> {
    serde_json::from_str(object.annotation(CONDITIONS_V1)?).ok()
}

/// Returns true if the autoscaler is failing for a reason unrelated to metrics.
pub(crate) fn is_invalid(object: &Object) -> bool {
    let of_v1 = conditions_v1(object);
    let conditions = object.pointer("/status/conditions").into_iter().chain(&of_v1);
    let mut all = conditions.filter_map(Value::as_array).flatten();
    all.any(|condition| condition.get("reason").and_then(Value::as_str) == Some("InvalidSelector"))
}

pub(crate) fn pod_autoscaler(object: &Object) -> Verdict {
    // The v2 beta versions have the same conditions, and older servers offer nothing newer.
    require_version(object, &["v1", "v2", "v2beta1", "v2beta2"], "autoscaling/v1 or autoscaling/v2")?;
    if object.gvk().version != "v1" {
        return assess_conditions(&Node::for_object(object).conditions()?);
    }
    let text = object.annotation(CONDITIONS_V1).unwrap_or_default();
    if text.is_empty() {
        return assess_conditions(&[]);
    }
    let invalid = |reason: String| HealthError::InvalidConditions { annotation: CONDITIONS_V1, reason };
    let parsed: Value = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
    let entries = match &parsed {
        Value::Null => &[],
        Value::Array(entries) => entries.as_slice(),
        _ => return Err(invalid("the value is not a list".to_owned())),
    };
    let conditions: Vec<_> = entries
        .iter()
        .map(|entry| Node::at(entry, "conditions").as_condition())
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(error.to_string()))?;
    assess_conditions(&conditions)
}

fn assess_conditions(conditions: &[Condition<'_>]) -> Verdict {
    let fails = |condition: &&Condition<'_>| FAILURES.contains(&(condition.kind, condition.reason));
    if let Some(failure) = conditions.iter().find(fails) {
        return degraded(first_non_blank(&[failure.message, failure.reason]));
    }
    let works =
        |condition: &&Condition<'_>| condition.is_true("AbleToScale") || condition.is_true("ScalingLimited");
    match conditions.iter().find(works) {
        Some(condition) => healthy(first_non_blank(&[condition.message, condition.reason, condition.kind])),
        None => progressing("Waiting to Autoscale"),
    }
}
