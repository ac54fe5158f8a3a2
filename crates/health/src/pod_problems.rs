//! Reasons for unhealthy workloads, derived from their pods: a short sentence for users, never the basis of a
//! decision.

use serde_json::Value;
use tidegate_model::{Gvk, Object};

use crate::text::shorten_sentence;

/// Returns true if objects of the kind run pods that can explain their health.
pub fn runs_pods(gvk: &Gvk) -> bool {
    matches!(
        (gvk.group.as_str(), gvk.kind.as_str()),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
            | ("batch", "Job")
            | ("", "Pod" | "ReplicationController")
            | ("argoproj.io", "Rollout")
    )
}

/// Severity of a pod problem, from mildest to worst. Only the worst problem is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ProblemSeverity {
    NotReady,
    Restarted,
    Unschedulable,
    CannotStart,
    Failed,
    ImagePullFailed,
    CrashLoop,
}

/// Problem with a pod.
struct PodProblem {
    severity: ProblemSeverity,
    /// Number of restarts. Among equally severe problems, the most restarts win.
    restarts: i64,
    pod: String,
    sentence: String,
}

/// Returns a short sentence about an unhealthy workload: the reason its pods can't be created (such as a
/// quota), or the problem with its existing pods.
pub fn workload_reason(workload: &Object, pods: &[Object]) -> Option<String> {
    replica_failure(workload).or_else(|| pods_reason(pods))
}

/// Returns the message of a workload if the API server rejects its pods.
fn replica_failure(workload: &Object) -> Option<String> {
    let conditions = workload.pointer("/status/conditions")?.as_array()?;
    let failure = conditions
        .iter()
        .find(|condition| condition["type"] == "ReplicaFailure" && condition["status"] == "True")?;
    let words = |field: &str| failure[field].as_str().filter(|text| !text.is_empty());
    words("message").or_else(|| words("reason")).map(|text| shorten_sentence(text.to_owned()))
}

/// Returns a short sentence about a workload's unhealthy pods: `api-7f is crash-looping (exit 1, restarted 4
/// times); 2 more pods are unhealthy`. Returns `None` without problems, or if the pods are just starting.
///
/// Ignores fields of the wrong type, because the sentence is only a hint, not a health result.
pub fn pods_reason(pods: &[Object]) -> Option<String> {
    let mut troubles: Vec<PodProblem> = pods.iter().filter_map(pod_problem).collect();
    troubles.sort_by(|a, b| (b.severity, b.restarts, &a.pod).cmp(&(a.severity, a.restarts, &b.pod)));
    let worst = troubles.first()?;
    let mut sentence = format!("{} {}", worst.pod, worst.sentence);
    match troubles.len().saturating_sub(1) {
        0 => {}
        1 => sentence.push_str("; 1 more pod is unhealthy"),
        more => sentence.push_str(&format!("; {more} more pods are unhealthy")),
    }
    Some(shorten_sentence(sentence))
}

/// Returns true if a pod is neither ready nor finished.
pub fn is_waiting_pod(pod: &Object) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    !pod.is_deleting()
        && !matches!(pod.text("/status/phase"), "Succeeded" | "Failed")
        && !conditions.into_iter().flatten().any(is_ready)
}

fn pod_problem(pod: &Object) -> Option<PodProblem> {
    if pod.is_deleting() || pod.text("/status/phase") == "Succeeded" {
        return None;
    }
    let containers = || {
        ["/status/initContainerStatuses", "/status/containerStatuses"]
            .into_iter()
            .filter_map(|list| pod.pointer(list)?.as_array())
            .flatten()
    };
    let restarts = containers().filter_map(|container| container["restartCount"].as_i64()).max().unwrap_or(0);
    let problems = containers().filter_map(container_problem).chain(pod_level_problem(pod));
    let (rank, sentence) = problems.max_by_key(|(rank, _)| *rank)?;
    Some(PodProblem { severity: rank, restarts, pod: pod.name().to_owned(), sentence })
}

