//! What facts about one member change.

use tidegate_model::{OperationPhase, Timestamp};

use crate::fleet::Calls;
use crate::rollout::fact::Fact;
use crate::rollout::state::{Member, Progress, Rollout, Stage, Then, Work};

/// `None`: the fact cannot be.
pub(super) fn changed(rollout: &mut Rollout, fact: &Fact) -> Option<()> {
    let name = fact.member()?;
    let Rollout { stage, members, .. } = rollout;
    let member = members.get_mut(name)?;
    if let (None, Fact::Gone { .. }) = (member.place.step, fact) {
        return settled(member, fact);
    }
    let step = member.place.step?;
    let (rolls, rolls_back) = (*stage == Stage::Rolling { step }, *stage == Stage::RollingBack { step });
    match fact {
        Fact::Promoted { at, .. } => {
            let is_turn = match member.work {
                Work::Sync => rolls,
                Work::RollBack => rolls_back,
            };
            (is_turn && member.progress == Progress::Waiting).then_some(())?;
            member.become_at(Progress::Promoted, *at);
            member.pending_from = *at;
        }
        Fact::Named { operation, .. } => {
            (member.progress == Progress::Promoted).then_some(())?;
            member.progress = Progress::Named { operation: *operation, window: None };
            member.calls = Calls::default();
            member.touched = true;
        }
        Fact::WindowSeen { window: now, at, .. } => {
            let Progress::Named { window, .. } = &mut member.progress else { return None };
            window.clone_from(now);
            member.pending_from = *at;
        }
        Fact::Started { at, .. } => {
            let Progress::Named { operation, .. } = member.progress else { return None };
            member.become_at(Progress::Running { operation }, *at);
        }
        Fact::CallFailed { message, retry_at, .. } => {
            member.progress.is_at_work().then_some(())?;
            member.calls.fail(message, *retry_at);
        }
        Fact::Ended { phase, message, at, .. } => ended(member, *phase, message, *at)?,
        Fact::Seen { sight, .. } => {
            let looked_at = matches!(
                member.progress,
                Progress::Waiting | Progress::Settling { .. } | Progress::Failed { .. }
            );
            looked_at.then_some(())?;
            member.seen = Some(sight.clone());
        }
        Fact::Adopted { operation, at, .. } => {
            let may_be = matches!(
                member.progress,
                Progress::Waiting | Progress::Settling { .. } | Progress::Failed { .. }
            );
            (may_be && member.work == Work::Sync).then_some(())?;
            member.become_at(Progress::Settling { operation: *operation, adopted: true }, *at);
            member.touched = false;
        }
        Fact::BecameHealthy { at, .. } => {
            let Progress::Settling { operation, .. } = member.progress else { return None };
            member.become_at(Progress::Healthy { operation }, *at);
        }
        Fact::Worsened { sight, at, .. } => {
            let Progress::Healthy { operation } = member.progress else { return None };
            let adopted = !member.touched;
            member.become_at(Progress::Settling { operation, adopted }, *at);
            member.seen = Some(sight.clone());
        }
        Fact::Overdue { .. } => {
            member.is_pending().then_some(())?;
            member.overdue = true;
        }
        _ => settled(member, fact)?,
    }
    Some(())
}

/// Facts by which a member leaves its way, or begins it again.
fn settled(member: &mut Member, fact: &Fact) -> Option<()> {
    match fact {
        Fact::StopBegun { then, at, .. } => match member.progress {
            // Nobody has heard of an operation yet.
            Progress::Promoted => become_then(member, then, *at),
            // Its operation is over, and nothing more is awaited of it.
            Progress::Settling { .. } if matches!(then, Then::Fail { .. }) => become_then(member, then, *at),
            Progress::Named { operation, .. } | Progress::Running { operation } => {
                member.progress = Progress::Stopping { operation, then: then.clone() };
                member.calls = Calls::default();
            }
            // The Application is gone, whatever was to become of it.
            Progress::Stopping { operation, .. } if *then == Then::Go => {
                member.progress = Progress::Stopping { operation, then: Then::Go };
            }
            _ => return None,
        },
        Fact::Stopped { at, .. } => {
            let Progress::Stopping { then, .. } = member.progress.clone() else { return None };
            become_then(member, &then, *at);
        }
        Fact::RollBackBegun { at, .. } => {
            member.awaits_rollback().then_some(())?;
            become_then(member, &Then::RollBack, *at);
        }
        Fact::Skipped { said, .. } => {
            let may_be = matches!(
                member.progress,
                Progress::Waiting | Progress::Settling { .. } | Progress::Failed { .. }
            );
            may_be.then_some(())?;
            member.become_at(Progress::Skipped(said.clone()), said.at);
        }
        Fact::Retried { said, .. } => {
            let may_be = matches!(
                member.progress,
                Progress::Settling { .. }
                    | Progress::Failed { .. }
                    | Progress::Skipped(_)
                    | Progress::Assumed
            );
            (may_be && member.work == Work::Sync).then_some(())?;
            member.become_at(Progress::Waiting, said.at);
        }
        Fact::Gone { at, .. } => {
            let may_be = !member.progress.is_at_work() && member.progress != Progress::Gone;
            may_be.then_some(())?;
            member.become_at(Progress::Gone, *at);
            member.since = *at;
        }
        _ => return None,
    }
    Some(())
}

fn ended(member: &mut Member, phase: OperationPhase, message: &str, at: Timestamp) -> Option<()> {
    let (Progress::Named { operation, .. } | Progress::Running { operation }) = member.progress else {
        return None;
    };
    let progress = match (phase, member.work) {
        (OperationPhase::Succeeded, Work::Sync) => Progress::Settling { operation, adopted: false },
        (OperationPhase::Succeeded, Work::RollBack) => Progress::RolledBack { operation },
        _ => Progress::Failed { operation: Some(operation), message: message.to_owned() },
    };
    member.become_at(progress, at);
    Some(())
}

fn become_then(member: &mut Member, then: &Then, at: Timestamp) {
    let operation = member.progress.operation();
    let progress = match then {
        Then::Wait => Progress::Waiting,
        Then::Fail { message } => Progress::Failed { operation, message: message.clone() },
        Then::Assume => Progress::Assumed,
        Then::Skip(said) => Progress::Skipped(said.clone()),
        Then::Go => Progress::Gone,
        Then::RollBack => {
            member.work = Work::RollBack;
            Progress::Waiting
        }
    };
    member.become_at(progress, at);
}

impl Member {
    /// What was known of the way so far is over. The time counts from here if users see another status.
    fn become_at(&mut self, progress: Progress, at: Timestamp) {
        let before = self.status();
        self.progress = progress;
        if self.status() != before {
            self.since = at;
        }
        self.seen = None;
        self.calls = Calls::default();
        self.overdue = false;
    }
}
