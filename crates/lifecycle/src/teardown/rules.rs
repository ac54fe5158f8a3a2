//! Predicates about a teardown, shared by several modules of the machine.

use tidegate_model::Timestamp;

use super::state::{Member, Progress, Stage, StepState, Teardown};
use crate::fleet::count;

impl Progress {
    /// Returns true if the Application counts toward the step's `maxUpdate`.
    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self, Self::Condemned | Self::Going | Self::Confirming { .. })
    }

    /// Returns true if the teardown no longer waits for the Application.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Gone | Self::Left(_) | Self::Released)
    }
}

impl Teardown {
    pub(super) fn step(&self, step: u32) -> Option<&StepState> {
        self.steps.get(usize::try_from(step).ok()?)
    }

    pub(super) fn step_mut(&mut self, step: u32) -> Option<&mut StepState> {
        self.steps.get_mut(usize::try_from(step).ok()?)
    }

    /// Returns the running step.
    pub fn current_step(&self) -> Option<u32> {
        match self.stage {
            Stage::Begun => None,
            Stage::Deleting { step } => Some(step),
        }
    }

    /// Returns true if the approval with the given token is recorded.
    pub(super) fn is_approved(&self, token: &str) -> bool {
        self.approvals.iter().any(|known| known.token == token)
    }

    /// Returns the Applications in a step, by name.
    pub fn members_in_step(&self, step: u32) -> impl Iterator<Item = (&String, &Member)> {
        self.members.iter().filter(move |(_, member)| member.place.step == Some(step))
    }

    /// Returns the first step that the teardown is waiting for.
    pub(super) fn first_open_step(&self) -> Option<u32> {
        let open = self.members.values().filter(|member| !member.progress.is_settled());
        open.filter_map(|member| member.place.step).min()
    }

    /// Returns the maximum number of a step's Applications deleted at once.
    pub(super) fn deletion_limit(&self, step: u32) -> u32 {
        self.order.max_update(step).limit_for(count(self.members_in_step(step)))
    }

    /// Returns how many more Applications in a step may be deleted now.
    pub(super) fn remaining_capacity(&self, step: u32) -> usize {
        let budget = self.deletion_limit(step);
        let taken = count(self.members_in_step(step).filter(|(_, member)| member.progress.is_in_flight()));
        usize::try_from(budget.saturating_sub(taken)).unwrap_or(usize::MAX)
    }

    /// Returns the deadline of the current step. `None` if the step doesn't have a deadline, or its passing
    /// is already recorded.
    pub(super) fn deadline_at(&self) -> Option<Timestamp> {
        let step = self.step(self.current_step()?).filter(|step| step.late.is_none())?;
        Some(step.deadline_from + self.options.deadline?)
    }

    /// Returns true if observations of an Application are relevant now, because the Application is being
    /// deleted or users delete the Applications one by one.
    pub fn is_watched(&self, member: &Member) -> bool {
        let is_current = self.current_step().is_some_and(|step| member.place.step == Some(step));
        match member.progress {
            Progress::Going => true,
            // Other clients delete or release the Applications of this step.
            Progress::Waiting if self.order.is_witnessed() => is_current,
            // Users delete the Applications of this step.
            Progress::Waiting => {
                is_current && member.place.step.is_some_and(|step| self.order.max_update(step).is_manual())
            }
            _ => false,
        }
    }

    /// Returns the step's Applications that the teardown waits for.
    pub(super) fn open_members(&self, step: u32) -> Vec<&str> {
        let open = self.members_in_step(step).filter(|(_, member)| !member.progress.is_settled());
        open.map(|(name, _)| name.as_str()).collect()
    }
}