/// Returns a pod's problem that isn't caused by one of its containers.
fn pod_level_problem(pod: &Object) -> Option<(ProblemSeverity, String)> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let condition = |kind: &str| {
        conditions.clone().find(|condition| condition["type"] == kind && condition["status"] == "False")
    };
    match pod.text("/status/phase") {
        "Failed" => {
            let message = first_non_empty(&[pod.text("/status/message"), pod.text("/status/reason")]);
            let why = if message.is_empty() { String::new() } else { format!(" ({message})") };
            Some((ProblemSeverity::NotReady, format!("has failed{why}")))
        }
        "Running" if pod.text("/spec/restartPolicy") == "Always" => {
            condition("Ready").map(|_| (ProblemSeverity::NotReady, "is running but not ready".to_owned()))
        }
        _ => {
            let unscheduled =
                condition("PodScheduled").filter(|unscheduled| unscheduled["reason"] == "Unschedulable")?;
            Some((
                ProblemSeverity::Unschedulable,
                format!("cannot be scheduled: {}", text_at(unscheduled, "message")),
            ))
        }
    }
}

/// Returns the problem with a container, if any.
fn container_problem(status: &Value) -> Option<(ProblemSeverity, String)> {
    let name = text_at(status, "name");
    let waiting = at(status, "/state/waiting");
    let restarts = status["restartCount"].as_i64().unwrap_or(0);
    match text_at(waiting, "reason") {
        "CrashLoopBackOff" => {
            let exit = exit_text(at(status, "/lastState/terminated"));
            let details: Vec<String> = exit.into_iter().chain(restarts_text(restarts)).collect();
            Some((ProblemSeverity::CrashLoop, format!("is crash-looping{}", in_brackets(&details))))
        }
        reason @ ("ImagePullBackOff"
        | "ErrImagePull"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "RegistryUnavailable") => {
            let image = text_at(status, "image");
            let message = first_non_empty(&[text_at(waiting, "message"), reason]);
            Some((ProblemSeverity::ImagePullFailed, format!("cannot pull image {image}: {message}")))
        }
        reason if reason.ends_with("Error") => {
            let message = first_non_empty(&[text_at(waiting, "message"), reason]);
            Some((ProblemSeverity::CannotStart, format!("cannot start container {name}: {message}")))
        }
        _ => termination_problem(status, restarts),
    }
}

/// Returns the problem with a container that has failed, now or before its last restart.
fn termination_problem(status: &Value, restarts: i64) -> Option<(ProblemSeverity, String)> {
    if let Some(exit) = exit_text(at(status, "/state/terminated")) {
        let said = text_at(at(status, "/state/terminated"), "message").trim();
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        return Some((ProblemSeverity::Failed, format!("has failed ({exit}){said}")));
    }
    let exit = exit_text(at(status, "/lastState/terminated"))?;
    let again = restarts_text(restarts)?;
    (status["ready"] != true).then(|| (ProblemSeverity::Restarted, format!("was {again} ({exit})")))
}

/// Returns `exit 1`, or a more specific reason. Returns `None` if the container exited successfully.
fn exit_text(terminated: &Value) -> Option<String> {
    let code = terminated["exitCode"].as_i64()?;
    match text_at(terminated, "reason") {
        "" | "Error" | "Completed" => (code != 0).then(|| format!("exit {code}")),
        reason => Some(format!("{reason}, exit {code}")),
    }
}

fn restarts_text(restarts: i64) -> Option<String> {
    match restarts {
        ..=0 => None,
        1 => Some("restarted once".to_owned()),
        more => Some(format!("restarted {more} times")),
    }
}

fn in_brackets(details: &[String]) -> String {
    if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) }
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

fn text_at<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn first_non_empty<'a>(texts: &[&'a str]) -> &'a str {
    texts.iter().copied().find(|text| !text.trim().is_empty()).unwrap_or_default()
}
