//! The ReplicaSet controller, which maintains the desired number of pods created from one template.

use serde_json::json;
use tidegate_model::{ObjectKey, Timestamp};

use super::children::{PodView, TEMPLATE_HASH, min_ready_duration, next_available_at};
use crate::Propagation;
use crate::sim::SimState;
use crate::sim::behavior::Outcome;
use crate::sim::json::{build_condition, int_at};

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?.clone();
    let object = &stored.object;
    if object.is_deleting() {
        return None;
    }
    let refused = !object.has_owner() && state.behavior_of(&stored).outcome == Some(Outcome::Fail);
    let desired = usize::try_from(int_at(object, "/spec/replicas", 1)).unwrap_or(0);
    let minimum = min_ready_duration(object);
    let active = |state: &SimState| -> Vec<PodView> {
        let pods = state.pods_of(object.uid(), minimum).into_iter();
        pods.filter(|pod| !pod.is_deleting && !matches!(pod.phase.as_str(), "Failed" | "Succeeded")).collect()
    };
    let pods = active(state);
    if pods.len() > desired {
        let surplus = pods.len() - desired;
        for pod in sort_for_deletion(pods).into_iter().take(surplus) {
            state.start_deletion(&pod.key, Propagation::Background);
        }
    } else if !refused {
        let hash = object.label(TEMPLATE_HASH).map(str::to_owned);
        let labels: Vec<(&str, &str)> = hash.iter().map(|hash| (TEMPLATE_HASH, hash.as_str())).collect();
        for _ in pods.len()..desired {
            let name = format!("{}-{}", object.name(), state.rng.name_suffix(5));
            state.create_pod(&stored, name, &labels);
        }
    }
    let pods = active(state);
    write_status(state, key, &pods, refused);
    next_available_at(&pods)
}

/// Sorts pods in deletion order: pods that are not ready first, then the youngest.
fn sort_for_deletion(mut pods: Vec<PodView>) -> Vec<PodView> {
    pods.sort_by(|a, b| (a.is_ready, b.created_at, &b.key).cmp(&(b.is_ready, a.created_at, &a.key)));
    pods
}

fn write_status(state: &mut SimState, key: &ObjectKey, pods: &[PodView], refused: bool) {
    let Some(stored) = state.find(key) else { return };
    let object = stored.object.clone();
    let mut status = json!({
        "replicas": pods.len(),
        "fullyLabeledReplicas": pods.len(),
        "readyReplicas": pods.iter().filter(|pod| pod.is_ready).count(),
        "availableReplicas": pods.iter().filter(|pod| pod.is_available).count(),
        "observedGeneration": object.generation(),
    });
    if let Some(fields) = status.as_object_mut().filter(|_| refused) {
        let reason = "pods are forbidden: the simulation is configured to refuse them";
        let condition =
            build_condition(&object, "ReplicaFailure", "True", "FailedCreate", reason, &state.timestamp());
        fields.insert("conditions".to_owned(), json!([condition]));
    }
    state.set_status(key, status);
}
