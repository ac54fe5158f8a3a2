//! Applies events about one Application.

use tidegate_model::{OperationPhase, Timestamp};

use crate::fleet::CallFailures;
use crate::rollout::event::Event;
use crate::rollout::request::DeployedState;
use crate::rollout::state::{Member, Progress, Rollout, Stage, StopOutcome, WorkKind};

/// Applies an event. Returns `None` if the event is illegal in this state.
pub(super) fn apply_to_member(rollout: &mut Rollout, event: &Event) -> Option<()> {
    let name = event.member()?;
    let Rollout { stage, members, .. } = rollout;
    let member = members.get_mut(name)?;
    if let (None, Event::Removed { .. }) = (member.place.step, event) {
        return apply_interruption(member, event);
    }
    let step = member.place.step?;
    let (rolls, rolls_back) = (*stage == Stage::Rolling { step }, *stage == Stage::RollingBack { step });
    match event {
        Event::Promoted { at, .. } => {
            let is_turn = match member.work {
                WorkKind::Sync => rolls,
                WorkKind::RollBack => rolls_back,
            };
            (is_turn && member.progress == Progress::Waiting).then_some(())?;
            member.set_progress(Progress::Promoted, *at);
            member.pending_from = *at;
        }
        Event::OperationAssigned { operation, .. } => {
            (member.progress == Progress::Promoted).then_some(())?;
            member.progress = Progress::Named { operation: *operation, window: None };
            member.calls = CallFailures::default();
            member.touched = true;
        }
        Event::SyncWindowChanged { window: now, at, .. } => {
            let Progress::Named { window, .. } = &mut member.progress else { return None };
            window.clone_from(now);
            member.pending_from = *at;
        }
        Event::OperationStarted { at, .. } => {
            let Progress::Named { operation, .. } = member.progress else { return None };
            member.set_progress(Progress::Running { operation }, *at);
        }
        Event::CallFailed { message, retry_at, .. } => {
            member.progress.is_active().then_some(())?;
            member.calls.record_failure(message, *retry_at);
        }
        Event::OperationEnded { phase, message, at, .. } => apply_ended(member, *phase, message, *at)?,
        Event::StatusObserved { sight, .. } => {
            let looked_at = matches!(
                member.progress,
                Progress::Waiting | Progress::Settling { .. } | Progress::Failed { .. }
            );
            looked_at.then_some(())?;
            member.seen = Some(sight.clone());
        }
        Event::OperationAdopted { operation, at, .. } => {
            let may_be = matches!(
                member.progress,
                Progress::Waiting
                    | Progress::Named { .. }
                    | Progress::Settling { .. }
                    | Progress::Failed { .. }
            );
            (may_be && member.work == WorkKind::Sync).then_some(())?;
            member.set_progress(Progress::Settling { operation: *operation, adopted: true }, *at);
            member.touched = false;
        }
        Event::BecameHealthy { at, .. } => {
            let Progress::Settling { operation, .. } = member.progress else { return None };
            member.set_progress(Progress::Healthy { operation }, *at);
        }
        Event::HealthLost { sight, at, .. } => {
            let Progress::Healthy { operation } = member.progress else { return None };
            let adopted = !member.touched;
            member.set_progress(Progress::Settling { operation, adopted }, *at);
            member.seen = Some(sight.clone());
        }
        Event::Overdue { .. } => {
            member.is_pending().then_some(())?;
            member.overdue = true;
        }
        _ => apply_interruption(member, event)?,
    }
    Some(())
}

