//! The Deployment controller, which uses ReplicaSets to move pods from one template to the next.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use super::children::{Child, TEMPLATE_HASH};
use super::rolling_update::{ReplicaCounts, RolloutLimits, parse_int_or_percent};
use crate::Propagation;
use crate::sim::SimState;
use crate::sim::behavior::Outcome;
use crate::sim::json::{build_condition, int_at, list_at, map_at};
use crate::sim::objects::StoredObject;

/// A ReplicaSet of a Deployment.
struct OwnedReplicaSet {
    key: ObjectKey,
    created_at: Timestamp,
    hash: String,
    counts: ReplicaCounts,
    pods: i64,
    ready: i64,
}

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?.clone();
    if stored.object.is_deleting() {
        return None;
    }
    let hash = state.template_hash(&stored);
    let paused = stored.object.pointer("/spec/paused") == Some(&Value::Bool(true));
    if !paused {
        if !replica_sets(state, &stored.object).iter().any(|generation| generation.hash == hash) {
            create_replica_set(state, &stored, &hash);
        }
        scale_replica_sets(state, &stored.object, &hash);
        delete_old_replica_sets(state, &stored.object, &hash);
    }
    write_status(state, key, &stored, &hash, paused)
}

/// Returns the ReplicaSets of a Deployment, oldest first.
fn replica_sets(state: &SimState, owner: &Object) -> Vec<OwnedReplicaSet> {
    let sets = state
        .children(owner.uid())
        .filter(|(key, stored)| key.kind == "ReplicaSet" && !stored.object.is_deleting());
    let mut all: Vec<OwnedReplicaSet> = sets
        .map(|(key, stored)| {
            let object = &stored.object;
            let replicas = int_at(object, "/spec/replicas", 0);
            // The status may still include pods that are being removed, so limit its count.
            let available = int_at(object, "/status/availableReplicas", 0).min(replicas);
            OwnedReplicaSet {
                key: key.clone(),
                created_at: stored.created_at,
                hash: object.label(TEMPLATE_HASH).unwrap_or_default().to_owned(),
                counts: ReplicaCounts { replicas, available },
                pods: int_at(object, "/status/replicas", 0),
                ready: int_at(object, "/status/readyReplicas", 0),
            }
        })
        .collect();
    all.sort_by(|a, b| (a.created_at, &a.key).cmp(&(b.created_at, &b.key)));
    all
}

fn create_replica_set(state: &mut SimState, owner: &StoredObject, hash: &str) {
    let object = &owner.object;
    let mark = (TEMPLATE_HASH.to_owned(), Value::from(hash));
    let mut labels = map_at(object, "/spec/template/metadata/labels");
    labels.extend([mark.clone()]);
    let mut template = map_at(object, "/spec/template");
    let mut metadata = template.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.insert("labels".to_owned(), labels.clone().into());
    template.insert("metadata".to_owned(), metadata.into());
    let mut selector = map_at(object, "/spec/selector/matchLabels");
    selector.extend([mark]);
    let spec = json!({
        "replicas": 0,
        "minReadySeconds": int_at(object, "/spec/minReadySeconds", 0),
        "selector": {"matchLabels": selector},
        "template": template,
    });
    let annotations = state.inherit_annotations(owner, Map::new());
    let name = format!("{}-{hash}", object.name());
    let child = Child { api_version: "apps/v1", kind: "ReplicaSet", name, labels, annotations, spec };
    state.create_child(object, child);
}

fn rolling_update_limits(object: &Object) -> RolloutLimits {
    let desired = int_at(object, "/spec/replicas", 1);
    let details =
        |field: &str| object.pointer("/spec/strategy/rollingUpdate").and_then(|details| details.get(field));
    RolloutLimits::new(
        desired,
        parse_int_or_percent(details("maxSurge"), desired, true),
        parse_int_or_percent(details("maxUnavailable"), desired, false),
    )
}

fn scale_replica_sets(state: &mut SimState, object: &Object, hash: &str) {
    let all = replica_sets(state, object);
    let (new, old): (Vec<_>, Vec<_>) = all.into_iter().partition(|generation| generation.hash == hash);
    let Some(new) = new.into_iter().next() else { return };
    let limits = rolling_update_limits(object);
    let (up, down) = if object.text("/spec/strategy/type") == "Recreate" {
        let running = old.iter().any(|generation| generation.pods > 0 || has_pods(state, &generation.key));
        (if running { new.counts.replicas } else { limits.desired }, vec![0; old.len()])
    } else {
        let sets: Vec<ReplicaCounts> = old.iter().map(|generation| generation.counts).collect();
        limits.next_counts(new.counts, &sets)
    };
    state.set_spec(&new.key, "replicas", up.into());
    for (generation, replicas) in old.iter().zip(down) {
        state.set_spec(&generation.key, "replicas", replicas.into());
    }
}

