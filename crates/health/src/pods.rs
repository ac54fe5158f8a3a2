//! Why a workload is not well, as its pods tell: one short sentence for people. Nothing is decided by it.

use serde_json::Value;
use tidegate_model::{Gvk, Object};

/// Longest sentence: it is recorded, and shown on one line.
const SENTENCE_MAX: usize = 300;

/// Whether objects of a kind run pods that may tell why they are not well.
pub fn runs_pods(gvk: &Gvk) -> bool {
    matches!(
        (gvk.group.as_str(), gvk.kind.as_str()),
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
            | ("batch", "Job")
            | ("", "Pod" | "ReplicationController")
            | ("argoproj.io", "Rollout")
    )
}

/// How bad the trouble of a pod is; the worst is told. Later is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    NotReady,
    Restarted,
    Unschedulable,
    CannotStart,
    Failed,
    Image,
    CrashLoop,
}

/// What is wrong with one pod.
struct Trouble {
    rank: Rank,
    /// Among equals, the one with more restarts is told.
    restarts: i64,
    pod: String,
    sentence: String,
}

/// Says in one short sentence why a workload is not well: why its pods cannot be made (a quota, for one), else what the
/// pods tell that there are.
pub fn workload_reason(workload: &Object, pods: &[Object]) -> Option<String> {
    replica_failure(workload).or_else(|| pods_reason(pods))
}

/// The words of a workload whose pods the server refuses.
fn replica_failure(workload: &Object) -> Option<String> {
    let conditions = workload.pointer("/status/conditions")?.as_array()?;
    let failure = conditions
        .iter()
        .find(|condition| condition["type"] == "ReplicaFailure" && condition["status"] == "True")?;
    let words = |field: &str| failure[field].as_str().filter(|text| !text.is_empty());
    words("message").or_else(|| words("reason")).map(|text| shortened(text.to_owned()))
}

/// Says in one short sentence why the pods of a workload are not well: `api-7f is crash-looping (exit 1, restarted 4
/// times); 2 more pods are not well`. `None` when they have nothing to complain of, or are just being started.
///
/// Fields of the wrong type are passed over: this is a hint, and no verdict.
pub fn pods_reason(pods: &[Object]) -> Option<String> {
    let mut troubles: Vec<Trouble> = pods.iter().filter_map(trouble).collect();
    troubles.sort_by(|a, b| (b.rank, b.restarts, &a.pod).cmp(&(a.rank, a.restarts, &b.pod)));
    let worst = troubles.first()?;
    let mut sentence = format!("{} {}", worst.pod, worst.sentence);
    match troubles.len().saturating_sub(1) {
        0 => {}
        1 => sentence.push_str("; 1 more pod is not well"),
        more => sentence.push_str(&format!("; {more} more pods are not well")),
    }
    Some(shortened(sentence))
}

fn trouble(pod: &Object) -> Option<Trouble> {
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
    let told = containers().filter_map(container).chain(whole(pod));
    let (rank, sentence) = told.max_by_key(|(rank, _)| *rank)?;
    Some(Trouble { rank, restarts, pod: pod.name().to_owned(), sentence })
}

/// What a pod tells besides its containers.
fn whole(pod: &Object) -> Option<(Rank, String)> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let condition = |kind: &str| {
        conditions.clone().find(|condition| condition["type"] == kind && condition["status"] == "False")
    };
    match pod.text("/status/phase") {
        "Failed" => {
            let message = first(&[pod.text("/status/message"), pod.text("/status/reason")]);
            let why = if message.is_empty() { String::new() } else { format!(" ({message})") };
            Some((Rank::NotReady, format!("has failed{why}")))
        }
        "Running" if pod.text("/spec/restartPolicy") == "Always" => {
            condition("Ready").map(|_| (Rank::NotReady, "runs and is not ready".to_owned()))
        }
        _ => {
            let unscheduled =
                condition("PodScheduled").filter(|unscheduled| unscheduled["reason"] == "Unschedulable")?;
            Some((Rank::Unschedulable, format!("cannot be scheduled: {}", words(unscheduled, "message"))))
        }
    }
}

/// What one container tells.
fn container(status: &Value) -> Option<(Rank, String)> {
    let name = words(status, "name");
    let waiting = at(status, "/state/waiting");
    let restarts = status["restartCount"].as_i64().unwrap_or(0);
    match words(waiting, "reason") {
        "CrashLoopBackOff" => {
            let exit = exit(at(status, "/lastState/terminated"));
            let details: Vec<String> = exit.into_iter().chain(restarted(restarts)).collect();
            Some((Rank::CrashLoop, format!("is crash-looping{}", bracketed(&details))))
        }
        reason @ ("ImagePullBackOff"
        | "ErrImagePull"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "RegistryUnavailable") => {
            let image = words(status, "image");
            let message = first(&[words(waiting, "message"), reason]);
            Some((Rank::Image, format!("cannot pull image {image}: {message}")))
        }
        reason if reason.ends_with("Error") => {
            let message = first(&[words(waiting, "message"), reason]);
            Some((Rank::CannotStart, format!("cannot start container {name}: {message}")))
        }
        _ => ended(status, restarts),
    }
}

/// A container that ended badly, now or before it was started again.
fn ended(status: &Value, restarts: i64) -> Option<(Rank, String)> {
    if let Some(exit) = exit(at(status, "/state/terminated")) {
        let said = words(at(status, "/state/terminated"), "message").trim();
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        return Some((Rank::Failed, format!("has failed ({exit}){said}")));
    }
    let exit = exit(at(status, "/lastState/terminated"))?;
    let again = restarted(restarts)?;
    (status["ready"] != true).then(|| (Rank::Restarted, format!("was {again} ({exit})")))
}

/// `exit 1`, or the reason that says more. `None` for a good end.
fn exit(terminated: &Value) -> Option<String> {
    let code = terminated["exitCode"].as_i64()?;
    match words(terminated, "reason") {
        "" | "Error" | "Completed" => (code != 0).then(|| format!("exit {code}")),
        reason => Some(format!("{reason}, exit {code}")),
    }
}

fn restarted(restarts: i64) -> Option<String> {
    match restarts {
        ..=0 => None,
        1 => Some("restarted once".to_owned()),
        more => Some(format!("restarted {more} times")),
    }
}

fn bracketed(details: &[String]) -> String {
    if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) }
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    value.pointer(path).unwrap_or(&Value::Null)
}

fn words<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn first<'a>(texts: &[&'a str]) -> &'a str {
    texts.iter().copied().find(|text| !text.trim().is_empty()).unwrap_or_default()
}

/// One line of a bounded length.
fn shortened(sentence: String) -> String {
    let line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SENTENCE_MAX {
        return line;
    }
    line.chars().take(SENTENCE_MAX.saturating_sub(1)).chain(['…']).collect()
}
