//! Predicates about a rollout, shared by several modules of the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_model::{OperationId, Timestamp};

use super::request::OnNewTargets;
use super::state::{Member, Progress, Rollout, Stage, StepState, WorkKind};
use crate::fleet::{Assignment, Labels, assign_step, count, join_names_by_place};
use crate::operation::{APPROVAL_GATE, Verdict, is_built_in_gate, soak_duration};

impl Progress {
    /// Returns the operation in the Application's current progress, if any.
    pub(super) fn operation(&self) -> Option<OperationId> {
        match self {
            Self::Named { operation, .. }
            | Self::Running { operation }
            | Self::Settling { operation, .. }
            | Self::Healthy { operation }
            | Self::RolledBack { operation }
            | Self::Stopping { operation, .. } => Some(*operation),
            Self::Failed { operation, .. } => *operation,
            _ => None,
        }
    }

    /// Returns true if the Application was promoted and its operation hasn't finished.
    pub(super) fn is_active(&self) -> bool {
        matches!(self, Self::Promoted | Self::Named { .. } | Self::Running { .. } | Self::Stopping { .. })
    }

    /// Returns true if the Application counts toward the step's `maxUpdate`. Its displayed status is Pending
    /// or Progressing.
    pub(super) fn is_in_flight(&self) -> bool {
        self.is_active() || matches!(self, Self::Settling { .. })
    }

    /// Returns true if the rollout no longer waits for the Application. Always false for failed Applications,
    /// which depend on their step ([`Rollout::is_settled`]).
    fn is_settled(&self) -> bool {
        matches!(
            self,
            Self::Healthy { .. }
                | Self::RolledBack { .. }
                | Self::Assumed
                | Self::Skipped(_)
                | Self::Gone
                | Self::Late
        )
    }
}

impl Member {
    /// Returns true if the Application is Pending and isn't delayed by a sync window or a missing approval.
    /// Only this time counts toward the timeout.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.progress, Progress::Promoted | Progress::Named { window: None, .. })
    }

    /// Returns true if an operation is newer than the Application's known operations. A deployment by an
    /// older operation isn't evidence, even if the target is the same.
    pub(super) fn is_newer_operation(&self, operation: OperationId) -> bool {
        let before = self.before.as_ref().and_then(|before| before.operation);
        before.max(self.progress.operation()).is_none_or(|known| operation > known)
    }

    /// Returns true if `operation`, which deployed the Application's target, can replace an operation that
    /// hasn't begun. That keeps hooks from running twice for the same target. Operations from before the
    /// rollout, or from before a retry, don't qualify.
    pub(super) fn can_adopt(&self, operation: OperationId) -> bool {
        let known = self.before.as_ref().and_then(|before| before.operation);
        self.work == WorkKind::Sync && known.is_none_or(|known| operation > known)
    }

    /// Returns true if this rollout changed the Application and must now roll it back. False while work on it
    /// is still running.
    pub(super) fn needs_rollback(&self) -> bool {
        let is_over = matches!(
            self.progress,
            Progress::Waiting
                | Progress::Settling { .. }
                | Progress::Healthy { .. }
                | Progress::Failed { .. }
                | Progress::Assumed
        );
        self.touched && self.before.is_some() && self.work == WorkKind::Sync && is_over
    }

    /// Returns true if the Application is waiting to be promoted again, after an earlier operation of this
    /// rollout.
    pub(super) fn is_awaiting_retry(&self) -> bool {
        self.progress == Progress::Waiting && self.work == WorkKind::Sync && self.touched
    }

    /// Returns true if the Application can be skipped, because it isn't done and isn't already being stopped.
    pub(super) fn can_be_skipped(&self) -> bool {
        matches!(
            self.progress,
            Progress::Waiting
                | Progress::Promoted
                | Progress::Named { .. }
                | Progress::Running { .. }
                | Progress::Settling { .. }
                | Progress::Failed { .. }
        )
    }

    /// Returns true if a step selects the Application and the Application hasn't left the ApplicationSet.
    pub(super) fn is_selected(&self) -> bool {
        self.place.step.is_some() && self.progress != Progress::Gone
    }

    fn has_failed(&self) -> bool {
        matches!(self.progress, Progress::Failed { .. })
    }
}

/// Lists the Applications that can be skipped now, by step, such as `step 1: dev; step 2: qa`. Returns an
/// empty string if there are none.
pub fn list_skippable(rollout: &Rollout) -> String {
    rollout.list_by_step(Member::can_be_skipped)
}

/// Lists the Applications that can be retried now, by step. Returns an empty string if there are none.
pub fn list_retryable(rollout: &Rollout) -> String {
    rollout.list_by_step(|member| rollout.can_be_retried(member, false))
}

