//! A ReplicaSet keeps so many pods of one template.

use serde_json::json;
use tidegate_model::{ObjectKey, Timestamp};

use super::children::{PodView, TEMPLATE_HASH, min_ready, next_available};
use crate::Propagation;
use crate::sim::SimState;
use crate::sim::behaviour::Outcome;
use crate::sim::json::{condition, int};

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?.clone();
    let object = &stored.object;
    if object.is_deleting() {
        return None;
    }
    let refused = !object.has_owner() && state.behaviour(&stored).outcome == Some(Outcome::Fail);
    let wanted = usize::try_from(int(object, "/spec/replicas", 1)).unwrap_or(0);
    let minimum = min_ready(object);
    let active = |state: &SimState| -> Vec<PodView> {
        let pods = state.pods_of(object.uid(), minimum).into_iter();
        pods.filter(|pod| !pod.deleting && !matches!(pod.phase.as_str(), "Failed" | "Succeeded")).collect()
    };
    let pods = active(state);
    if pods.len() > wanted {
        let surplus = pods.len() - wanted;
        for pod in worst_first(pods).into_iter().take(surplus) {
            state.begin_delete(&pod.key, Propagation::Background);
        }
    } else if !refused {
        let hash = object.label(TEMPLATE_HASH).map(str::to_owned);
        let labels: Vec<(&str, &str)> = hash.iter().map(|hash| (TEMPLATE_HASH, hash.as_str())).collect();
        for _ in pods.len()..wanted {
            let name = format!("{}-{}", object.name(), state.rng.suffix(5));
            state.create_pod(&stored, name, &labels);
        }
    }
    let pods = active(state);
    write_status(state, key, &pods, refused);
    next_available(&pods)
}

/// Those that are not ready go first, then the youngest.
fn worst_first(mut pods: Vec<PodView>) -> Vec<PodView> {
    pods.sort_by(|a, b| (a.ready, b.created_at, &b.key).cmp(&(b.ready, a.created_at, &a.key)));
    pods
}

fn write_status(state: &mut SimState, key: &ObjectKey, pods: &[PodView], refused: bool) {
    let Some(stored) = state.find(key) else { return };
    let object = stored.object.clone();
    let mut status = json!({
        "replicas": pods.len(),
        "fullyLabeledReplicas": pods.len(),
        "readyReplicas": pods.iter().filter(|pod| pod.ready).count(),
        "availableReplicas": pods.iter().filter(|pod| pod.available).count(),
        "observedGeneration": object.generation(),
    });
    if let Some(fields) = status.as_object_mut().filter(|_| refused) {
        let why = "pods are forbidden: the simulation was told to refuse them";
        let condition = condition(&object, "ReplicaFailure", "True", "FailedCreate", why, &state.timestamp());
        fields.insert("conditions".to_owned(), json!([condition]));
    }
    state.set_status(key, status);
}
