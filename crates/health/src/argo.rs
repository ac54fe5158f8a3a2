//! Kinds in the `argoproj.io` group. Application has no rule: an app of apps waits for its children only if
//! configured to.

use tidegate_model::Object;

use crate::HealthError;
use crate::fields::{Condition, Node};
use crate::verdict::{Verdict, degraded, first_non_blank, healthy, progressing, suspended, unknown};

pub(crate) fn workflow(object: &Object) -> Verdict {
    let node = Node::for_object(object);
    let message = node.text("status.message")?;
    match node.text("status.phase")? {
        "" | "Pending" => progressing(first_non_blank(&[message, "Waiting for the workflow to start"])),
        "Running" => progressing(first_non_blank(&[message, "Waiting for the workflow to complete"])),
        "Succeeded" => healthy(first_non_blank(&[message, "Workflow succeeded"])),
        "Failed" => degraded(first_non_blank(&[message, "Workflow failed"])),
        "Error" => degraded(first_non_blank(&[message, "Workflow ended in an error"])),
        other => unknown(first_non_blank(&[message, &format!("Unrecognized workflow phase {other:?}")])),
    }
}

/// Returns the health of a Rollout, which follows its phase once the controller has observed the newest spec.
/// Controllers before 1.0 don't write a phase, so the number of replicas is used instead.
pub(crate) fn rollout(object: &Object) -> Verdict {
    let node = Node::for_object(object);
    let conditions = node.conditions()?;
    if let Some(invalid) = conditions.iter().find(|condition| condition.is_true("InvalidSpec")) {
        return degraded(first_non_blank(&[invalid.message, "Rollout has an invalid spec"]));
    }
    let message = node.text("status.message")?;
    if node.boolean("spec.paused")? || node.list("status.pauseConditions")?.len() > 0 {
        return suspended(first_non_blank(&[message, "Rollout is paused"]));
    }
    if let Some(waiting) = rollout_not_observed(object, node)? {
        return progressing(waiting);
    }
    if workload_not_observed(object, node)? {
        return progressing("Waiting for the controller to observe the newest workload");
    }
    match node.text("status.phase")? {
        "Healthy" => healthy(first_non_blank(&[message, "Rollout is healthy"])),
        "Paused" => suspended(first_non_blank(&[message, "Rollout is paused"])),
        "Degraded" => degraded(first_non_blank(&[message, "Rollout failed"])),
        "Progressing" => progressing(first_non_blank(&[message, "Waiting for rollout"])),
        "" => rollout_without_phase(node, &conditions),
        other => unknown(format!("Unrecognized rollout phase {other:?}")),
    }
}

/// Returns the health of a Rollout from a controller before 1.0.
fn rollout_without_phase(node: Node<'_>, conditions: &[Condition<'_>]) -> Verdict {
    let ended = ["RolloutAborted", "ProgressDeadlineExceeded"];
    if let Some(failed) = conditions
        .iter()
        .find(|condition| condition.kind == "Progressing" && ended.contains(&condition.reason))
    {
        return degraded(first_non_blank(&[failed.message, failed.reason]));
    }
    let wanted = node.integer("spec.replicas")?.unwrap_or(1);
    let total = node.count("status.replicas")?;
    let updated = node.count("status.updatedReplicas")?;
    let available = node.count("status.availableReplicas")?;
    let newest = node.text("status.currentPodHash")?;
    let stable = first_non_blank(&[node.text("status.stableRS")?, node.text("status.canary.stableRS")?]);
    if updated < wanted {
        return progressing(format!("Waiting for rollout: {updated} of {wanted} replicas updated"));
    }
    if available < updated {
        return progressing(format!("Waiting for rollout: {available} of {updated} replicas available"));
    }
    if newest.is_empty() {
        return progressing("Waiting for the status to be reported");
    }
    if node.has("spec.strategy.blueGreen")? {
        if node.text("status.blueGreen.activeSelector")? != newest {
            return progressing("Waiting for rollout: the active Service does not select the new pods yet");
        }
        if !stable.is_empty() && stable != newest {
            return progressing("Waiting for rollout: the analysis has not finished");
        }
    } else if node.has("spec.strategy.canary")? {
        if total > updated {
            return progressing(format!(
                "Waiting for rollout: {} old replicas pending termination",
                total.saturating_sub(updated)
            ));
        }
        if stable != newest {
            return progressing("Waiting for rollout: not all steps are done");
        }
    }
    healthy(format!("{available} of {wanted} replicas available"))
}

/// Returns true if the controller hasn't observed the newest version of the workload behind the Rollout's
/// template. It writes the observed generation as a string.
fn workload_not_observed(object: &Object, node: Node<'_>) -> Result<bool, HealthError> {
    let Some(generation) = object.annotation("rollout.argoproj.io/workload-generation") else {
        return Ok(false);
    };
    let observed = node.text("status.workloadObservedGeneration")?;
    Ok(node.has("spec.workloadRef")? && generation != observed)
}

/// Returns a message if the controller hasn't observed the newest spec of a Rollout. It writes the observed
/// generation as a string. Controllers before 1.0 wrote a hash instead, which is ignored.
fn rollout_not_observed(object: &Object, node: Node<'_>) -> Result<Option<String>, HealthError> {
    let generation = object.generation();
    let observed = match node.text("status.observedGeneration")? {
        "" => Some(0),
        text => text.parse::<i64>().ok(),
    };
    Ok(observed
        .filter(|observed| generation > *observed)
        .map(|_| format!("Waiting for the controller to observe generation {generation}")))
}

pub(crate) fn application_set(object: &Object) -> Verdict {
    let conditions = Node::for_object(object).conditions()?;
    let find = |kind: &str, status: &str| {
        conditions.iter().find(|condition| condition.kind == kind && condition.status == status)
    };
    let text = |message, fallback| first_non_blank(&[message, fallback]);
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
