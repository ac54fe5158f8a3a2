//! The questions that the functions of the machine share.

use tidegate_model::Timestamp;

use super::state::{Member, Progress, Stage, StepState, Teardown};
use crate::fleet::count;

impl Progress {
    /// Whether it takes one of the places of its step.
    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self, Self::Condemned | Self::Going | Self::Confirming { .. })
    }

    /// Whether nothing is awaited of it any more.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Gone | Self::Left(_) | Self::Released)
    }
}

impl Teardown {
    /// A step.
    pub(super) fn step(&self, step: u32) -> Option<&StepState> {
        self.steps.get(usize::try_from(step).ok()?)
    }

    /// The same, to be changed.
    pub(super) fn step_mut(&mut self, step: u32) -> Option<&mut StepState> {
        self.steps.get_mut(usize::try_from(step).ok()?)
    }

    /// The step that is at work.
    pub fn current_step(&self) -> Option<u32> {
        match self.stage {
            Stage::Begun => None,
            Stage::Deleting { step } => Some(step),
        }
    }

    /// Whether it is recorded that deletions are let be done by this.
    pub(super) fn is_approved(&self, token: &str) -> bool {
        self.approvals.iter().any(|known| known.token == token)
    }

    /// The members of a step, by name.
    pub fn members_of(&self, step: u32) -> impl Iterator<Item = (&String, &Member)> {
        self.members.iter().filter(move |(_, member)| member.place.step == Some(step))
    }

    /// The first step of which something is still there.
    pub(super) fn first_open(&self) -> Option<u32> {
        let open = self.members.values().filter(|member| !member.progress.is_settled());
        open.filter_map(|member| member.place.step).min()
    }

    /// How many members of a step may be on their way at once.
    pub(super) fn budget(&self, step: u32) -> u32 {
        self.order.max_update(step).of(count(self.members_of(step)))
    }

    /// How many more members of a step may be deleted now.
    pub(super) fn places_left(&self, step: u32) -> usize {
        let budget = self.budget(step);
        let taken = count(self.members_of(step).filter(|(_, member)| member.progress.is_in_flight()));
        usize::try_from(budget.saturating_sub(taken)).unwrap_or(usize::MAX)
    }

    /// When the current step takes too long, if it can.
    pub(super) fn too_late_at(&self) -> Option<Timestamp> {
        let step = self.step(self.current_step()?).filter(|step| step.late.is_none())?;
        Some(step.deadline_from + self.options.deadline?)
    }

    /// Whether how a member is matters now: it is being deleted, or people delete it, one by one.
    pub fn is_watched(&self, member: &Member) -> bool {
        let is_current = self.current_step().is_some_and(|step| member.place.step == Some(step));
        match member.progress {
            Progress::Going => true,
            // Others delete the members of such a step, or let them go.
            Progress::Waiting if self.order.is_witnessed() => is_current,
            // People delete the members of such a step.
            Progress::Waiting => {
                is_current && member.place.step.is_some_and(|step| self.order.max_update(step).is_manual())
            }
            _ => false,
        }
    }

    /// Members of a step of which something is awaited.
    pub(super) fn open(&self, step: u32) -> Vec<&str> {
        let open = self.members_of(step).filter(|(_, member)| !member.progress.is_settled());
        open.map(|(name, _)| name.as_str()).collect()
    }
}
