//! The texts that users match on. Those about single Applications are Argo CD's, word for word
//! (`status.applicationStatus[].message`), wherever the machine has such a state.

use std::time::Duration;

use tidegate_model::format_duration;

use super::state::{Cause, End, Member, Progress, Rollout, Then, Work};
use crate::fleet::{Said, enumerate, step_name};

/// The reason in `operation.info` of every operation that a rollout begins.
pub const REASON: &str = "ApplicationSet RollingSync triggered a sync of this Application resource";

pub(super) const COMPLETED: &str = "ApplicationSet Rollout has completed";
pub(super) const SUPERSEDED: &str = "the ApplicationSet has other targets by now; a new rollout brings them";
pub(super) const NOTHING_BEFORE: &str = "there is nothing to go back to: nothing was deployed before";

pub(super) const ONCE_MORE: &str = "Application is to be synced once more, setting status to Waiting";

/// How the words begin for what keeps a sync from beginning, where that is no sync window.
const APPROVAL: &str = "the approval of its plan: ";

/// A plan that nobody has approved, as what keeps a sync from beginning.
pub(super) fn lacks_approval(plan: &str) -> String {
    format!("{APPROVAL}{plan}")
}

/// Whether it is an approval that a sync waits for.
pub(super) fn is_approval(window: &str) -> bool {
    window.starts_with(APPROVAL)
}

/// What keeps a sync from beginning.
pub(super) fn held_by(window: &str) -> String {
    if is_approval(window) { window.to_owned() } else { format!("a sync window: {window}") }
}

/// What users read of a member.
pub(super) fn of_member(member: &Member) -> String {
    let same = "updating status from Pending to Progressing";
    match &member.progress {
        _ if member.place.step.is_none() => {
            "Application is selected by no step of the rollout; sync it by hand".to_owned()
        }
        Progress::Waiting if member.work == Work::RollBack => "waits to be rolled back".to_owned(),
        Progress::Waiting => waiting(member).to_owned(),
        Progress::Promoted | Progress::Named { window: None, .. } => {
            "Application moved to Pending status, watching for the Application resource to start Progressing"
                .to_owned()
        }
        Progress::Named { window: Some(window), .. } => {
            format!("Application moved to Pending status, its sync waits for {}", held_by(window))
        }
        Progress::Running { .. } => format!("Application resource became Progressing, {same}"),
        Progress::Settling { adopted: true, .. } => {
            "Application resource has synced, updating status to Progressing".to_owned()
        }
        Progress::Settling { .. } => format!("Application resource completed a sync successfully, {same}"),
        Progress::Failed { message, .. } => {
            format!("Application resource completed a sync, {same}; it failed: {message}")
        }
        Progress::Stopping { then, .. } => format!("its sync is being stopped{}", what_then(then)),
        Progress::Healthy { .. } if member.touched => {
            "Application resource became Healthy, updating status from Progressing to Healthy".to_owned()
        }
        Progress::Healthy { .. } => "Application resource has synced, updating status to Healthy".to_owned(),
        Progress::RolledBack { .. } => "rolled back to what it had before".to_owned(),
        Progress::Assumed => "Application was Pending for too long, updating status to Healthy".to_owned(),
        Progress::Skipped(said) => format!("skipped by {}", said.words()),
        Progress::Gone => "it is no Application of the ApplicationSet any more".to_owned(),
        Progress::Late => "it came after its step had passed; the next rollout is about it".to_owned(),
    }
}

fn waiting(member: &Member) -> &'static str {
    let Some(before) = &member.before else {
        return "No Application status found, defaulting status to Waiting";
    };
    match (before.target.revisions == member.target.revisions, before.target.spec == member.target.spec) {
        (false, false) => {
            "Application has pending changes (revision and spec differ), setting status to Waiting"
        }
        (false, true) => "Application has pending changes, setting status to Waiting",
        (true, false) => "Application has pending changes (spec differs), setting status to Waiting",
        (true, true) => ONCE_MORE,
    }
}

