//! HorizontalPodAutoscaler.

use serde_json::Value;
use tidegate_model::Object;

use crate::HealthError;
use crate::fields::{Condition, Node};
use crate::verdict::{Verdict, degraded, first_of, healthy, progressing, require_version};

/// Where `autoscaling/v1`, which has no conditions in its status, keeps them.
const CONDITIONS_V1: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// Reasons that mean scaling does not work, by condition type. The condition's status is not looked at.
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

pub(crate) fn pod_autoscaler(object: &Object) -> Verdict {
    // The betas of v2 have its conditions, and older servers have nothing newer.
    require_version(object, &["v1", "v2", "v2beta1", "v2beta2"], "autoscaling/v1 or autoscaling/v2")?;
    if object.gvk().version != "v1" {
        return judge(&Node::of(object).conditions()?);
    }
    let text = object.annotation(CONDITIONS_V1).unwrap_or_default();
    if text.is_empty() {
        return judge(&[]);
    }
    let invalid = |reason: String| HealthError::InvalidConditions { annotation: CONDITIONS_V1, reason };
    let parsed: Value = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
    let entries = match &parsed {
        Value::Null => &[],
        Value::Array(entries) => entries.as_slice(),
        _ => return Err(invalid("it is not a list".to_owned())),
    };
    let conditions: Vec<_> = entries
        .iter()
        .map(|entry| Node::at(entry, "conditions").condition())
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(error.to_string()))?;
    judge(&conditions)
}

fn judge(conditions: &[Condition<'_>]) -> Verdict {
    let fails = |condition: &&Condition<'_>| FAILURES.contains(&(condition.kind, condition.reason));
    if let Some(failure) = conditions.iter().find(fails) {
        return degraded(first_of(&[failure.message, failure.reason]));
    }
    let works =
        |condition: &&Condition<'_>| condition.is_true("AbleToScale") || condition.is_true("ScalingLimited");
    match conditions.iter().find(works) {
        Some(condition) => healthy(first_of(&[condition.message, condition.reason, condition.kind])),
        None => progressing("Waiting to Autoscale"),
    }
}
