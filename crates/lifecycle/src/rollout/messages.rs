//! Messages, which users' scripts may match. They are identical to Argo CD's
//! (`status.applicationStatus[].message`) for states that exist there too.

use std::time::Duration;

use tidegate_model::format_duration;

use super::state::{Cause, End, Member, Progress, Rollout, StopOutcome, WorkKind};
use crate::fleet::{Attribution, format_application_count, join_names, step_name};

/// Reason in the `operation.info` of every operation that a rollout starts.
pub const OPERATION_REASON: &str = "ApplicationSet RollingSync triggered a sync of this Application resource";

pub(super) const COMPLETED_MESSAGE: &str = "ApplicationSet Rollout has completed";
pub(super) const SUPERSEDED_MESSAGE: &str =
    "the ApplicationSet has new targets; a new rollout will deploy them";
pub(super) const NO_PREVIOUS_DEPLOYMENT: &str = "there is no previous deployment to roll back to";

pub(super) const RESYNC_MESSAGE: &str = "Application needs another sync, setting status to Waiting";

/// Prefix of a delay caused by a missing approval.
const APPROVAL_PREFIX: &str = "the approval of its plan: ";

/// Describes the delay caused by a missing approval.
pub(super) fn missing_approval_message(plan: &str) -> String {
    format!("{APPROVAL_PREFIX}{plan}")
}

/// Returns true if a missing approval causes the delay.
pub(super) fn is_missing_approval(window: &str) -> bool {
    window.starts_with(APPROVAL_PREFIX)
}

/// Formats a delay for a message, with a sync window as the cause unless an approval is missing.
pub(super) fn delay_message(window: &str) -> String {
    if is_missing_approval(window) { window.to_owned() } else { format!("a sync window: {window}") }
}

pub(super) fn member_message(member: &Member) -> String {
    let same = "updating status from Pending to Progressing";
    match &member.progress {
        _ if member.place.step.is_none() => {
            "Application is not selected by any step of the rollout; sync it manually".to_owned()
        }
        Progress::Waiting if member.work == WorkKind::RollBack => "waiting for its rollback".to_owned(),
        Progress::Waiting => waiting_message(member).to_owned(),
        Progress::Promoted | Progress::Named { window: None, .. } => {
            "Application moved to Pending status, watching for the Application resource to start Progressing"
                .to_owned()
        }
        Progress::Named { window: Some(window), .. } => {
            format!("Application moved to Pending status, its sync is waiting for {}", delay_message(window))
        }
        Progress::Running { .. } => format!("Application resource became Progressing, {same}"),
        Progress::Settling { adopted: true, .. } => {
            "Application resource has synced, updating status to Progressing".to_owned()
        }
        Progress::Settling { .. } => format!("Application resource completed a sync successfully, {same}"),
        Progress::Failed { message, .. } => {
            format!("Application resource completed a sync, {same}; it failed: {message}")
        }
        Progress::Stopping { then, .. } => format!("its sync is being stopped{}", stop_outcome_message(then)),
        Progress::Healthy { .. } if member.touched => {
            "Application resource became Healthy, updating status from Progressing to Healthy".to_owned()
        }
        Progress::Healthy { .. } => "Application resource has synced, updating status to Healthy".to_owned(),
        Progress::RolledBack { .. } => "rolled back to its previous target".to_owned(),
        Progress::Assumed => "Application was Pending for too long, updating status to Healthy".to_owned(),
        Progress::Skipped(attribution) => format!("skipped by {}", attribution.display()),
        Progress::Gone => "no longer part of the ApplicationSet".to_owned(),
        Progress::Late => "added after its step had passed; the next rollout includes it".to_owned(),
    }
}

fn waiting_message(member: &Member) -> &'static str {
    let Some(before) = &member.before else {
        return "No Application status found, defaulting status to Waiting";
    };
    match (before.target.revisions == member.target.revisions, before.target.spec == member.target.spec) {
        (false, false) => {
            "Application has pending changes (revision and spec differ), setting status to Waiting"
        }
        (false, true) => "Application has pending changes, setting status to Waiting",
        (true, false) => "Application has pending changes (spec differs), setting status to Waiting",
        (true, true) => RESYNC_MESSAGE,
    }
}

