//! Kinds of `argoproj.io`. Application itself has no rule: an application of applications does not wait for them
//! unless it is told to.

use tidegate_model::Object;

use crate::HealthError;
use crate::fields::Node;
use crate::verdict::{Verdict, degraded, first_of, healthy, progressing, suspended, unknown};

pub(crate) fn workflow(object: &Object) -> Verdict {
    let node = Node::of(object);
    let message = node.text("status.message")?;
    match node.text("status.phase")? {
        "" | "Pending" => progressing(first_of(&[message, "Waiting for the workflow to start"])),
        "Running" => progressing(first_of(&[message, "Waiting for the workflow to complete"])),
        "Succeeded" => healthy(first_of(&[message, "Workflow succeeded"])),
        "Failed" => degraded(first_of(&[message, "Workflow failed"])),
        "Error" => degraded(first_of(&[message, "Workflow ended in an error"])),
        other => unknown(first_of(&[message, &format!("Workflow has the unrecognised phase {other:?}")])),
    }
}

/// A Rollout is judged by its phase once the controller has seen the newest spec. Controllers before 1.0 write no
/// phase; then replicas are counted.
pub(crate) fn rollout(object: &Object) -> Verdict {
    let node = Node::of(object);
    let conditions = node.conditions()?;
    if let Some(invalid) = conditions.iter().find(|condition| condition.is_true("InvalidSpec")) {
        return degraded(first_of(&[invalid.message, "Rollout has an invalid spec"]));
    }
    let message = node.text("status.message")?;
    if node.boolean("spec.paused")? || node.list("status.pauseConditions")?.len() > 0 {
        return suspended(first_of(&[message, "Rollout is paused"]));
    }
    if let Some(waiting) = rollout_not_observed(object, node)? {
        return progressing(waiting);
    }
    match node.text("status.phase")? {
        "Healthy" => healthy(first_of(&[message, "Rollout is healthy"])),
        "Paused" => suspended(first_of(&[message, "Rollout is paused"])),
        "Degraded" => degraded(first_of(&[message, "Rollout failed"])),
        "Progressing" => progressing(first_of(&[message, "Waiting for rollout"])),
        "" => rollout_replicas(node),
        other => unknown(format!("Rollout has the unrecognised phase {other:?}")),
    }
}

fn rollout_replicas(node: Node<'_>) -> Verdict {
    let wanted = node.integer("spec.replicas")?.unwrap_or(1);
    let updated = node.count("status.updatedReplicas")?;
    let available = node.count("status.availableReplicas")?;
    if updated < wanted {
        return progressing(format!("Waiting for rollout: {updated} of {wanted} replicas updated"));
    }
    if available < wanted {
        return progressing(format!("Waiting for rollout: {available} of {wanted} replicas available"));
    }
    healthy(format!("{available} of {wanted} replicas available"))
}

/// Rollouts write the generation they have seen as a text. Controllers before 1.0 wrote a hash there, which tells
/// nothing.
fn rollout_not_observed(object: &Object, node: Node<'_>) -> Result<Option<String>, HealthError> {
    let generation = object.generation();
    let observed = match node.text("status.observedGeneration")? {
        "" => Some(0),
        text => text.parse::<i64>().ok(),
    };
    Ok(observed
        .filter(|observed| generation > *observed)
        .map(|_| format!("Waiting for the controller to see generation {generation}")))
}

pub(crate) fn application_set(object: &Object) -> Verdict {
    let conditions = Node::of(object).conditions()?;
    let find = |kind: &str, status: &str| {
        conditions.iter().find(|condition| condition.kind == kind && condition.status == status)
    };
    let text = |message, fallback| first_of(&[message, fallback]);
    if let Some(condition) = find("ErrorOccurred", "True") {
        return degraded(text(condition.message, "ApplicationSet could not be generated"));
    }
    if let Some(condition) = find("ResourcesUpToDate", "False") {
        return degraded(text(condition.message, "Applications are not up to date"));
    }
    if let Some(condition) = find("RolloutProgressing", "True") {
        return progressing(text(condition.message, "Waiting for the rollout of applications"));
    }
    match find("ResourcesUpToDate", "True") {
        Some(condition) => healthy(text(condition.message, "Applications are up to date")),
        None => progressing("Waiting for the status to be reported"),
    }
}
