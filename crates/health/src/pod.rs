//! Pod.

use tidegate_model::Object;

use crate::HealthError;
use crate::fields::Node;
use crate::verdict::{Verdict, degraded, first_of, healthy, progressing, require_version, unknown};

pub(crate) fn pod(object: &Object) -> Verdict {
    require_version(object, &["v1"], "v1")?;
    let node = Node::of(object);
    let policy = node.text("spec.restartPolicy")?;
    // A pod that runs once may be a hook. An image that cannot be pulled yet must not fail it, or the pod would run
    // after the operation was called off.
    if policy == "Always" {
        let stuck = stuck_containers(node)?;
        if !stuck.is_empty() {
            return degraded(stuck.join(", "));
        }
    }
    let message = node.text("status.message")?;
    match node.text("status.phase")? {
        "Pending" => progressing(first_of(&[message, &pending_reason(node)?])),
        "Succeeded" => healthy(first_of(&[message, "Pod succeeded"])),
        "Failed" => degraded(failure(node)?),
        "Running" => running(node, policy, message),
        "" => unknown(first_of(&[message, "Pod has no phase"])),
        other => unknown(first_of(&[message, &format!("Pod has the unrecognised phase {other:?}")])),
    }
}

fn running(node: Node<'_>, policy: &str, message: &str) -> Verdict {
    match policy {
        "Always" => {
            if node.conditions()?.iter().any(|condition| condition.is_true("Ready")) {
                return healthy(first_of(&[message, "Pod is ready"]));
            }
            for container in node.list("status.containerStatuses")? {
                if container.has("lastState.terminated")? {
                    let fallback =
                        format!("container {:?} was restarted and is not ready", container.text("name")?);
                    return degraded(first_of(&[message, &fallback]));
                }
            }
            progressing(first_of(&[message, "Waiting for the pod to become ready"]))
        }
        "OnFailure" | "Never" => progressing(first_of(&[message, "Waiting for the pod to complete"])),
        other => unknown(first_of(&[message, &format!("Pod has the unrecognised restart policy {other:?}")])),
    }
}

/// What the containers that wait because of an error say. Init containers are not asked.
fn stuck_containers(node: Node<'_>) -> Result<Vec<&str>, HealthError> {
    let mut messages = Vec::new();
    for container in node.list("status.containerStatuses")? {
        let reason = container.text("state.waiting.reason")?;
        if reason.starts_with("Err") || reason.ends_with("Error") || reason.ends_with("BackOff") {
            messages.push(first_of(&[container.text("state.waiting.message")?, reason]));
        }
    }
    Ok(messages)
}

/// Why a pending pod does not start, as far as its status tells.
fn pending_reason(node: Node<'_>) -> Result<String, HealthError> {
    for statuses in ["status.initContainerStatuses", "status.containerStatuses"] {
        for container in node.list(statuses)? {
            let reason = container.text("state.waiting.reason")?;
            if !reason.is_empty() {
                return Ok(format!("Waiting for container {:?}: {reason}", container.text("name")?));
            }
        }
    }
    let conditions = node.conditions()?;
    let unscheduled = conditions.iter().find(|condition| condition.is_false("PodScheduled"));
    Ok(match unscheduled.map(|condition| first_of(&[condition.message, condition.reason])) {
        Some(why) if !why.is_empty() => format!("Waiting to be scheduled: {why}"),
        _ => "Waiting for the pod to start".to_owned(),
    })
}

/// Why a failed pod failed: its own message, else the first container that says something.
fn failure(node: Node<'_>) -> Result<String, HealthError> {
    let message = node.text("status.message")?;
    if !message.trim().is_empty() {
        return Ok(message.to_owned());
    }
    for statuses in ["status.initContainerStatuses", "status.containerStatuses"] {
        for container in node.list(statuses)? {
            if let Some(text) = container_failure(container)? {
                return Ok(text);
            }
        }
    }
    Ok(first_of(&[node.text("status.reason")?, "Pod failed"]).to_owned())
}

fn container_failure(container: Node<'_>) -> Result<Option<String>, HealthError> {
    let message = container.text("state.terminated.message")?;
    if !message.trim().is_empty() {
        return Ok(Some(message.to_owned()));
    }
    if container.text("state.terminated.reason")? == "OOMKilled" {
        return Ok(Some("OOMKilled".to_owned()));
    }
    let code = container.count("state.terminated.exitCode")?;
    let name = container.text("name")?;
    Ok((code != 0).then(|| format!("container {name:?} failed with exit code {code}")))
}