fn stop_outcome_message(then: &StopOutcome) -> &'static str {
    match then {
        StopOutcome::Wait => "",
        StopOutcome::Fail { .. } => ", and the Application is treated as failed",
        StopOutcome::Assume => ", and the Application is treated as Healthy",
        StopOutcome::Skip(_) => ", and the Application is skipped",
        StopOutcome::Go => " because the Application no longer exists",
        StopOutcome::RollBack => ", and the Application is rolled back",
    }
}

pub(super) fn pending_timeout_message(timeout: Duration) -> String {
    format!("its sync did not start within {}", format_duration(timeout))
}

pub(super) fn terminated_message(attribution: &Attribution) -> String {
    format!("terminated by {}", attribution.display())
}

/// Returns the message of a completed rollout. Lists the Applications that aren't at their targets, grouped
/// by the reason.
pub(super) fn completed_message(rollout: &Rollout) -> String {
    let names_of = |is_it: fn(&Progress) -> bool| -> Vec<&str> {
        let members = rollout.members.iter().filter(|(_, member)| member.place.step.is_some());
        members.filter(|(_, member)| is_it(&member.progress)).map(|(name, _)| name.as_str()).collect()
    };
    let mut message = COMPLETED_MESSAGE.to_owned();
    for (what, names) in [
        ("failed", names_of(|progress| matches!(progress, Progress::Failed { .. }))),
        ("skipped", names_of(|progress| matches!(progress, Progress::Skipped(_)))),
        ("assumed Healthy", names_of(|progress| *progress == Progress::Assumed)),
        ("added too late", names_of(|progress| *progress == Progress::Late)),
        ("left the ApplicationSet", names_of(|progress| *progress == Progress::Gone)),
    ] {
        if !names.is_empty() {
            message = format!("{message}; {what}: {}", join_names(&names));
        }
    }
    message
}

pub(super) fn step_failed_message(rollout: &Rollout, step: u32, cause: Cause) -> String {
    let name = step_name(step, rollout.steps.len());
    let spec = rollout.step(step).map(|step| &step.step);
    match cause {
        Cause::Deadline => {
            let deadline = spec.and_then(|step| step.deadline).unwrap_or_default();
            let open: Vec<&str> = rollout
                .members_in_step(step)
                .filter(|(_, member)| !rollout.is_settled(member))
                .map(|(name, _)| name.as_str())
                .collect();
            format!(
                "{name} did not complete within {}; unfinished: {}",
                format_duration(deadline),
                join_names(&open)
            )
        }
        Cause::Failures(failures) => {
            let most = spec.and_then(|step| step.max_failures).unwrap_or_default();
            let failed: Vec<&str> = rollout
                .members_in_step(step)
                .filter(|(_, member)| matches!(member.progress, Progress::Failed { .. }))
                .map(|(name, _)| name.as_str())
                .collect();
            format!(
                "{} failed in {name} (maximum: {most}): {}",
                format_application_count(failures),
                join_names(&failed)
            )
        }
    }
}

/// Returns the message of a rollback, including its reason.
pub(super) fn rollback_message(rollout: &Rollout, step: u32) -> String {
    let failure = rollout.step(step).and_then(|step| step.failed.as_ref());
    let why = failure.map(|failure| format!(": {}", failure.message)).unwrap_or_default();
    format!("ApplicationSet is rolling back step {}{why}", step.saturating_add(1))
}

/// Returns the outcome and message of a finished rollback.
pub(super) fn rollback_outcome(rollout: &Rollout, step: u32) -> (End, String) {
    let name = step_name(step, rollout.steps.len());
    let failure = rollout.step(step).and_then(|step| step.failed.as_ref());
    let reason = failure.map(|failure| failure.message.as_str()).unwrap_or_default();
    let touched = || rollout.members_in_step(step).filter(|(_, member)| member.touched);
    let is_back = |member: &Member| {
        matches!(member.progress, Progress::RolledBack { .. } | Progress::Gone | Progress::Skipped(_))
    };
    let left: Vec<&str> =
        touched().filter(|(_, member)| !is_back(member)).map(|(name, _)| name.as_str()).collect();
    if left.is_empty() {
        (End::RolledBack, format!("{name} was rolled back: {reason}"))
    } else {
        (
            End::Failed,
            format!(
                "{name} could not be rolled back completely; not rolled back: {}; reason for the rollback: {reason}",
                join_names(&left)
            ),
        )
    }
}
