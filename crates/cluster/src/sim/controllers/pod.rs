//! A pod starts, runs, and becomes ready, ends, fails or crashes again and again.

use serde_json::{Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use crate::sim::SimState;
use crate::sim::behaviour::Outcome;
use crate::sim::json::{condition, digest, list_at, rfc3339};

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its containers are being made.
    Creating,
    /// It runs to its end.
    Running,
    /// It runs and serves.
    Ready,
    /// It runs and does not serve.
    NotReady,
    /// It crashes whenever it starts.
    Crashing,
    Succeeded,
    Failed,
}

/// How often a crashing pod has been restarted by the time anybody looks.
const RESTARTS: u32 = 3;

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?;
    let object = stored.object.clone();
    if object.is_deleting() || matches!(object.text("/status/phase"), "Succeeded" | "Failed") {
        return None;
    }
    let behaviour = state.behaviour(stored);
    let done_at = stored.created_at + behaviour.ready_after.unwrap_or(state.config.ready_after);
    let stage = stage(state, &object, behaviour.outcome, done_at <= state.now);
    let status = status(state, &object, stage, rfc3339(stored.created_at));
    state.set_status(key, status);
    Some(done_at).filter(|at| *at > state.now)
}

fn stage(state: &SimState, object: &Object, outcome: Option<Outcome>, done: bool) -> Stage {
    let serves = object.text("/spec/restartPolicy") == "Always";
    // A pod of a workload never ends as Failed: whatever made it fail, it is started again.
    let restarted = serves && state.owners(object).iter().any(|owner| owner.key.kind != "Job");
    match outcome {
        _ if !done => {
            if serves {
                Stage::Creating
            } else {
                Stage::Running
            }
        }
        Some(Outcome::CrashLoop) => Stage::Crashing,
        Some(Outcome::Fail) if restarted => Stage::Crashing,
        Some(Outcome::Fail) => Stage::Failed,
        Some(Outcome::NeverReady) => Stage::NotReady,
        Some(Outcome::StuckDeleting) | None => {
            if serves {
                Stage::Ready
            } else {
                Stage::Succeeded
            }
        }
    }
}

fn status(state: &SimState, object: &Object, stage: Stage, started: String) -> Value {
    let now = state.timestamp();
    let phase = match stage {
        Stage::Creating => "Pending",
        Stage::Running | Stage::Ready | Stage::NotReady | Stage::Crashing => "Running",
        Stage::Succeeded => "Succeeded",
        Stage::Failed => "Failed",
    };
    let ready = matches!(stage, Stage::Ready | Stage::Running);
    let (word, reason) = match stage {
        _ if ready => ("True", ""),
        Stage::Succeeded => ("False", "PodCompleted"),
        Stage::Failed => ("False", "PodFailed"),
        _ => ("False", "ContainersNotReady"),
    };
    let names: Vec<&str> = list_at(object, "/spec/containers")
        .iter()
        .filter_map(|container| container["name"].as_str())
        .collect();
    let unready = format!("containers with unready status: [{}]", names.join(" "));
    let message = if reason == "ContainersNotReady" { unready.as_str() } else { "" };
    let containers: Vec<Value> = list_at(object, "/spec/containers")
        .iter()
        .map(|container| container_status(container, stage, &started, &now))
        .collect();
    let address = digest(&Value::from(object.uid()));
    let mut status = json!({
        "phase": phase,
        "conditions": [
            condition(object, "PodScheduled", "True", "", "", &started),
            condition(object, "Initialized", "True", "", "", &started),
            condition(object, "ContainersReady", word, reason, message, &now),
            condition(object, "Ready", word, reason, message, &now),
        ],
        "containerStatuses": containers,
        "startTime": started,
        "podIP": format!("10.244.{}.{}", address % 256, 1 + (address >> 8) % 254),
        "observedGeneration": object.generation(),
    });
    if let (Stage::Failed, Some(fields)) = (stage, status.as_object_mut()) {
        fields.insert("message".to_owned(), "the simulation was told to let it fail".into());
    }
    status
}

fn container_status(container: &Value, stage: Stage, started: &str, now: &str) -> Value {
    let ended = |code: u8, reason: &str| json!({"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now});
    let name = container["name"].as_str().unwrap_or_default();
    let (state, last) = match stage {
        Stage::Creating => (json!({"waiting": {"reason": "ContainerCreating"}}), json!({})),
        Stage::Running | Stage::Ready | Stage::NotReady => {
            (json!({"running": {"startedAt": started}}), json!({}))
        }
        Stage::Succeeded => (json!({"terminated": ended(0, "Completed")}), json!({})),
        Stage::Failed => (json!({"terminated": ended(1, "Error")}), json!({})),
        Stage::Crashing => {
            let message = format!("back-off 40s restarting failed container={name}");
            let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
            (waiting, json!({"terminated": ended(1, "Error")}))
        }
    };
    json!({
        "name": name,
        "image": container["image"],
        "ready": matches!(stage, Stage::Ready | Stage::Running),
        "started": matches!(stage, Stage::Ready | Stage::Running | Stage::NotReady),
        "restartCount": if stage == Stage::Crashing { RESTARTS } else { 0 },
        "state": state,
        "lastState": last,
    })
}