impl StepState {
    /// Returns the deadline of the step, or `None` if the step doesn't have a deadline or has already failed.
    pub(super) fn deadline_at(&self) -> Option<Timestamp> {
        self.step.deadline.filter(|_| self.failed.is_none()).map(|deadline| self.deadline_from + deadline)
    }
}

impl Rollout {
    pub(super) fn step(&self, step: u32) -> Option<&StepState> {
        self.steps.get(usize::try_from(step).ok()?)
    }

    pub(super) fn step_mut(&mut self, step: u32) -> Option<&mut StepState> {
        self.steps.get_mut(usize::try_from(step).ok()?)
    }

    /// Returns the step that is held or running.
    pub fn current_step(&self) -> Option<u32> {
        match self.stage {
            Stage::Held { step } | Stage::Rolling { step } | Stage::RollingBack { step } => Some(step),
            Stage::Begun | Stage::Ending { .. } => None,
        }
    }

    /// Returns the Applications in a step, by name, except those that have left the ApplicationSet.
    pub fn members_in_step(&self, step: u32) -> impl Iterator<Item = (&String, &Member)> {
        let is_there = |member: &Member| member.progress != Progress::Gone;
        self.members.iter().filter(move |(_, member)| member.place.step == Some(step) && is_there(member))
    }

    /// Lists the Applications that match a predicate, by step, such as `step 1: dev-a, dev-b; step 2: qa`.
    /// Returns an empty string if there are none.
    pub(super) fn list_by_step(&self, is_it: impl Fn(&Member) -> bool) -> String {
        let of_step = |(step, _): (u32, &StepState)| {
            let members = self.members_in_step(step).filter(|(_, member)| is_it(member));
            (format!("step {}", step.saturating_add(1)), members.map(|(name, _)| name.as_str()).collect())
        };
        join_names_by_place((0..).zip(&self.steps).map(of_step))
    }

    /// Returns true if a retry applies to an Application. Retrying a whole step covers only failed
    /// Applications; a single Application can also be retried if it was skipped, or isn't Healthy after its
    /// operation. Those in a passed step can't be retried, because later steps depend on it.
    pub(super) fn can_be_retried(&self, member: &Member, is_whole_step: bool) -> bool {
        let has_passed = match self.stage {
            Stage::Begun => false,
            Stage::Held { step } | Stage::Rolling { step } => member.place.step < Some(step),
            Stage::RollingBack { .. } | Stage::Ending { .. } => true,
        };
        let may_be = match member.progress {
            Progress::Failed { .. } => true,
            Progress::Settling { .. } | Progress::Skipped(_) | Progress::Assumed => !is_whole_step,
            _ => false,
        };
        may_be && !has_passed
    }

    /// Returns the step of an Application with the given labels.
    pub(super) fn assign_step(&self, labels: &Labels) -> Assignment {
        assign_step(self.steps.iter().map(|step| step.step.expressions.as_slice()), labels)
    }

    pub(super) fn failure_count(&self, step: u32) -> u32 {
        count(self.members_in_step(step).filter(|(_, member)| member.has_failed()))
    }

    /// Returns true if the step continues without its failed Applications.
    fn can_continue_with_failures(&self, step: u32) -> bool {
        self.can_tolerate(step, self.failure_count(step))
    }

    fn can_tolerate(&self, step: u32, failures: u32) -> bool {
        let most = self.step(step).and_then(|step| step.step.max_failures);
        most.is_some_and(|most| failures <= most)
    }

    /// Returns true if the rollout no longer waits for an Application.
    pub(super) fn is_settled(&self, member: &Member) -> bool {
        member.progress.is_settled()
            || member.has_failed()
                && member.place.step.is_some_and(|step| self.can_continue_with_failures(step))
    }

    /// Returns true if a step has work left or is waiting for Applications.
    pub(super) fn is_open(&self, step: u32) -> bool {
        let tolerates = self.can_continue_with_failures(step);
        let is_done = |member: &Member| member.progress.is_settled() || tolerates && member.has_failed();
        self.members_in_step(step).any(|(_, member)| !is_done(member))
    }

    /// Returns the first step that has work left or is waiting for Applications.
    pub(super) fn first_open_step(&self) -> Option<u32> {
        let mut failures: BTreeMap<u32, u32> = BTreeMap::new();
        for step in
            self.members.values().filter(|member| member.has_failed()).filter_map(|member| member.place.step)
        {
            let failures = failures.entry(step).or_default();
            *failures = failures.saturating_add(1);
        }
        let tolerated = |step: u32| self.can_tolerate(step, failures.get(&step).copied().unwrap_or_default());
        let open = self.members.values().filter(|member| !member.progress.is_settled());
        let open = open.filter_map(|member| Some((member.place.step?, member.has_failed())));
        open.filter(|(step, has_failed)| !has_failed || !tolerated(*step)).map(|(step, _)| step).min()
    }

