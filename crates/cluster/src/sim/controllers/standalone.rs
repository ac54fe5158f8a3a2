//! The controller for kinds without dependents, which sets a healthy status after the configured time.

use serde_json::{Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use crate::sim::SimState;
use crate::sim::behavior::Outcome;
use crate::sim::json::{build_condition, digest};

/// State of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The object is not ready yet and may never become ready.
    Pending,
    /// The object is in its desired state.
    Ready,
    /// The object has failed permanently.
    Failed,
}

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?;
    let object = stored.object.clone();
    if object.is_deleting() {
        return None;
    }
    let behavior = state.behavior_of(stored);
    let at = stored.created_at + behavior.ready_after.unwrap_or(state.config.ready_after);
    let readiness = Readiness::from_outcome(behavior.outcome, at <= state.now);
    if let Some(status) = standalone_status(&object, readiness, &state.timestamp()) {
        if readiness == Readiness::Ready
            && key.kind == "PersistentVolumeClaim"
            && object.text("/spec/volumeName").is_empty()
        {
            bind_claim(state, key, &object);
        }
        state.set_status(key, status);
    }
    Some(at).filter(|at| *at > state.now)
}

impl Readiness {
    /// Returns the state of an object. `done` is true once the object's `ready-after` time has passed.
    pub fn from_outcome(outcome: Option<Outcome>, done: bool) -> Self {
        match outcome {
            _ if !done => Self::Pending,
            None | Some(Outcome::StuckDeleting) => Self::Ready,
            Some(Outcome::NeverReady) => Self::Pending,
            Some(Outcome::Fail | Outcome::CrashLoop) => Self::Failed,
        }
    }
}

/// Returns the status of a PersistentVolumeClaim, Service, Ingress, PodDisruptionBudget,
/// HorizontalPodAutoscaler or APIService. `None` leaves the status unchanged.
pub fn standalone_status(object: &Object, readiness: Readiness, now: &str) -> Option<Value> {
    match (object.kind(), readiness) {
        ("PersistentVolumeClaim", Readiness::Pending) => Some(json!({"phase": "Pending"})),
        ("PersistentVolumeClaim", Readiness::Failed) => Some(json!({"phase": "Lost"})),
        ("PersistentVolumeClaim", Readiness::Ready) => {
            let capacity = object.pointer("/spec/resources/requests").cloned().unwrap_or_else(|| json!({}));
            Some(
                json!({"phase": "Bound", "accessModes": object.pointer("/spec/accessModes"), "capacity": capacity}),
            )
        }
        ("Service", Readiness::Ready) if object.text("/spec/type") == "LoadBalancer" => {
            Some(external_address(object))
        }
        ("Ingress", Readiness::Ready) => Some(external_address(object)),
        ("Service" | "Ingress", _) => Some(json!({"loadBalancer": {}})),
        ("PodDisruptionBudget", readiness) => Some(budget_status(object, readiness, now)),
        ("HorizontalPodAutoscaler", Readiness::Pending) => None,
        ("HorizontalPodAutoscaler", readiness) => Some(autoscaler_status(object, readiness, now)),
        ("APIService", Readiness::Pending) => None,
        ("APIService", readiness) => {
            let (word, reason) = if readiness == Readiness::Ready {
                ("True", "Passed")
            } else {
                ("False", "FailedDiscoveryCheck")
            };
            Some(json!({"conditions": [build_condition(object, "Available", word, reason, "", now)]}))
        }
        _ => None,
    }
}

/// Returns the external address of a Service or an Ingress.
fn external_address(object: &Object) -> Value {
    let number = digest(&Value::from(object.uid()));
    json!({"loadBalancer": {"ingress": [{"ip": format!("203.0.113.{}", 1 + number % 254)}]}})
}

fn bind_claim(state: &mut SimState, key: &ObjectKey, claim: &Object) {
    let mut bound = claim.clone();
    bound.section_mut("spec").insert("volumeName".to_owned(), format!("pvc-{}", claim.uid()).into());
    state.update(key, bound, false);
}

fn budget_status(object: &Object, readiness: Readiness, now: &str) -> Value {
    let (word, reason) = match readiness {
        Readiness::Ready => ("True", "SufficientPods"),
        Readiness::Pending => ("False", "InsufficientPods"),
        Readiness::Failed => ("False", "SyncFailed"),
    };
    let allowed = i32::from(readiness == Readiness::Ready);
    json!({
        "observedGeneration": object.generation(),
        "disruptionsAllowed": allowed, "currentHealthy": allowed, "desiredHealthy": 0, "expectedPods": allowed,
        "conditions": [build_condition(object, "DisruptionAllowed", word, reason, "", now)],
    })
}

fn autoscaler_status(object: &Object, readiness: Readiness, now: &str) -> Value {
    let replicas = object.integer("/spec/minReplicas").unwrap_or(1);
    let (word, reason, message) = if readiness == Readiness::Ready {
        ("True", "ReadyForNewScale", "recommended size matches current size")
    } else {
        ("False", "FailedGetScale", "the HPA controller was unable to get the target's current scale")
    };
    let mut conditions = vec![build_condition(object, "AbleToScale", word, reason, message, now)];
    if readiness == Readiness::Ready {
        let message = "the HPA was able to successfully calculate a replica count";
        conditions.push(build_condition(object, "ScalingActive", "True", "ValidMetricFound", message, now));
    }
    json!({"currentReplicas": replicas, "desiredReplicas": replicas, "conditions": conditions})
}
