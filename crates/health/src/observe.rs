use serde_json::Value;
use tidegate_model::{Evidence, Health, Object, Observation, Observed, Timestamp};

use crate::HealthError;
use crate::assess::assess;

/// What proves that the object's status speaks about the newest spec.
///
/// - Kinds whose controllers write the generation they have seen: that generation, 0 while they have written none.
/// - Kinds whose status is about this very object and not about a version of its spec (a Job runs one template, a
///   claim is bound once): identity.
/// - Any other kind: the generation if its status names one; identity while the object has had a single spec
///   (generation 1); else nothing, and only time can settle it.
///
/// Evidence says whether to *believe* a verdict. For a kind without a health rule there is no verdict to believe, and
/// the value returned here means nothing: a gate must not wait for it.
pub fn evidence(object: &Object) -> Evidence {
    let observed = observed_generation(object);
    match (object.group(), object.kind()) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("policy", "PodDisruptionBudget") => Evidence::ObservedGeneration(observed.unwrap_or(0)),
        ("batch", "Job" | "CronJob")
        | ("", "Pod" | "PersistentVolumeClaim" | "Service")
        | ("networking.k8s.io" | "extensions", "Ingress")
        | ("argoproj.io", "Workflow") => Evidence::Identity,
        _ => match observed {
            Some(generation) => Evidence::ObservedGeneration(generation),
            None if object.generation() == 1 => Evidence::Identity,
            None => Evidence::None,
        },
    }
}

/// What the operation's state machine is told of an object seen at a moment, by the built-in rules:
/// [`HealthRules::observe`](crate::HealthRules::observe) without scripts.
pub fn observe(object: &Object, at: Timestamp) -> Observation {
    present(object, at, assess(object))
}

/// An object with its verdict, as the state machine is told.
pub(crate) fn present(
    object: &Object,
    at: Timestamp,
    verdict: Option<Result<Health, HealthError>>,
) -> Observation {
    let unjudged = match &verdict {
        None | Some(Ok(_)) => false,
        Some(Err(error)) => !matches!(error, HealthError::NoStatus { .. }),
    };
    let seen = Observed::Present {
        uid: object.uid().to_owned(),
        resource_version: object.resource_version().to_owned(),
        generation: object.generation(),
        deleting: object.is_deleting(),
        health: verdict.map(|verdict| verdict.unwrap_or_else(Health::from)),
        unjudged,
        evidence: evidence(object),
    };
    Observation { at, seen }
}

/// `status.observedGeneration`; some controllers write it as a text.
fn observed_generation(object: &Object) -> Option<i64> {
    match object.pointer("/status/observedGeneration")? {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}
