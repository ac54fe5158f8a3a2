//! Pod.

use tidegate_model::Object;

use crate::HealthError;
use crate::fields::Node;
use crate::verdict::{Verdict, degraded, first_non_blank, healthy, progressing, require_version, unknown};

pub(crate) fn pod(object: &Object) -> Verdict {
    require_version(object, &["v1"], "v1")?;
    let node = Node::for_object(object);
    let policy = node.text("spec.restartPolicy")?;
    // A pod that runs to completion may be a hook. A failed image pull must not fail the hook, because the
    // pod could still start after the operation has finished.
    if policy == "Always" {
        let stuck = stuck_containers(node)?;
        if !stuck.is_empty() {
            return degraded(stuck.join(", "));
        }
    }
    let message = node.text("status.message")?;
    match node.text("status.phase")? {
        "Pending" => progressing(first_non_blank(&[message, &pending_reason(node)?])),
        "Succeeded" => healthy(first_non_blank(&[message, "Pod succeeded"])),
        "Failed" => degraded(pod_failure(node)?),
        "Running" => running_pod(node, policy, message),
        "" => unknown(first_non_blank(&[message, "Pod has no phase"])),
        other => unknown(first_non_blank(&[message, &format!("Unrecognized pod phase {other:?}")])),
    }
}

fn running_pod(node: Node<'_>, policy: &str, message: &str) -> Verdict {
    match policy {
        "Always" => {
            if node.conditions()?.iter().any(|condition| condition.is_true("Ready")) {
                return healthy(first_non_blank(&[message, "Pod is ready"]));
            }
            for container in node.list("status.containerStatuses")? {
                if container.has("lastState.terminated")? {
                    let fallback =
                        format!("container {:?} was restarted and is not ready", container.text("name")?);
                    return degraded(first_non_blank(&[message, &fallback]));
                }
            }
            progressing(first_non_blank(&[message, "Waiting for the pod to become ready"]))
        }
        "OnFailure" | "Never" => progressing(first_non_blank(&[message, "Waiting for the pod to complete"])),
        other => unknown(first_non_blank(&[message, &format!("Unrecognized restart policy {other:?}")])),
    }
}

/// Returns the messages of containers that are waiting because of an error, ignoring init containers.
fn stuck_containers(node: Node<'_>) -> Result<Vec<&str>, HealthError> {
    let mut messages = Vec::new();
    for container in node.list("status.containerStatuses")? {
        let reason = container.text("state.waiting.reason")?;
        if reason.starts_with("Err") || reason.ends_with("Error") || reason.ends_with("BackOff") {
            messages.push(first_non_blank(&[container.text("state.waiting.message")?, reason]));
        }
    }
    Ok(messages)
}

/// Returns the reason a pending pod doesn't start, if its status has one.
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
    Ok(match unscheduled.map(|condition| first_non_blank(&[condition.message, condition.reason])) {
        Some(why) if !why.is_empty() => format!("Waiting to be scheduled: {why}"),
        _ => "Waiting for the pod to start".to_owned(),
    })
}

/// Returns the reason a pod failed: its own message, or that of the first container with one.
fn pod_failure(node: Node<'_>) -> Result<String, HealthError> {
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
    Ok(first_non_blank(&[node.text("status.reason")?, "Pod failed"]).to_owned())
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
