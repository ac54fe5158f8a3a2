//! The Job controller, which runs pods until enough of them have succeeded or too many have failed. Failed
//! pods are retried immediately. The simulation omits a real cluster's backoff.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_model::{Object, ObjectKey, Timestamp};

use super::children::PodView;
use crate::Propagation;
use crate::sim::SimState;
use crate::sim::json::{build_condition, has_condition, int_at, list_at, rfc3339};
use crate::sim::objects::StoredObject;

/// Result of a finished Job.
struct JobResult {
    kind: &'static str,
    reason: &'static str,
    message: &'static str,
}

const COMPLETE: JobResult = JobResult {
    kind: "Complete",
    reason: "CompletionsReached",
    message: "Reached expected number of succeeded pods",
};
const BACKOFF_LIMIT_EXCEEDED: JobResult = JobResult {
    kind: "Failed",
    reason: "BackoffLimitExceeded",
    message: "Job has reached the specified backoff limit",
};
const DEADLINE_EXCEEDED: JobResult = JobResult {
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
        return delete_after_ttl(state, key, object);
    }
    let suspended = object.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let deadline = deadline(&stored);
    let end = if suspended { None } else { job_result(state, object, deadline) };
    if suspended || end.is_some() {
        for pod in list_pods(state, object).iter().filter(|pod| is_active(pod)) {
            state.start_deletion(&pod.key, Propagation::Background);
        }
    } else {
        start_pods(state, &stored);
    }
    write_status(state, key, object, end.as_ref(), suspended);
    if end.is_some() { delete_after_ttl(state, key, &state.find(key)?.object.clone()) } else { deadline }
}

/// Returns true if a Job has finished, successfully or not.
pub(crate) fn is_finished(job: &Object) -> bool {
    has_condition(job, "Complete", "True") || has_condition(job, "Failed", "True")
}

fn list_pods(state: &SimState, object: &Object) -> Vec<PodView> {
    state.pods_of(object.uid(), Duration::ZERO)
}

fn is_active(pod: &PodView) -> bool {
    !pod.is_deleting && !matches!(pod.phase.as_str(), "Succeeded" | "Failed")
}

fn count_in_phase(pods: &[PodView], phase: &str) -> i64 {
    i64::try_from(pods.iter().filter(|pod| pod.phase == phase).count()).unwrap_or(i64::MAX)
}

fn duration_field(object: &Object, field: &str) -> Option<Duration> {
    object
        .integer(&format!("/spec/{field}"))
        .and_then(|seconds| u64::try_from(seconds).ok())
        .map(Duration::from_secs)
}

fn deadline(stored: &StoredObject) -> Option<Timestamp> {
    let limit = duration_field(&stored.object, "activeDeadlineSeconds")?;
    // Prefer the creation time, because `status.startTime` is in whole seconds.
    let written = stored.object.text("/status/startTime").parse::<Timestamp>().ok();
    let started = written
        .filter(|start| start.as_seconds() != stored.created_at.as_seconds())
        .unwrap_or(stored.created_at);
    Some(started + limit)
}

fn job_result(state: &SimState, object: &Object, deadline: Option<Timestamp>) -> Option<JobResult> {
    let pods = list_pods(state, object);
    let succeeded = count_in_phase(&pods, "Succeeded");
    let done = match object.integer("/spec/completions") {
        Some(completions) => succeeded >= completions,
        None => succeeded > 0 && !pods.iter().any(is_active),
    };
    if done {
        Some(COMPLETE)
    } else if count_in_phase(&pods, "Failed") > int_at(object, "/spec/backoffLimit", 6) {
        Some(BACKOFF_LIMIT_EXCEEDED)
    } else {
        deadline.filter(|deadline| *deadline <= state.now).map(|_| DEADLINE_EXCEEDED)
    }
}

fn start_pods(state: &mut SimState, stored: &StoredObject) {
    let object = &stored.object;
    let pods = list_pods(state, object);
    let succeeded = count_in_phase(&pods, "Succeeded");
    let left = match object.integer("/spec/completions") {
        Some(completions) => completions - succeeded,
        None if succeeded > 0 => 0,
        None => i64::MAX,
    };
    let desired = usize::try_from(int_at(object, "/spec/parallelism", 1).min(left)).unwrap_or(0);
    let active = pods.iter().filter(|pod| is_active(pod)).count();
    for _ in active..desired {
        let name = format!("{}-{}", object.name(), state.rng.name_suffix(5));
        let labels = [("job-name", object.name()), ("batch.kubernetes.io/job-name", object.name())];
        state.create_pod(stored, name, &labels);
    }
}

fn write_status(
    state: &mut SimState,
    key: &ObjectKey,
    object: &Object,
    end: Option<&JobResult>,
    suspended: bool,
) {
    let now = state.timestamp();
    let pods = list_pods(state, object);
    let active = pods.iter().filter(|pod| is_active(pod)).count();
    let mut status: Map<String, Value> = [
        ("active", active.into()),
        ("ready", pods.iter().filter(|pod| is_active(pod) && pod.is_ready).count().into()),
        ("succeeded", count_in_phase(&pods, "Succeeded").into()),
        ("failed", count_in_phase(&pods, "Failed").into()),
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
        conditions.push(build_condition(object, "Suspended", "True", "JobSuspended", "Job suspended", &now));
    } else if list_at(object, "/status/conditions").iter().any(|known| known["type"] == "Suspended") {
        conditions.push(build_condition(object, "Suspended", "False", "JobResumed", "Job resumed", &now));
    }
    if let Some(JobResult { kind, reason, message }) = end {
        let interim = if *kind == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
        conditions.push(build_condition(object, interim, "True", reason, message, &now));
        conditions.push(build_condition(object, kind, "True", reason, message, &now));
        if *kind == "Complete" {
            status.insert("completionTime".to_owned(), rfc3339(state.now).into());
        }
    }
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), conditions.into());
    }
    state.set_status(key, json!(status));
}

/// Deletes a finished Job when its TTL has expired.
fn delete_after_ttl(state: &mut SimState, key: &ObjectKey, object: &Object) -> Option<Timestamp> {
    let keep = duration_field(object, "ttlSecondsAfterFinished")?;
    let ends = list_at(object, "/status/conditions")
        .iter()
        .filter(|known| known["type"] == "Complete" || known["type"] == "Failed");
    let ended =
        ends.filter_map(|known| known["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok()).max()?;
    let until = ended + keep;
    if until > state.now {
        return Some(until);
    }
    state.start_deletion(key, Propagation::Foreground);
    None
}
