//! Job and CronJob.

use tidegate_model::{Object, Timestamp};

use crate::HealthError;
use crate::fields::Node;
use crate::verdict::{Verdict, degraded, first_non_blank, healthy, progressing, require_version, suspended};

/// Returns the health of a Job, based on its conditions.
///
/// `Failed` and `Complete` count whatever their status, because the controller sets each of them once and
/// never resets it. `Suspended` counts only while `True`, because it becomes `False` when a suspended Job
/// resumes. (Argo CD treats a resumed Job as complete while it is still running, so its gate opens too
/// early.)
pub(crate) fn job(object: &Object) -> Verdict {
    require_version(object, &["v1"], "batch/v1")?;
    let node = Node::for_object(object);
    let conditions = node.conditions()?;
    let last = |kind: &str| conditions.iter().rev().find(|condition| condition.kind == kind);
    if let Some(failed) = last("Failed") {
        return degraded(first_non_blank(&[failed.message, failed.reason, "Job failed"]));
    }
    if let Some(paused) = last("Suspended").filter(|condition| condition.status == "True") {
        return suspended(first_non_blank(&[paused.message, "Job suspended"]));
    }
    if let Some(complete) = last("Complete") {
        return healthy(first_non_blank(&[complete.message, "Job completed"]));
    }
    let succeeded = node.count("status.succeeded")?;
    let wanted = node.integer("spec.completions")?.unwrap_or(1);
    let mut waiting = format!("Waiting for completion: {succeeded} of {wanted} pods succeeded");
    for (count, word) in [(node.count("status.active")?, "active"), (node.count("status.failed")?, "failed")]
    {
        if count > 0 {
            waiting.push_str(&format!(", {count} {word}"));
        }
    }
    progressing(waiting)
}

/// Returns the health of a CronJob, based on its last finished run.
pub(crate) fn cron_job(object: &Object) -> Verdict {
    let node = Node::for_object(object);
    if node.boolean("spec.suspend")? {
        return healthy("CronJob is suspended");
    }
    if !node.has("status")? {
        return progressing("Waiting for the controller to observe the CronJob");
    }
    let scheduled = time(node, "status.lastScheduleTime")?;
    let succeeded = time(node, "status.lastSuccessfulTime")?;
    if node.list("status.active")?.len() > 0 {
        return healthy("CronJob has running jobs");
    }
    match (scheduled, succeeded) {
        (None, _) => healthy("CronJob has not been scheduled yet"),
        (Some(_), None) => healthy("CronJob has been scheduled but has not succeeded yet"),
        (Some(scheduled), Some(succeeded)) if succeeded < scheduled => degraded(format!(
            "The run scheduled at {scheduled} did not succeed; the last success was at {succeeded}"
        )),
        (Some(_), Some(succeeded)) => healthy(format!("Last run succeeded at {succeeded}")),
    }
}

fn time(node: Node<'_>, field: &'static str) -> Result<Option<Timestamp>, HealthError> {
    match node.text(field)? {
        "" => Ok(None),
        text => {
            text.parse().map(Some).map_err(|_| HealthError::InvalidTime { field, found: text.to_owned() })
        }
    }
}
