//! The pod controller. It starts pods, which then run, become ready, complete, fail or crash repeatedly.

use serde_json::{Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use crate::sim::SimState;
use crate::sim::behavior::Outcome;
use crate::sim::json::{build_condition, digest, list_at, rfc3339};

/// Stage of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodStage {
    /// The containers are being created.
    Creating,
    /// The pod is running and will complete.
    Running,
    /// The pod is running and ready.
    Ready,
    /// The pod is running but not ready.
    NotReady,
    /// The pod crashes after every start.
    Crashing,
    /// The pod completed successfully.
    Succeeded,
    /// The pod exited with an error.
    Failed,
}

/// Number of restarts that a crashing pod reports.
const RESTART_COUNT: u32 = 3;

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?;
    let object = stored.object.clone();
    if object.is_deleting() || matches!(object.text("/status/phase"), "Succeeded" | "Failed") {
        return None;
    }
    let behavior = state.behavior_of(stored);
    let done_at = stored.created_at + behavior.ready_after.unwrap_or(state.config.ready_after);
    // A pod of a workload never enters the Failed phase, because it is restarted after every failure.
    let of_workload = state.owners(&object).iter().any(|owner| owner.key.kind != "Job");
    let stage = PodStage::for_pod(&object, of_workload, behavior.outcome, done_at <= state.now);
    let status = pod_status(&object, stage, &rfc3339(stored.created_at), &state.timestamp());
    state.set_status(key, status);
    Some(done_at).filter(|at| *at > state.now)
}

impl PodStage {
    /// Returns the stage of a pod. `done` is true once the pod's `ready-after` time has passed, and
    /// `of_workload` is true if the owner is a workload other than a Job. The stage also depends on the pod's
    /// restart policy.
    pub fn for_pod(pod: &Object, of_workload: bool, outcome: Option<Outcome>, done: bool) -> Self {
        let serves = pod.text("/spec/restartPolicy") == "Always";
        match outcome {
            _ if !done && serves => Self::Creating,
            _ if !done => Self::Running,
            Some(Outcome::CrashLoop) => Self::Crashing,
            Some(Outcome::Fail) if serves && of_workload => Self::Crashing,
            Some(Outcome::Fail) => Self::Failed,
            Some(Outcome::NeverReady) => Self::NotReady,
            Some(Outcome::StuckDeleting) | None if serves => Self::Ready,
            Some(Outcome::StuckDeleting) | None => Self::Succeeded,
        }
    }
}

/// Returns the status that a node writes for a pod in this stage.
pub fn pod_status(object: &Object, stage: PodStage, started: &str, now: &str) -> Value {
    let phase = match stage {
        PodStage::Creating => "Pending",
        PodStage::Running | PodStage::Ready | PodStage::NotReady | PodStage::Crashing => "Running",
        PodStage::Succeeded => "Succeeded",
        PodStage::Failed => "Failed",
    };
    let ready = matches!(stage, PodStage::Ready | PodStage::Running);
    let (word, reason) = match stage {
        _ if ready => ("True", ""),
        PodStage::Succeeded => ("False", "PodCompleted"),
        PodStage::Failed => ("False", "PodFailed"),
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
        .map(|container| container_status(container, stage, started, now))
        .collect();
    let address = digest(&Value::from(object.uid()));
    let mut status = json!({
        "phase": phase,
        "conditions": [
            build_condition(object, "PodScheduled", "True", "", "", started),
            build_condition(object, "Initialized", "True", "", "", started),
            build_condition(object, "ContainersReady", word, reason, message, now),
            build_condition(object, "Ready", word, reason, message, now),
        ],
        "containerStatuses": containers,
        "startTime": started,
        "podIP": format!("10.244.{}.{}", address % 256, 1 + (address >> 8) % 254),
        "observedGeneration": object.generation(),
    });
    if let (PodStage::Failed, Some(fields)) = (stage, status.as_object_mut()) {
        fields.insert("message".to_owned(), "the simulation is configured to fail this pod".into());
    }
    status
}

fn container_status(container: &Value, stage: PodStage, started: &str, now: &str) -> Value {
    let ended = |code: u8, reason: &str| json!({"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now});
    let name = container["name"].as_str().unwrap_or_default();
    let (state, last) = match stage {
        PodStage::Creating => (json!({"waiting": {"reason": "ContainerCreating"}}), json!({})),
        PodStage::Running | PodStage::Ready | PodStage::NotReady => {
            (json!({"running": {"startedAt": started}}), json!({}))
        }
        PodStage::Succeeded => (json!({"terminated": ended(0, "Completed")}), json!({})),
        PodStage::Failed => (json!({"terminated": ended(1, "Error")}), json!({})),
        PodStage::Crashing => {
            let message = format!("back-off 40s restarting failed container={name}");
            let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
            (waiting, json!({"terminated": ended(1, "Error")}))
        }
    };
    json!({
        "name": name,
        "image": container["image"],
        "ready": matches!(stage, PodStage::Ready | PodStage::Running),
        "started": matches!(stage, PodStage::Ready | PodStage::Running | PodStage::NotReady),
        "restartCount": if stage == PodStage::Crashing { RESTART_COUNT } else { 0 },
        "state": state,
        "lastState": last,
    })
}