fn has_pods(state: &SimState, set: &ObjectKey) -> bool {
    state.find(set).is_some_and(|stored| state.children(stored.object.uid()).next().is_some())
}

/// Deletes the oldest ReplicaSets without pods that exceed the history limit for rollbacks.
fn delete_old_replica_sets(state: &mut SimState, object: &Object, hash: &str) {
    let limit = usize::try_from(int_at(object, "/spec/revisionHistoryLimit", 10)).unwrap_or(0);
    let idle: Vec<ObjectKey> = replica_sets(state, object)
        .into_iter()
        .filter(|generation| {
            generation.hash != hash && generation.counts.replicas == 0 && generation.pods == 0
        })
        .map(|generation| generation.key)
        .collect();
    for key in idle.iter().take(idle.len().saturating_sub(limit)) {
        state.start_deletion(key, Propagation::Background);
    }
}

/// State of a rollout, as reported in the `Progressing` condition.
enum Progress {
    Progressing,
    Complete,
    DeadlineExceeded,
    Paused,
}

fn write_status(
    state: &mut SimState,
    key: &ObjectKey,
    stored: &StoredObject,
    hash: &str,
    paused: bool,
) -> Option<Timestamp> {
    let object = &stored.object;
    let all = replica_sets(state, object);
    let sum = |count: fn(&OwnedReplicaSet) -> i64| all.iter().map(count).sum::<i64>();
    let (pods, ready, available) =
        (sum(|set| set.pods), sum(|set| set.ready), sum(|set| set.counts.available));
    let updated = all.iter().filter(|set| set.hash == hash).map(|set| set.pods).sum::<i64>();
    let limits = rolling_update_limits(object);
    let complete = updated == limits.desired && pods == limits.desired && available >= limits.desired;
    let (progress, again) = rollout_progress(state, stored, complete, paused);
    let mut status = json!({
        "observedGeneration": object.generation(),
        "replicas": pods, "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": available,
        "conditions": deployment_conditions(state, object, hash, &progress, available >= limits.desired - limits.max_unavailable),
    });
    let missing = limits.desired - available;
    if let Some(fields) = status.as_object_mut().filter(|_| missing > 0) {
        fields.insert("unavailableReplicas".to_owned(), missing.into());
    }
    state.set_status(key, status);
    again
}

/// Returns the state of the rollout, and the time of its next change if nothing is written before then.
fn rollout_progress(
    state: &SimState,
    stored: &StoredObject,
    complete: bool,
    paused: bool,
) -> (Progress, Option<Timestamp>) {
    let object = &stored.object;
    let known = list_at(object, "/status/conditions").iter().find(|known| known["type"] == "Progressing");
    let was_complete = known.is_some_and(|known| known["reason"] == "NewReplicaSetAvailable")
        && int_at(object, "/status/observedGeneration", 0) == object.generation();
    let behavior = state.behavior_of(stored);
    let ready_after = behavior.ready_after.unwrap_or(state.config.ready_after);
    let seconds = u64::try_from(int_at(object, "/spec/progressDeadlineSeconds", 600)).unwrap_or(0);
    // A Deployment with the outcome `fail` fails immediately, without the usual wait of ten minutes.
    let failing = behavior.outcome == Some(Outcome::Fail);
    let timeout = if failing { ready_after } else { Duration::from_secs(seconds) };
    let deadline = stored.changed_at + timeout;
    if paused {
        (Progress::Paused, None)
    } else if complete || was_complete {
        (Progress::Complete, None)
    } else if state.now >= deadline {
        (Progress::DeadlineExceeded, None)
    } else {
        (Progress::Progressing, Some(deadline))
    }
}

fn deployment_conditions(
    state: &SimState,
    object: &Object,
    hash: &str,
    progress: &Progress,
    enough: bool,
) -> Value {
    let now = state.timestamp();
    let name = object.name();
    let (word, reason, message) = match progress {
        Progress::Progressing => {
            ("True", "ReplicaSetUpdated", format!("ReplicaSet \"{name}-{hash}\" is progressing."))
        }
        Progress::Complete => (
            "True",
            "NewReplicaSetAvailable",
            format!("ReplicaSet \"{name}-{hash}\" has successfully progressed."),
        ),
        Progress::DeadlineExceeded => (
            "False",
            "ProgressDeadlineExceeded",
            format!("ReplicaSet \"{name}-{hash}\" has timed out progressing."),
        ),
        Progress::Paused => ("Unknown", "DeploymentPaused", "Deployment is paused".to_owned()),
    };
    let (available, why, text) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    json!([
        build_condition(object, "Available", available, why, text, &now),
        build_condition(object, "Progressing", word, reason, &message, &now),
    ])
}