fn what_then(then: &Then) -> &'static str {
    match then {
        Then::Wait => "",
        Then::Fail { .. } => ", and it counts as failed",
        Then::Assume => ", and it counts as Healthy",
        Then::Skip(_) => ", and it is skipped",
        Then::Go => ", since the Application is gone",
        Then::RollBack => ", and it is rolled back",
    }
}

pub(super) fn pending_too_long(timeout: Duration) -> String {
    format!("its sync had not begun after {}", format_duration(timeout))
}

pub(super) fn terminated(said: &Said) -> String {
    format!("terminated by {}", said.words())
}

/// Completed, and who was left behind.
pub(super) fn completed(rollout: &Rollout) -> String {
    let of = |is_it: fn(&Progress) -> bool| -> Vec<&str> {
        let members = rollout.members.iter().filter(|(_, member)| member.place.step.is_some());
        members.filter(|(_, member)| is_it(&member.progress)).map(|(name, _)| name.as_str()).collect()
    };
    let mut message = COMPLETED.to_owned();
    for (what, names) in [
        ("failed", of(|progress| matches!(progress, Progress::Failed { .. }))),
        ("skipped", of(|progress| matches!(progress, Progress::Skipped(_)))),
        ("taken for Healthy", of(|progress| *progress == Progress::Assumed)),
        ("too late", of(|progress| *progress == Progress::Late)),
        ("left the ApplicationSet", of(|progress| *progress == Progress::Gone)),
    ] {
        if !names.is_empty() {
            message = format!("{message}; {what}: {}", enumerate(&names));
        }
    }
    message
}

pub(super) fn step_failed(rollout: &Rollout, step: u32, cause: Cause) -> String {
    let name = step_name(step, rollout.steps.len());
    let spec = rollout.step(step).map(|step| &step.step);
    match cause {
        Cause::Deadline => {
            let deadline = spec.and_then(|step| step.deadline).unwrap_or_default();
            let open: Vec<&str> = rollout
                .members_of(step)
                .filter(|(_, member)| !rollout.is_settled(member))
                .map(|(name, _)| name.as_str())
                .collect();
            format!("{name} was not done within {}: {}", format_duration(deadline), enumerate(&open))
        }
        Cause::Failures(failures) => {
            let most = spec.and_then(|step| step.max_failures).unwrap_or_default();
            let failed: Vec<&str> = rollout
                .members_of(step)
                .filter(|(_, member)| matches!(member.progress, Progress::Failed { .. }))
                .map(|(name, _)| name.as_str())
                .collect();
            format!("{failures} of {name} failed, {most} may: {}", enumerate(&failed))
        }
    }
}

/// That a step is being rolled back, and why.
pub(super) fn rolling_back(rollout: &Rollout, step: u32) -> String {
    let failure = rollout.step(step).and_then(|step| step.failed.as_ref());
    let why = failure.map(|failure| format!(": {}", failure.message)).unwrap_or_default();
    format!("ApplicationSet is rolling back step {}{why}", step.saturating_add(1))
}

/// How a step that was rolled back has ended.
pub(super) fn rolled_back(rollout: &Rollout, step: u32) -> (End, String) {
    let name = step_name(step, rollout.steps.len());
    let failure = rollout.step(step).and_then(|step| step.failed.as_ref());
    let why = failure.map(|failure| failure.message.as_str()).unwrap_or_default();
    let touched = || rollout.members_of(step).filter(|(_, member)| member.touched);
    let is_back = |member: &Member| {
        matches!(member.progress, Progress::RolledBack { .. } | Progress::Gone | Progress::Skipped(_))
    };
    let left: Vec<&str> =
        touched().filter(|(_, member)| !is_back(member)).map(|(name, _)| name.as_str()).collect();
    if left.is_empty() {
        (End::RolledBack, format!("{name} was rolled back: {why}"))
    } else {
        (End::Failed, format!("{name} could not be rolled back: {}; {why}", enumerate(&left)))
    }
}
