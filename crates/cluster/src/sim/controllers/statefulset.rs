//! The StatefulSet controller, which runs numbered pods and replaces them one at a time.

use serde_json::{Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use super::children::{PodView, REVISION_HASH, min_ready_duration, next_available_at};
use crate::Propagation;
use crate::sim::SimState;
use crate::sim::json::{int_at, list_at};
use crate::sim::objects::StoredObject;

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?.clone();
    if stored.object.is_deleting() {
        return None;
    }
    let hash = state.template_hash(&stored);
    // As on a real cluster, a pod that never becomes ready blocks an ordered update, even one that would fix
    // the pod.
    if scale_up(state, &stored, &hash) && scale_down(state, &stored.object) {
        replace_outdated_pod(state, &stored.object, &hash);
    }
    write_status(state, key, &stored.object, &hash);
    next_available_at(&list_pods(state, &stored.object))
}

fn list_pods(state: &SimState, object: &Object) -> Vec<PodView> {
    state.pods_of(object.uid(), min_ready_duration(object))
}

fn ordinal(object: &Object, pod: &PodView) -> i64 {
    let digits = pod.key.name.strip_prefix(object.name()).and_then(|rest| rest.strip_prefix('-'));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(i64::MAX)
}

fn is_ordered(object: &Object) -> bool {
    object.text("/spec/podManagementPolicy") != "Parallel"
}

/// Creates missing pods. Returns true if the next step of the update doesn't have to wait for a pod.
fn scale_up(state: &mut SimState, stored: &StoredObject, hash: &str) -> bool {
    let object = &stored.object;
    let ordered = is_ordered(object);
    let known = list_pods(state, object);
    let labels = |name: &str| {
        [(REVISION_HASH, hash.to_owned()), ("statefulset.kubernetes.io/pod-name", name.to_owned())]
    };
    for number in 0..int_at(object, "/spec/replicas", 1) {
        let settled = match known.iter().find(|pod| ordinal(object, pod) == number) {
            Some(pod) => pod.is_available && !pod.is_deleting,
            None => {
                let name = format!("{}-{number}", object.name());
                create_claims(state, object, &name);
                let labels = labels(&name);
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
                state.create_pod(stored, name, &labels);
                false
            }
        };
        if ordered && !settled {
            return false;
        }
    }
    true
}

/// Creates the PersistentVolumeClaims of a pod. The claims outlive the pod and the StatefulSet.
fn create_claims(state: &mut SimState, object: &Object, pod: &str) {
    for template in list_at(object, "/spec/volumeClaimTemplates") {
        let name = template.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("data");
        let manifest = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": format!("{name}-{pod}"), "namespace": object.namespace()},
            "spec": template["spec"],
        });
        if let Ok(claim) = Object::try_from(manifest) {
            state.admit_object(claim);
        }
    }
}

/// Removes pods beyond the desired number, starting with the highest number. Returns true if there are no
/// pods to remove.
fn scale_down(state: &mut SimState, object: &Object) -> bool {
    let desired = int_at(object, "/spec/replicas", 1);
    let mut surplus: Vec<PodView> =
        list_pods(state, object).into_iter().filter(|pod| ordinal(object, pod) >= desired).collect();
    surplus.sort_by_key(|pod| std::cmp::Reverse(ordinal(object, pod)));
    let at_once = if is_ordered(object) { 1 } else { surplus.len() };
    for pod in surplus.iter().take(at_once) {
        state.start_deletion(&pod.key, Propagation::Background);
    }
    surplus.is_empty()
}

/// Deletes the highest-numbered pod with an old template. Pods are replaced one at a time.
fn replace_outdated_pod(state: &mut SimState, object: &Object, hash: &str) {
    if object.text("/spec/updateStrategy/type") == "OnDelete" {
        return;
    }
    let partition = int_at(object, "/spec/updateStrategy/rollingUpdate/partition", 0);
    let mut all = list_pods(state, object);
    all.sort_by_key(|pod| std::cmp::Reverse(ordinal(object, pod)));
    for pod in all.iter().filter(|pod| ordinal(object, pod) >= partition) {
        if pod.hash != hash && !pod.is_deleting {
            state.start_deletion(&pod.key, Propagation::Background);
            return;
        }
        if !pod.is_available {
            return;
        }
    }
}

fn write_status(state: &mut SimState, key: &ObjectKey, object: &Object, hash: &str) {
    let desired = int_at(object, "/spec/replicas", 1);
    let all: Vec<PodView> = list_pods(state, object).into_iter().filter(|pod| !pod.is_deleting).collect();
    let count = |test: &dyn Fn(&PodView) -> bool| {
        i64::try_from(all.iter().filter(|pod| test(pod)).count()).unwrap_or(i64::MAX)
    };
    let update = format!("{}-{hash}", object.name());
    let known = Some(object.text("/status/currentRevision"))
        .filter(|known| !known.is_empty())
        .unwrap_or(&update)
        .to_owned();
    let updated = count(&|pod| pod.hash == hash);
    let done = updated == desired && count(&|pod| pod.is_available) == desired;
    let current = if done { update.clone() } else { known };
    let of_current = count(&|pod| {
        current.strip_prefix(object.name()).and_then(|rest| rest.strip_prefix('-')) == Some(&pod.hash)
    });
    let status = json!({
        "observedGeneration": object.generation(),
        "replicas": all.len(),
        "readyReplicas": count(&|pod| pod.is_ready),
        "availableReplicas": count(&|pod| pod.is_available),
        "currentReplicas": of_current,
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": 0,
    });
    state.set_status(key, status);
}
