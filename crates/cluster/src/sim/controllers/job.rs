//! A Job runs pods until enough of them succeeded, or too many failed. A pod that failed is tried again at once: the
//! simulation leaves out the growing pauses of a real cluster.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use super::children::PodView;
use crate::Propagation;
use crate::sim::SimState;
use crate::sim::json::{condition, has_condition, int, list_at, rfc3339};
use crate::sim::objects::Stored;

/// How a Job ended.
struct End {
    kind: &'static str,
    reason: &'static str,
    message: &'static str,
}

const COMPLETE: End = End {
    kind: "Complete",
    reason: "CompletionsReached",
    message: "Reached expected number of succeeded pods",
};
const TOO_MANY_FAILURES: End = End {
    kind: "Failed",
    reason: "BackoffLimitExceeded",
    message: "Job has reached the specified backoff limit",
};
const TOO_LATE: End = End {
    kind: "Failed",
    reason: "DeadlineExceeded",
    message: "Job was active longer than specified deadline",
};

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?.clone();
    let object = &stored.object;
    if object.is_deleting() {
        return None;
    }
    if is_finished(object) {
        return expire(state, key, object);
    }
    let suspended = object.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let deadline = deadline(&stored);
    let end = if suspended { None } else { end(state, object, deadline) };
    if suspended || end.is_some() {
        for pod in pods(state, object).iter().filter(|pod| is_active(pod)) {
            state.begin_delete(&pod.key, Propagation::Background);
        }
    } else {
        start_pods(state, &stored);
    }
    write_status(state, key, object, end.as_ref(), suspended);
    if end.is_some() { expire(state, key, &state.find(key)?.object.clone()) } else { deadline }
}

/// Whether a Job has ended, well or not.
pub(crate) fn is_finished(job: &Object) -> bool {
    has_condition(job, "Complete", "True") || has_condition(job, "Failed", "True")
}

fn pods(state: &SimState, object: &Object) -> Vec<PodView> {
    state.pods_of(object.uid(), Duration::ZERO)
}

fn is_active(pod: &PodView) -> bool {
    !pod.deleting && !matches!(pod.phase.as_str(), "Succeeded" | "Failed")
}

fn count(pods: &[PodView], phase: &str) -> i64 {
    i64::try_from(pods.iter().filter(|pod| pod.phase == phase).count()).unwrap_or(i64::MAX)
}

fn seconds(object: &Object, field: &str) -> Option<Duration> {
    object
        .integer(&format!("/spec/{field}"))
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map(Duration::from_secs)
}

/// When the Job's time is over.
fn deadline(stored: &Stored) -> Option<Timestamp> {
    let limit = seconds(&stored.object, "activeDeadlineSeconds")?;
    // The start is written in whole seconds; the creation is known better.
    let written = stored.object.text("/status/startTime").parse::<Timestamp>().ok();
    let started = written
        .filter(|start| start.as_seconds() != stored.created_at.as_seconds())
        .unwrap_or(stored.created_at);
    Some(started + limit)
}

fn end(state: &SimState, object: &Object, deadline: Option<Timestamp>) -> Option<End> {
    let pods = pods(state, object);
    let succeeded = count(&pods, "Succeeded");
    let done = match object.integer("/spec/completions") {
        Some(completions) => succeeded >= completions,
        None => succeeded > 0 && !pods.iter().any(is_active),
    };
    if done {
        Some(COMPLETE)
    } else if count(&pods, "Failed") > int(object, "/spec/backoffLimit", 6) {
        Some(TOO_MANY_FAILURES)
    } else {
        deadline.filter(|deadline| *deadline <= state.now).map(|_| TOO_LATE)
    }
}

fn start_pods(state: &mut SimState, stored: &Stored) {
    let object = &stored.object;
    let pods = pods(state, object);
    let succeeded = count(&pods, "Succeeded");
    let left = match object.integer("/spec/completions") {
        Some(completions) => completions - succeeded,
        None if succeeded > 0 => 0,
        None => i64::MAX,
    };
    let wanted = usize::try_from(int(object, "/spec/parallelism", 1).min(left)).unwrap_or(0);
    let active = pods.iter().filter(|pod| is_active(pod)).count();
    for _ in active..wanted {
        let name = format!("{}-{}", object.name(), state.rng.suffix(5));
        let labels = [("job-name", object.name()), ("batch.kubernetes.io/job-name", object.name())];
        state.create_pod(stored, name, &labels);
    }
}

fn write_status(state: &mut SimState, key: &ObjectKey, object: &Object, end: Option<&End>, suspended: bool) {
    let now = state.timestamp();
    let pods = pods(state, object);
    let active = pods.iter().filter(|pod| is_active(pod)).count();
    let mut status: Map<String, Value> = [
        ("active", active.into()),
        ("ready", pods.iter().filter(|pod| is_active(pod) && pod.ready).count().into()),
        ("succeeded", count(&pods, "Succeeded").into()),
        ("failed", count(&pods, "Failed").into()),
    ]
    .into_iter()
    .map(|(name, number): (&str, Value)| (name.to_owned(), number))
    .collect();
    let started = Some(object.text("/status/startTime")).filter(|text| !text.is_empty());
    if !suspended {
        status.insert("startTime".to_owned(), started.unwrap_or(&now).into());
    }
    let mut conditions = Vec::new();
    if suspended {
        conditions.push(condition(object, "Suspended", "True", "JobSuspended", "Job suspended", &now));
    } else if list_at(object, "/status/conditions").iter().any(|known| known["type"] == "Suspended") {
        conditions.push(condition(object, "Suspended", "False", "JobResumed", "Job resumed", &now));
    }
    if let Some(End { kind, reason, message }) = end {
        let interim = if *kind == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
        conditions.push(condition(object, interim, "True", reason, message, &now));
        conditions.push(condition(object, kind, "True", reason, message, &now));
        if *kind == "Complete" {
            status.insert("completionTime".to_owned(), rfc3339(state.now).into());
        }
    }
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), conditions.into());
    }
    state.set_status(key, json!(status));
}

/// A finished Job goes after its time to live.
fn expire(state: &mut SimState, key: &ObjectKey, object: &Object) -> Option<Timestamp> {
    let keep = seconds(object, "ttlSecondsAfterFinished")?;
    let ends = list_at(object, "/status/conditions")
        .iter()
        .filter(|known| known["type"] == "Complete" || known["type"] == "Failed");
    let ended =
        ends.filter_map(|known| known["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok()).max()?;
    let until = ended + keep;
    if until > state.now {
        return Some(until);
    }
    state.begin_delete(key, Propagation::Foreground);
    None
}
