//! Kinds without children: after a while their status says that they work.

use serde_json::{Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use crate::sim::SimState;
use crate::sim::behaviour::Outcome;
use crate::sim::json::{condition, digest};

/// How an object turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Not yet, or never.
    Waiting,
    /// It has become what it is to be.
    Good,
    /// It has become what it must not be, and stays so.
    Bad,
}

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?;
    let object = stored.object.clone();
    if object.is_deleting() {
        return None;
    }
    let behaviour = state.behaviour(stored);
    let at = stored.created_at + behaviour.ready_after.unwrap_or(state.config.ready_after);
    let turn = Turn::of(behaviour.outcome, at <= state.now);
    if let Some(status) = settled_status(&object, turn, &state.timestamp()) {
        if turn == Turn::Good
            && key.kind == "PersistentVolumeClaim"
            && object.text("/spec/volumeName").is_empty()
        {
            bind(state, key, &object);
        }
        state.set_status(key, status);
    }
    Some(at).filter(|at| *at > state.now)
}

impl Turn {
    /// How an object turns out, before and after its time.
    pub fn of(outcome: Option<Outcome>, done: bool) -> Self {
        match outcome {
            _ if !done => Self::Waiting,
            None | Some(Outcome::StuckDeleting) => Self::Good,
            Some(Outcome::NeverReady) => Self::Waiting,
            Some(Outcome::Fail | Outcome::CrashLoop) => Self::Bad,
        }
    }
}

/// The status that is written for a claim, a Service, an Ingress, a budget, an autoscaler or an API service; `None`
/// leaves it as it is.
pub fn settled_status(object: &Object, turn: Turn, now: &str) -> Option<Value> {
    match (object.kind(), turn) {
        ("PersistentVolumeClaim", Turn::Waiting) => Some(json!({"phase": "Pending"})),
        ("PersistentVolumeClaim", Turn::Bad) => Some(json!({"phase": "Lost"})),
        ("PersistentVolumeClaim", Turn::Good) => {
            let capacity = object.pointer("/spec/resources/requests").cloned().unwrap_or_else(|| json!({}));
            Some(
                json!({"phase": "Bound", "accessModes": object.pointer("/spec/accessModes"), "capacity": capacity}),
            )
        }
        ("Service", Turn::Good) if object.text("/spec/type") == "LoadBalancer" => Some(entry(object)),
        ("Ingress", Turn::Good) => Some(entry(object)),
        ("Service" | "Ingress", _) => Some(json!({"loadBalancer": {}})),
        ("PodDisruptionBudget", turn) => Some(budget(object, turn, now)),
        ("HorizontalPodAutoscaler", Turn::Waiting) => None,
        ("HorizontalPodAutoscaler", turn) => Some(autoscaler(object, turn, now)),
        ("APIService", Turn::Waiting) => None,
        ("APIService", turn) => {
            let (word, reason) =
                if turn == Turn::Good { ("True", "Passed") } else { ("False", "FailedDiscoveryCheck") };
            Some(json!({"conditions": [condition(object, "Available", word, reason, "", now)]}))
        }
        _ => None,
    }
}

/// The address at which the world reaches a Service or an Ingress.
fn entry(object: &Object) -> Value {
    let number = digest(&Value::from(object.uid()));
    json!({"loadBalancer": {"ingress": [{"ip": format!("203.0.113.{}", 1 + number % 254)}]}})
}

fn bind(state: &mut SimState, key: &ObjectKey, claim: &Object) {
    let mut bound = claim.clone();
    bound.section_mut("spec").insert("volumeName".to_owned(), format!("pvc-{}", claim.uid()).into());
    state.update(key, bound, false);
}

fn budget(object: &Object, turn: Turn, now: &str) -> Value {
    let (word, reason) = match turn {
        Turn::Good => ("True", "SufficientPods"),
        Turn::Waiting => ("False", "InsufficientPods"),
        Turn::Bad => ("False", "SyncFailed"),
    };
    let allowed = i32::from(turn == Turn::Good);
    json!({
        "observedGeneration": object.generation(),
        "disruptionsAllowed": allowed, "currentHealthy": allowed, "desiredHealthy": 0, "expectedPods": allowed,
        "conditions": [condition(object, "DisruptionAllowed", word, reason, "", now)],
    })
}

fn autoscaler(object: &Object, turn: Turn, now: &str) -> Value {
    let replicas = object.integer("/spec/minReplicas").unwrap_or(1);
    let (word, reason, message) = if turn == Turn::Good {
        ("True", "ReadyForNewScale", "recommended size matches current size")
    } else {
        ("False", "FailedGetScale", "the HPA controller was unable to get the target's current scale")
    };
    let mut conditions = vec![condition(object, "AbleToScale", word, reason, message, now)];
    if turn == Turn::Good {
        let message = "the HPA was able to successfully calculate a replica count";
        conditions.push(condition(object, "ScalingActive", "True", "ValidMetricFound", message, now));
    }
    json!({"currentReplicas": replicas, "desiredReplicas": replicas, "conditions": conditions})
}
