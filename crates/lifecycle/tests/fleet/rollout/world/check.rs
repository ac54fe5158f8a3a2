//! What must hold at every moment, asked of the operations and the Applications.

use std::collections::BTreeSet;

use tidegate_lifecycle::rollout::{End, Progress, Stage, Work};
use tidegate_model::OperationPhase;

use super::World;

impl World {
    fn step_of(&self, member: &str) -> Option<u32> {
        self.rollout().members[member].place.step
    }

    /// Operations of a step that are not over, and Applications that were brought to their target and are not well yet.
    fn in_flight(&self, step: u32) -> BTreeSet<&str> {
        let mut members: BTreeSet<&str> = BTreeSet::new();
        for operation in self.operations.values() {
            let member = operation.member.as_str();
            let rollout = self.rollout().members.get(member);
            if rollout.is_none_or(|known| known.place.step != Some(step)) {
                continue;
            }
            let is_let_go = rollout
                .is_some_and(|known| !matches!(known.progress, Progress::Settling { adopted: false, .. }));
            let is_well = self.apps.get(member).is_none_or(|app| app.proven);
            if operation.over.is_none()
                || operation.over == Some(OperationPhase::Succeeded)
                    && operation.work == Work::Sync
                    && !is_well
                    && !is_let_go
            {
                members.insert(member);
            }
        }
        members
    }

    pub(super) fn check(&self) {
        if self.state().rollout().is_some() {
            self.check_places();
            self.check_operations();
        }
    }

    /// No more members of a step are in flight than may be. A percentage is one of all that the step has had: of those that
    /// were begun while it was more, none is stopped because others have left.
    fn check_places(&self) {
        let rollout = self.rollout();
        let is_ending = self.state().is_finished()
            || matches!(rollout.stage, Stage::RollingBack { .. } | Stage::Ending { .. });
        for (step, state) in (0_u32..).zip(&rollout.steps) {
            let members = rollout.members.values().filter(|member| member.place.step == Some(step));
            let most = state.step.max_update.of(u32::try_from(members.count()).unwrap());
            let most = usize::try_from(most.max(u32::from(is_ending))).unwrap_or(usize::MAX);
            let in_flight = self.in_flight(step);
            assert!(
                in_flight.len() <= most,
                "in flight in step {} are {in_flight:?}, {most} may be: {:#?}",
                step + 1,
                self.transcript
            );
        }
    }

    fn check_operations(&self) {
        let rollout = self.rollout();
        for name in rollout.members.iter().filter(|(_, m)| m.place.step.is_none()).map(|(name, _)| name) {
            assert!(
                self.operations.values().all(|operation| operation.member != *name),
                "{name} is left alone"
            );
        }
        let mut at_work = BTreeSet::new();
        for operation in self.operations.values().filter(|operation| operation.over.is_none()) {
            assert!(at_work.insert(&operation.member), "two operations of {} at once", operation.member);
        }
        // A status that could be misread later must fold from the log alone.
        if self.state().is_finished() {
            let open = self.operations.values().filter(|operation| operation.over.is_none());
            let names: Vec<_> = open.map(|operation| &operation.member).collect();
            assert!(
                names.is_empty() || rollout.outcome.as_ref().unwrap().end == End::Error,
                "left at work: {names:?}"
            );
        }
    }

    /// Every member of every step before was Healthy at its target after an operation, or its step says why it is not.
    pub(super) fn check_start(&self, member: &str, work: Work) {
        if work == Work::RollBack {
            return;
        }
        let rollout = self.rollout();
        let step = self.step_of(member).expect("one that a step selects");
        for (name, before) in &rollout.members {
            let Some(index) = before.place.step.filter(|before| *before < step) else { continue };
            let tolerates = rollout.steps[usize::try_from(index).unwrap()].step.max_failures.is_some();
            let is_excused = match before.progress {
                Progress::Skipped(_) | Progress::Assumed | Progress::Gone | Progress::Late => true,
                Progress::Failed { .. } => tolerates,
                _ => false,
            };
            let is_proven = self.apps.get(name).is_none_or(|app| app.proven);
            assert!(
                is_excused || is_proven,
                "{member} of step {} began before {name} of step {} was Healthy: {:#?}",
                step + 1,
                index + 1,
                self.transcript
            );
        }
    }
}