    /// Returns the maximum number of a step's Applications in flight at once.
    pub(super) fn update_limit(&self, step: u32) -> u32 {
        let max = self.step(step).map(|step| step.step.max_update).unwrap_or_default();
        max.limit_for(count(self.members_in_step(step)))
    }

    /// Returns how many more Applications in the current step may be promoted. A failed Application still
    /// counts as in flight, unless the step tolerates failures, so a step that updates Applications one by
    /// one stops at the first failure.
    pub(super) fn remaining_capacity(&self, step: u32) -> usize {
        let rolls_back = matches!(self.stage, Stage::RollingBack { .. });
        let budget = if rolls_back { self.update_limit(step).max(1) } else { self.update_limit(step) };
        let keeps_place = !rolls_back && self.step(step).is_some_and(|step| step.step.max_failures.is_none());
        let taken = count(self.members_in_step(step).filter(|(_, member)| {
            member.progress.is_in_flight() && (!rolls_back || member.progress.is_active())
                || keeps_place && member.has_failed()
        }));
        usize::try_from(budget.saturating_sub(taken)).unwrap_or(usize::MAX)
    }

    /// Returns true if new targets end this rollout. A pause by a user prevents that, but a pause because of
    /// a failed step doesn't.
    pub(super) fn is_superseded(&self) -> bool {
        let has_failed = self.current_step().and_then(|step| self.step(step)?.failed.as_ref()).is_some();
        self.options.on_new_targets == OnNewTargets::Supersede
            && self.new_targets.is_some()
            && (self.paused.is_none() || has_failed)
            && matches!(self.stage, Stage::Begun | Stage::Held { .. } | Stage::Rolling { .. })
    }

    fn step_gates(&self, step: u32) -> &[String] {
        self.step(step).map(|step| step.step.gates.as_slice()).unwrap_or_default()
    }

    /// Returns the gates of a step that must be queried.
    pub(super) fn external_gates(&self, step: u32) -> impl Iterator<Item = &String> {
        self.step_gates(step).iter().filter(|gate| !is_built_in_gate(gate))
    }

    /// Returns true if a step needs an approval and doesn't have it yet.
    pub(super) fn needs_approval(&self, step: u32) -> bool {
        self.step_gates(step).iter().any(|gate| gate == APPROVAL_GATE)
            && self.step(step).is_some_and(|step| step.approved.is_none())
    }

    /// Returns the step to watch before this step begins, and the end of the soak time. `None` without a soak
    /// gate or a passed earlier step.
    pub(super) fn soak_period(&self, step: u32) -> Option<(u32, Timestamp)> {
        let longest: Duration = self.step_gates(step).iter().filter_map(|gate| soak_duration(gate)).max()?;
        let before = (0..step).filter_map(|index| Some((self.step(index)?.passed_at?, index)));
        before.max().map(|(passed_at, index)| (index, passed_at + longest))
    }

    /// Returns true if all gates of a step are open.
    pub(super) fn has_open_gates(&self, step: u32, now: Timestamp) -> bool {
        let is_open = |gate: &String| {
            self.gates.iter().any(|answer| answer.gate == *gate && answer.verdict == Verdict::Open)
        };
        !self.needs_approval(step)
            && self.soak_period(step).is_none_or(|(_, until)| now >= until)
            && self.external_gates(step).all(is_open)
    }

    /// Returns true if observations of an Application are relevant now.
    pub(super) fn is_watched(&self, member: &Member, now: Timestamp) -> bool {
        let Some(step) = member.place.step.filter(|_| member.work == WorkKind::Sync) else { return false };
        let rolling = self.stage == Stage::Rolling { step };
        match member.progress {
            Progress::Settling { .. } | Progress::Failed { .. } => rolling,
            Progress::Waiting => {
                rolling && self.step(step).is_some_and(|step| step.step.max_update.is_manual())
            }
            Progress::Healthy { .. } => self.is_soaking(step, now),
            _ => false,
        }
    }

    /// Returns true if the Applications in a step are being watched before the held step may begin.
    pub(super) fn is_soaking(&self, step: u32, now: Timestamp) -> bool {
        let Stage::Held { step: held } = self.stage else { return false };
        self.soak_period(held).is_some_and(|(soaking, until)| soaking == step && now < until)
    }
}
