//! Invariants, checked against the simulated operations and Applications.

use std::collections::BTreeSet;

use tidegate_lifecycle::rollout::{End, Progress, Stage, WorkKind};
use tidegate_model::OperationPhase;

use super::World;

impl World {
    fn step_of(&self, member: &str) -> Option<u32> {
        self.rollout().members[member].place.step
    }

    /// Returns the Applications of a step that have running operations, or that were deployed but aren't
    /// Healthy yet.
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
            let is_well = self.apps.get(member).is_none_or(|app| app.was_healthy);
            if operation.final_phase.is_none()
                || operation.final_phase == Some(OperationPhase::Succeeded)
                    && operation.work == WorkKind::Sync
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
            self.check_capacity();
            self.check_operations();
        }
    }

    /// Checks that no more Applications of a step are in flight than allowed. A percentage refers to all
    /// Applications that the step has ever had, because updates aren't stopped when other Applications leave.
    fn check_capacity(&self) {
        let rollout = self.rollout();
        let is_ending = self.state().is_finished()
            || matches!(rollout.stage, Stage::RollingBack { .. } | Stage::Ending { .. });
        for (step, state) in (0_u32..).zip(&rollout.steps) {
            let members = rollout.members.values().filter(|member| member.place.step == Some(step));
            let most = state.step.max_update.limit_for(u32::try_from(members.count()).unwrap());
            let most = usize::try_from(most.max(u32::from(is_ending))).unwrap_or(usize::MAX);
            let in_flight = self.in_flight(step);
            assert!(
                in_flight.len() <= most,
                "too many Applications are in flight in step {}: {in_flight:?} (maximum: {most}): {:#?}",
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
                "Application {name} is in no step and must not be changed"
            );
        }
        let mut at_work = BTreeSet::new();
        for operation in self.operations.values().filter(|operation| operation.final_phase.is_none()) {
            assert!(
                at_work.insert(&operation.member),
                "two operations of Application {} are running at once",
                operation.member
            );
        }
        // A finished rollout must not have running operations.
        if self.state().is_finished() {
            let open = self.operations.values().filter(|operation| operation.final_phase.is_none());
            let names: Vec<_> = open.map(|operation| &operation.member).collect();
            assert!(
                names.is_empty() || rollout.outcome.as_ref().unwrap().end == End::Error,
                "operations must not outlive the rollout: {names:?}"
            );
        }
    }

    /// Checks that every Application in earlier steps was Healthy at its target after an operation, or has an
    /// accepted reason why it wasn't.
    pub(super) fn check_start(&self, member: &str, work: WorkKind) {
        if work == WorkKind::RollBack {
            return;
        }
        let rollout = self.rollout();
        let step = self.step_of(member).expect("a step must select the Application");
        for (name, before) in &rollout.members {
            let Some(index) = before.place.step.filter(|before| *before < step) else { continue };
            let tolerates = rollout.steps[usize::try_from(index).unwrap()].step.max_failures.is_some();
            let is_excused = match before.progress {
                Progress::Skipped(_) | Progress::Assumed | Progress::Gone | Progress::Late => true,
                Progress::Failed { .. } => tolerates,
                _ => false,
            };
            let is_proven = self.apps.get(name).is_none_or(|app| app.was_healthy);
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
