//! A Deployment moves its pods from one template to the next through ReplicaSets.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use super::children::{Child, TEMPLATE_HASH};
use super::rollout::{Limits, Set, share};
use crate::Propagation;
use crate::sim::SimState;
use crate::sim::behaviour::Outcome;
use crate::sim::json::{condition, int, list_at, map_at};
use crate::sim::objects::Stored;

/// A ReplicaSet of a Deployment.
struct Generation {
    key: ObjectKey,
    created_at: Timestamp,
    hash: String,
    set: Set,
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
        if !generations(state, &stored.object).iter().any(|generation| generation.hash == hash) {
            create_generation(state, &stored, &hash);
        }
        scale(state, &stored.object, &hash);
        forget_old(state, &stored.object, &hash);
    }
    write_status(state, key, &stored, &hash, paused)
}

/// The ReplicaSets of a Deployment, oldest first.
fn generations(state: &SimState, owner: &Object) -> Vec<Generation> {
    let sets = state
        .children(owner.uid())
        .filter(|(key, stored)| key.kind == "ReplicaSet" && !stored.object.is_deleting());
    let mut all: Vec<Generation> = sets
        .map(|(key, stored)| {
            let object = &stored.object;
            let replicas = int(object, "/spec/replicas", 0);
            // The status may speak of pods that are being removed already.
            let available = int(object, "/status/availableReplicas", 0).min(replicas);
            Generation {
                key: key.clone(),
                created_at: stored.created_at,
                hash: object.label(TEMPLATE_HASH).unwrap_or_default().to_owned(),
                set: Set { replicas, available },
                pods: int(object, "/status/replicas", 0),
                ready: int(object, "/status/readyReplicas", 0),
            }
        })
        .collect();
    all.sort_by(|a, b| (a.created_at, &a.key).cmp(&(b.created_at, &b.key)));
    all
}

fn create_generation(state: &mut SimState, owner: &Stored, hash: &str) {
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
        "minReadySeconds": int(object, "/spec/minReadySeconds", 0),
        "selector": {"matchLabels": selector},
        "template": template,
    });
    let annotations = state.inherited(owner, Map::new());
    let name = format!("{}-{hash}", object.name());
    let child = Child { api_version: "apps/v1", kind: "ReplicaSet", name, labels, annotations, spec };
    state.create_child(object, child);
}

fn limits(object: &Object) -> Limits {
    let wanted = int(object, "/spec/replicas", 1);
    let details =
        |field: &str| object.pointer("/spec/strategy/rollingUpdate").and_then(|details| details.get(field));
    Limits::new(
        wanted,
        share(details("maxSurge"), wanted, true),
        share(details("maxUnavailable"), wanted, false),
    )
}

fn scale(state: &mut SimState, object: &Object, hash: &str) {
    let all = generations(state, object);
    let (new, old): (Vec<_>, Vec<_>) = all.into_iter().partition(|generation| generation.hash == hash);
    let Some(new) = new.into_iter().next() else { return };
    let limits = limits(object);
    let (up, down) = if object.text("/spec/strategy/type") == "Recreate" {
        let running = old.iter().any(|generation| generation.pods > 0 || any_pod(state, &generation.key));
        (if running { new.set.replicas } else { limits.wanted }, vec![0; old.len()])
    } else {
        let sets: Vec<Set> = old.iter().map(|generation| generation.set).collect();
        limits.next(new.set, &sets)
    };
    state.set_spec(&new.key, "replicas", up.into());
    for (generation, replicas) in old.iter().zip(down) {
        state.set_spec(&generation.key, "replicas", replicas.into());
    }
}

fn any_pod(state: &SimState, set: &ObjectKey) -> bool {
    state.find(set).is_some_and(|stored| state.children(stored.object.uid()).next().is_some())
}

