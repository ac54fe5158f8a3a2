//! The questions that the functions of the machine share.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_model::{OperationId, Timestamp};

use super::request::OnNewTargets;
use super::state::{Member, Progress, Rollout, Stage, StepState, Work};
use crate::fleet::{Assignment, Labels, assign, by_place, count};
use crate::operation::{APPROVAL, Verdict, is_known_gate, soak_of};

impl Progress {
    /// The operation it is about.
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

    /// Whether its turn has come and its operation is not over.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(self, Self::Promoted | Self::Named { .. } | Self::Running { .. } | Self::Stopping { .. })
    }

    /// Whether it takes one of the places of its step: what users see as Pending or Progressing.
    pub(super) fn is_in_flight(&self) -> bool {
        self.is_at_work() || matches!(self, Self::Settling { .. })
    }

    /// Whether nothing is awaited of it any more. Of those that have failed the step says that.
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
    /// Whether it is Pending, and the time for that is counted.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.progress, Progress::Promoted | Progress::Named { window: None, .. })
    }

    /// Whether an operation came after all that are known of the member: what an older one has deployed is old news, even
    /// if it is the same.
    pub(super) fn is_news(&self, operation: OperationId) -> bool {
        let before = self.before.as_ref().and_then(|before| before.operation);
        before.max(self.progress.operation()).is_none_or(|known| operation > known)
    }

    /// Whether it was changed by this rollout and is to be brought back, once nothing is at work on it.
    pub(super) fn awaits_rollback(&self) -> bool {
        let is_over = matches!(
            self.progress,
            Progress::Waiting
                | Progress::Settling { .. }
                | Progress::Healthy { .. }
                | Progress::Failed { .. }
                | Progress::Assumed
        );
        self.touched && self.before.is_some() && self.work == Work::Sync && is_over
    }

    /// Whether it waits for its turn once more, after an operation of this rollout was at work on it.
    pub(super) fn is_tried_again(&self) -> bool {
        self.progress == Progress::Waiting && self.work == Work::Sync && self.touched
    }

    /// Whether it can be gone on without: it is not over, and not being stopped already.
    pub(super) fn may_be_skipped(&self) -> bool {
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

    /// Whether a step has it, and it is still there.
    pub(super) fn is_selected(&self) -> bool {
        self.place.step.is_some() && self.progress != Progress::Gone
    }

    fn has_failed(&self) -> bool {
        matches!(self.progress, Progress::Failed { .. })
    }
}

/// Those that can be skipped now, by their steps: `step 1: dev; step 2: qa`. Empty where there are none.
pub fn may_be_skipped(rollout: &Rollout) -> String {
    rollout.by_step(Member::may_be_skipped)
}

/// The same of those that can be brought to their target once more.
pub fn may_be_retried(rollout: &Rollout) -> String {
    rollout.by_step(|member| rollout.is_retried(member, false))
}

impl StepState {
    /// When it is too late, if it can be.
    pub(super) fn too_late_at(&self) -> Option<Timestamp> {
        self.step.deadline.filter(|_| self.failed.is_none()).map(|deadline| self.deadline_from + deadline)
    }
}

impl Rollout {
    /// A step.
    pub(super) fn step(&self, step: u32) -> Option<&StepState> {
        self.steps.get(usize::try_from(step).ok()?)
    }

    /// The same, to be changed.
    pub(super) fn step_mut(&mut self, step: u32) -> Option<&mut StepState> {
        self.steps.get_mut(usize::try_from(step).ok()?)
    }

    /// The step that is held or at work.
    pub fn current_step(&self) -> Option<u32> {
        match self.stage {
            Stage::Held { step } | Stage::Rolling { step } | Stage::RollingBack { step } => Some(step),
            Stage::Begun | Stage::Ending { .. } => None,
        }
    }

    /// The members of a step, by name; those that are gone are none any more.
    pub fn members_of(&self, step: u32) -> impl Iterator<Item = (&String, &Member)> {
        let is_there = |member: &Member| member.progress != Progress::Gone;
        self.members.iter().filter(move |(_, member)| member.place.step == Some(step) && is_there(member))
    }

    /// Those of which something is true, by their steps: `step 1: dev-a, dev-b; step 2: qa`. Empty where there are none.
    pub(super) fn by_step(&self, is_it: impl Fn(&Member) -> bool) -> String {
        let of_step = |(step, _): (u32, &StepState)| {
            let members = self.members_of(step).filter(|(_, member)| is_it(member));
            (format!("step {}", step.saturating_add(1)), members.map(|(name, _)| name.as_str()).collect())
        };
        by_place((0..).zip(&self.steps).map(of_step))
    }