/// Applies events that take an Application out of its normal progress, or restart it.
fn apply_interruption(member: &mut Member, event: &Event) -> Option<()> {
    match event {
        Event::StopRequested { then, at, .. } => match member.progress {
            // The Application doesn't have an operation yet, so there is nothing to stop.
            Progress::Promoted => apply_stop_outcome(member, then, *at),
            // The operation has already finished, so the Application fails immediately.
            Progress::Settling { .. } if matches!(then, StopOutcome::Fail { .. }) => {
                apply_stop_outcome(member, then, *at)
            }
            Progress::Named { operation, .. } | Progress::Running { operation } => {
                member.progress = Progress::Stopping { operation, then: then.clone() };
                member.calls = CallFailures::default();
            }
            // The Application has left the ApplicationSet, so the planned outcome doesn't matter anymore.
            Progress::Stopping { operation, .. } if *then == StopOutcome::Go => {
                member.progress = Progress::Stopping { operation, then: StopOutcome::Go };
            }
            _ => return None,
        },
        Event::Stopped { at, .. } => {
            let Progress::Stopping { then, .. } = member.progress.clone() else { return None };
            apply_stop_outcome(member, &then, *at);
        }
        Event::RollbackStarted { at, .. } => {
            member.needs_rollback().then_some(())?;
            apply_stop_outcome(member, &StopOutcome::RollBack, *at);
        }
        Event::Skipped { said: attribution, .. } => {
            let may_be = matches!(
                member.progress,
                Progress::Waiting | Progress::Settling { .. } | Progress::Failed { .. }
            );
            may_be.then_some(())?;
            member.set_progress(Progress::Skipped(attribution.clone()), attribution.at);
        }
        Event::Retried { said: attribution, .. } => {
            let may_be = matches!(
                member.progress,
                Progress::Settling { .. }
                    | Progress::Failed { .. }
                    | Progress::Skipped(_)
                    | Progress::Assumed
            );
            (may_be && member.work == WorkKind::Sync).then_some(())?;
            // Earlier deployments must not count as evidence for the retry.
            let known = member.progress.operation();
            match (&mut member.before, &member.progress) {
                (Some(before), _) => before.operation = before.operation.max(known),
                // The operation was started elsewhere, and the Application wasn't deployed before.
                (before @ None, Progress::Settling { adopted: true, .. }) => {
                    *before = Some(DeployedState { operation: known, target: member.target.clone() });
                }
                (None, _) => {}
            }
            member.set_progress(Progress::Waiting, attribution.at);
        }
        Event::Removed { at, .. } => {
            let may_be = !member.progress.is_active() && member.progress != Progress::Gone;
            may_be.then_some(())?;
            member.set_progress(Progress::Gone, *at);
            member.since = *at;
        }
        _ => return None,
    }
    Some(())
}

fn apply_ended(member: &mut Member, phase: OperationPhase, message: &str, at: Timestamp) -> Option<()> {
    let (Progress::Named { operation, .. } | Progress::Running { operation }) = member.progress else {
        return None;
    };
    let progress = match (phase, member.work) {
        (OperationPhase::Succeeded, WorkKind::Sync) => Progress::Settling { operation, adopted: false },
        (OperationPhase::Succeeded, WorkKind::RollBack) => Progress::RolledBack { operation },
        _ => Progress::Failed { operation: Some(operation), message: message.to_owned() },
    };
    member.set_progress(progress, at);
    Some(())
}

fn apply_stop_outcome(member: &mut Member, then: &StopOutcome, at: Timestamp) {
    let operation = member.progress.operation();
    let progress = match then {
        StopOutcome::Wait => Progress::Waiting,
        StopOutcome::Fail { message } => Progress::Failed { operation, message: message.clone() },
        StopOutcome::Assume => Progress::Assumed,
        StopOutcome::Skip(attribution) => Progress::Skipped(attribution.clone()),
        StopOutcome::Go => Progress::Gone,
        StopOutcome::RollBack => {
            member.work = WorkKind::RollBack;
            Progress::Waiting
        }
    };
    member.set_progress(progress, at);
}

impl Member {
    /// Sets the progress and clears data about the previous progress. Changes `since` only if the displayed
    /// status changes.
    fn set_progress(&mut self, progress: Progress, at: Timestamp) {
        let before = self.status();
        self.progress = progress;
        if self.status() != before {
            self.since = at;
        }
        self.seen = None;
        self.calls = CallFailures::default();
        self.overdue = false;
    }
}