/// Old ReplicaSets without pods are kept for a rollback, but not for ever.
fn forget_old(state: &mut SimState, object: &Object, hash: &str) {
    let limit = usize::try_from(int(object, "/spec/revisionHistoryLimit", 10)).unwrap_or(0);
    let idle: Vec<ObjectKey> = generations(state, object)
        .into_iter()
        .filter(|generation| generation.hash != hash && generation.set.replicas == 0 && generation.pods == 0)
        .map(|generation| generation.key)
        .collect();
    for key in idle.iter().take(idle.len().saturating_sub(limit)) {
        state.begin_delete(key, Propagation::Background);
    }
}

/// How a rollout stands, as the condition `Progressing` says it.
enum Progress {
    Moving,
    Complete,
    Exceeded,
    Paused,
}

fn write_status(
    state: &mut SimState,
    key: &ObjectKey,
    stored: &Stored,
    hash: &str,
    paused: bool,
) -> Option<Timestamp> {
    let object = &stored.object;
    let all = generations(state, object);
    let sum = |count: fn(&Generation) -> i64| all.iter().map(count).sum::<i64>();
    let (pods, ready, available) = (sum(|set| set.pods), sum(|set| set.ready), sum(|set| set.set.available));
    let updated = all.iter().filter(|set| set.hash == hash).map(|set| set.pods).sum::<i64>();
    let limits = limits(object);
    let complete = updated == limits.wanted && pods == limits.wanted && available >= limits.wanted;
    let (progress, again) = progress(state, stored, complete, paused);
    let mut status = json!({
        "observedGeneration": object.generation(),
        "replicas": pods, "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": available,
        "conditions": conditions(state, object, hash, &progress, available >= limits.wanted - limits.unavailable),
    });
    let missing = limits.wanted - available;
    if let Some(fields) = status.as_object_mut().filter(|_| missing > 0) {
        fields.insert("unavailableReplicas".to_owned(), missing.into());
    }
    state.set_status(key, status);
    again
}

/// How the rollout stands, and when that changes by itself.
fn progress(
    state: &SimState,
    stored: &Stored,
    complete: bool,
    paused: bool,
) -> (Progress, Option<Timestamp>) {
    let object = &stored.object;
    let known = list_at(object, "/status/conditions").iter().find(|known| known["type"] == "Progressing");
    let was_complete = known.is_some_and(|known| known["reason"] == "NewReplicaSetAvailable")
        && int(object, "/status/observedGeneration", 0) == object.generation();
    let behaviour = state.behaviour(stored);
    let ready_after = behaviour.ready_after.unwrap_or(state.config.ready_after);
    let seconds = u64::try_from(int(object, "/spec/progressDeadlineSeconds", 600)).unwrap_or(0);
    // A Deployment that is told to fail does not make people wait for ten minutes.
    let failing = behaviour.outcome == Some(Outcome::Fail);
    let patience = if failing { ready_after } else { Duration::from_secs(seconds) };
    let deadline = stored.changed_at + patience;
    if paused {
        (Progress::Paused, None)
    } else if complete || was_complete {
        (Progress::Complete, None)
    } else if state.now >= deadline {
        (Progress::Exceeded, None)
    } else {
        (Progress::Moving, Some(deadline))
    }
}

fn conditions(state: &SimState, object: &Object, hash: &str, progress: &Progress, enough: bool) -> Value {
    let now = state.timestamp();
    let name = object.name();
    let (word, reason, message) = match progress {
        Progress::Moving => {
            ("True", "ReplicaSetUpdated", format!("ReplicaSet \"{name}-{hash}\" is progressing."))
        }
        Progress::Complete => (
            "True",
            "NewReplicaSetAvailable",
            format!("ReplicaSet \"{name}-{hash}\" has successfully progressed."),
        ),
        Progress::Exceeded => (
            "False",
            "ProgressDeadlineExceeded",
            format!("ReplicaSet \"{name}-{hash}\" has timed out progressing."),
        ),
        Progress::Paused => ("Unknown", "DeploymentPaused", "Deployment is paused".to_owned()),
    };
    let (available, why, words) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    json!([
        condition(object, "Available", available, why, words, &now),
        condition(object, "Progressing", word, reason, &message, &now),
    ])
}