    /// Whether a retry concerns a member. Of a step those are retried that have failed; one that is named also when it succeeded
    /// and does not become Healthy, or was skipped. A step that has passed is over: later ones rest on it.
    pub(super) fn is_retried(&self, member: &Member, is_whole_step: bool) -> bool {
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

    /// Where an Application with these labels belongs.
    pub(super) fn place(&self, labels: &Labels) -> Assignment {
        assign(self.steps.iter().map(|step| step.step.expressions.as_slice()), labels)
    }

    /// How many members of a step have failed.
    pub(super) fn failures(&self, step: u32) -> u32 {
        count(self.members_of(step).filter(|(_, member)| member.has_failed()))
    }

    /// Whether the step goes on without those of its members that have failed.
    fn tolerates(&self, step: u32) -> bool {
        self.bears(step, self.failures(step))
    }

    fn bears(&self, step: u32, failures: u32) -> bool {
        let most = self.step(step).and_then(|step| step.step.max_failures);
        most.is_some_and(|most| failures <= most)
    }

    /// Whether nothing is awaited of a member any more.
    pub(super) fn is_settled(&self, member: &Member) -> bool {
        member.progress.is_settled()
            || member.has_failed() && member.place.step.is_some_and(|step| self.tolerates(step))
    }

    /// Whether something is to be done or awaited in a step.
    pub(super) fn is_open(&self, step: u32) -> bool {
        let tolerates = self.tolerates(step);
        let is_done = |member: &Member| member.progress.is_settled() || tolerates && member.has_failed();
        self.members_of(step).any(|(_, member)| !is_done(member))
    }

    /// The first step in which something is to be done or awaited.
    pub(super) fn first_open(&self) -> Option<u32> {
        let mut failures: BTreeMap<u32, u32> = BTreeMap::new();
        for step in
            self.members.values().filter(|member| member.has_failed()).filter_map(|member| member.place.step)
        {
            let failures = failures.entry(step).or_default();
            *failures = failures.saturating_add(1);
        }
        let tolerated = |step: u32| self.bears(step, failures.get(&step).copied().unwrap_or_default());
        let open = self.members.values().filter(|member| !member.progress.is_settled());
        let open = open.filter_map(|member| Some((member.place.step?, member.has_failed())));
        open.filter(|(step, has_failed)| !has_failed || !tolerated(*step)).map(|(step, _)| step).min()
    }

    /// How many members of a step may be in flight at once.
    pub(super) fn budget(&self, step: u32) -> u32 {
        let max = self.step(step).map(|step| step.step.max_update).unwrap_or_default();
        max.of(count(self.members_of(step)))
    }

    /// How many more members of the current step may begin. One that has failed keeps its place where no failures are
    /// declared to be borne: a step that goes one by one stops at it.
    pub(super) fn places_left(&self, step: u32) -> usize {
        let rolls_back = matches!(self.stage, Stage::RollingBack { .. });
        let budget = if rolls_back { self.budget(step).max(1) } else { self.budget(step) };
        let keeps_place = !rolls_back && self.step(step).is_some_and(|step| step.step.max_failures.is_none());
        let taken = count(self.members_of(step).filter(|(_, member)| {
            member.progress.is_in_flight() && (!rolls_back || member.progress.is_at_work())
                || keeps_place && member.has_failed()
        }));
        usize::try_from(budget.saturating_sub(taken)).unwrap_or(usize::MAX)
    }

    /// Whether other targets end this rollout: not while a person holds it, but while only the failure of its step does.
    pub(super) fn is_superseded(&self) -> bool {
        let has_failed = self.current_step().and_then(|step| self.step(step)?.failed.as_ref()).is_some();
        self.options.on_new_targets == OnNewTargets::Supersede
            && self.new_targets.is_some()
            && (self.paused.is_none() || has_failed)
            && matches!(self.stage, Stage::Begun | Stage::Held { .. } | Stage::Rolling { .. })
    }

    /// The gates of a step.
    fn gates_of(&self, step: u32) -> &[String] {
        self.step(step).map(|step| step.step.gates.as_slice()).unwrap_or_default()
    }

    /// The gates of a step that somebody must be asked about.
    pub(super) fn asked_gates(&self, step: u32) -> impl Iterator<Item = &String> {
        self.gates_of(step).iter().filter(|gate| !is_known_gate(gate))
    }

    /// Whether a step wants a person's approval, and has none.
    pub(super) fn lacks_approval(&self, step: u32) -> bool {
        self.gates_of(step).iter().any(|gate| gate == APPROVAL)
            && self.step(step).is_some_and(|step| step.approved.is_none())
    }

    /// The step whose members are watched before another one begins, and until when. The first that begins soaks for
    /// nobody.
    pub(super) fn soak(&self, step: u32) -> Option<(u32, Timestamp)> {
        let longest: Duration = self.gates_of(step).iter().filter_map(|gate| soak_of(gate)).max()?;
        let before = (0..step).filter_map(|index| Some((self.step(index)?.passed_at?, index)));
        before.max().map(|(passed_at, index)| (index, passed_at + longest))
    }

    /// Whether all gates of a step are open.
    pub(super) fn gates_are_open(&self, step: u32, now: Timestamp) -> bool {
        let is_open = |gate: &String| {
            self.gates.iter().any(|answer| answer.gate == *gate && answer.verdict == Verdict::Open)
        };
        !self.lacks_approval(step)
            && self.soak(step).is_none_or(|(_, until)| now >= until)
            && self.asked_gates(step).all(is_open)
    }

    /// Whether what a member is like matters now.
    pub(super) fn is_watched(&self, member: &Member, now: Timestamp) -> bool {
        let Some(step) = member.place.step.filter(|_| member.work == Work::Sync) else { return false };
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

    /// Whether a step is watched before the one that is held may begin.
    pub(super) fn is_soaking(&self, step: u32, now: Timestamp) -> bool {
        let Stage::Held { step: held } = self.stage else { return false };
        self.soak(held).is_some_and(|(soaking, until)| soaking == step && now < until)
    }
}
