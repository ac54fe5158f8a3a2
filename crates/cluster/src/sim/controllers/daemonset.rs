//! The DaemonSet controller, which runs one pod on every node. The simulated cluster has a single node.

use serde_json::json;
use tidegate_model::{ObjectKey, Timestamp};

use super::children::{REVISION_HASH, min_ready_duration, next_available_at};
use crate::Propagation;
use crate::sim::SimState;

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?.clone();
    let object = &stored.object;
    if object.is_deleting() {
        return None;
    }
    let hash = state.template_hash(&stored);
    let pods = state.pods_of(object.uid(), min_ready_duration(object));
    if pods.is_empty() {
        let name = format!("{}-{}", object.name(), state.rng.name_suffix(5));
        state.create_pod(&stored, name, &[(REVISION_HASH, &hash)]);
    } else if object.text("/spec/updateStrategy/type") != "OnDelete" {
        for pod in pods.iter().filter(|pod| pod.hash != hash && !pod.is_deleting) {
            state.start_deletion(&pod.key, Propagation::Background);
        }
    }
    let mut pods = state.pods_of(object.uid(), min_ready_duration(object));
    pods.retain(|pod| !pod.is_deleting);
    let available = pods.iter().filter(|pod| pod.is_available).count();
    let mut status = json!({
        "observedGeneration": object.generation(),
        "desiredNumberScheduled": 1,
        "currentNumberScheduled": pods.len(),
        "updatedNumberScheduled": pods.iter().filter(|pod| pod.hash == hash).count(),
        "numberReady": pods.iter().filter(|pod| pod.is_ready).count(),
        "numberAvailable": available,
        "numberMisscheduled": 0,
    });
    if let Some(fields) = status.as_object_mut().filter(|_| available == 0) {
        fields.insert("numberUnavailable".to_owned(), 1.into());
    }
    state.set_status(key, status);
    next_available_at(&pods)
}
