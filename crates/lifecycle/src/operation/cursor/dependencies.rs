//! Dependencies in the cursor: which tasks of the wave are blocked, released or withheld.

use std::collections::BTreeSet;

use tidegate_model::{Action, ResultCode, Task, TaskId, Timestamp};

use crate::operation::rules::{OpenReason, has_runner, is_unapplied};
use crate::operation::state::{Cursor, Operation, Progress, TaskState, WaveStep};

/// Parts of a task's state before an event that matter to the tasks connected with it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PriorDependencies {
    satisfied_dependents: bool,
    was_kept: bool,
    was_awaited: bool,
    settles_at: Option<Timestamp>,
}

impl Cursor {
    /// Adds the dependencies of all tasks in a wave.
    pub(super) fn add_dependencies(&mut self, operation: &Operation, index: u32) {
        for (id, task, state) in operation.wave_tasks(index) {
            let dependencies = operation.graph.dependencies_of(id).count();
            if dependencies > 0 {
                self.unmet.insert(id, u32::try_from(dependencies).unwrap_or(u32::MAX));
            }
            if task.action == Action::Prune {
                self.place_prune(operation, id);
            }
            self.settling.extend(operation.dependency_settles_at(id, task, state).map(|at| (at, id)));
            if operation.is_awaited_dependency(id, task, state) {
                self.awaited_dependencies.insert(id);
            }
        }
        if self.unmet.is_empty() {
            return;
        }
        let satisfied = operation.wave_tasks(index).filter(|(id, _, _)| {
            operation.graph.has_dependents(*id) && operation.satisfies_dependents(self, *id)
        });
        let satisfied: Vec<TaskId> = satisfied.map(|(id, _, _)| id).collect();
        for id in satisfied {
            operation.update_dependents(self, id, true);
        }
        let dependents: Vec<TaskId> = self.unmet.keys().copied().collect();
        for id in dependents {
            self.place_dependent(operation, id);
            self.withhold_prune(operation, id);
        }
    }

    /// Records whether a task with dependencies is blocked or released.
    fn place_dependent(&mut self, operation: &Operation, id: TaskId) {
        let (Some(unmet), Some((task, state))) = (self.unmet.get(&id).copied(), operation.task(id)) else {
            return;
        };
        if task.action == Action::Prune {
            self.place_prune(operation, id);
            return;
        }
        let waits = task.action.writes_manifest() && is_unapplied(state);
        let starts_runner = has_runner(task) && state.progress == Progress::Waiting;
        for (set, is_member) in [
            (&mut self.blocked, waits && unmet > 0),
            (&mut self.released, waits && unmet == 0),
            (&mut self.released_runners, waits && unmet == 0 && starts_runner),
        ] {
            if is_member {
                set.insert(id);
            } else {
                set.remove(&id);
            }
        }
    }

    /// Records whether a prune still has to be sent, and whether its dependencies are satisfied.
    fn place_prune(&mut self, operation: &Operation, id: TaskId) {
        let waits = is_waiting_prune(operation, id);
        let is_released = self.unmet.get(&id).is_none_or(|unmet| *unmet == 0);
        for (set, is_member) in
            [(&mut self.waiting_prunes, waits), (&mut self.released_prunes, waits && is_released)]
        {
            if is_member {
                set.insert(id);
            } else {
                set.remove(&id);
            }
        }
    }

    /// Records whether a prune must not run because an object that depends on its object is kept.
    fn withhold_prune(&mut self, operation: &Operation, id: TaskId) {
        if is_waiting_prune(operation, id) && operation.kept_dependent(id).is_some() {
            self.withheld_prunes.insert(id);
        } else {
            self.withheld_prunes.remove(&id);
        }
    }
}

fn is_waiting_prune(operation: &Operation, id: TaskId) -> bool {
    let is_waiting =
        |task: &Task, state: &TaskState| task.action == Action::Prune && state.progress == Progress::Waiting;
    operation.task(id).is_some_and(|(task, state)| is_waiting(task, state))
}

/// Returns true if a task has no effect on its object, because the object is unchanged or a user decided so.
/// Its dependents wait for its own dependencies instead.
fn is_passed_over(task: &Task, state: &TaskState) -> bool {
    task.action == Action::Unchanged
        || matches!(state.status, Some(ResultCode::Skipped | ResultCode::MarkedDone))
}

impl Operation {
    /// Returns true if the tasks that depend on a task may start, as far as this task is concerned.
    pub(crate) fn satisfies_dependents(&self, cursor: &Cursor, id: TaskId) -> bool {
        let Some((task, state)) = self.task(id) else { return false };
        let has_succeeded = task.action == Action::Unchanged || state.satisfies_dependents();
        let waits = || cursor.unmet.get(&id).is_some_and(|unmet| *unmet > 0);
        has_succeeded && !self.is_kept(id) && !(is_passed_over(task, state) && waits())
    }

    /// Returns true if an object that should be pruned stays in the cluster: its deletion was refused, or a
    /// user skipped it.
    fn is_kept(&self, id: TaskId) -> bool {
        let is_kept = |state: &TaskState| {
            state.progress == Progress::Done
                && matches!(state.status, Some(ResultCode::PruneSkipped | ResultCode::Skipped))
        };
        self.task(id).is_some_and(|(task, state)| task.action == Action::Prune && is_kept(state))
    }

    /// Returns true if other tasks wait until this task, which was applied, is healthy.
    fn is_awaited_dependency(&self, id: TaskId, task: &Task, state: &TaskState) -> bool {
        self.graph.has_dependents(id)
            && self.open_reason(id, task, state).is_some_and(|(open, _)| open != OpenReason::Deletion)
    }

    /// Returns the time when weak evidence about the health of a task with dependents starts to count.
    fn dependency_settles_at(&self, id: TaskId, task: &Task, state: &TaskState) -> Option<Timestamp> {
        if !self.graph.has_dependents(id) {
            return None;
        }
        let (at, _) = self.weak_verdict(id, task, state).filter(|_| state.progress == Progress::Running)?;
        Some(at)
    }

    /// Returns the parts of a task's state that matter to the tasks connected with it.
    pub(super) fn capture_dependencies(&self, id: TaskId) -> PriorDependencies {
        let Some((task, state)) = self.task(id) else { return PriorDependencies::default() };
        PriorDependencies {
            satisfied_dependents: self.satisfies_dependents(&self.cursor, id),
            was_kept: self.is_kept(id),
            was_awaited: self.is_awaited_dependency(id, task, state),
            settles_at: self.dependency_settles_at(id, task, state),
        }
    }

    /// Updates the dependencies of the changed task and of its dependents.
    pub(super) fn update_dependencies(&self, cursor: &mut Cursor, id: TaskId, before: PriorDependencies) {
        let Some((task, state)) = self.task(id) else { return };
        cursor.place_dependent(self, id);
        if task.action == Action::Prune {
            cursor.place_prune(self, id);
            cursor.withhold_prune(self, id);
        }
        let settles_at = self.dependency_settles_at(id, task, state);
        if before.settles_at != settles_at {
            before.settles_at.map(|at| cursor.settling.remove(&(at, id)));
            cursor.settling.extend(settles_at.map(|at| (at, id)));
        }
        match (before.was_awaited, self.is_awaited_dependency(id, task, state)) {
            (false, true) => drop(cursor.awaited_dependencies.insert(id)),
            (true, false) => drop(cursor.awaited_dependencies.remove(&id)),
            _ => {}
        }
        if before.was_kept != self.is_kept(id) {
            self.graph.dependents_of(id).for_each(|dependent| cursor.withhold_prune(self, dependent));
        }
        let is_satisfied = self.satisfies_dependents(cursor, id);
        if before.satisfied_dependents != is_satisfied {
            self.update_dependents(cursor, id, is_satisfied);
        }
    }

    /// Updates the dependents of a task that now satisfies them, or doesn't anymore. A dependent that is passed
    /// over changes its own dependents as well.
    fn update_dependents(&self, cursor: &mut Cursor, id: TaskId, is_satisfied: bool) {
        let mut changed = vec![id];
        while let Some(id) = changed.pop() {
            for dependent in self.graph.dependents_of(id) {
                let before = self.satisfies_dependents(cursor, dependent);
                if let Some(unmet) = cursor.unmet.get_mut(&dependent) {
                    *unmet = if is_satisfied { unmet.saturating_sub(1) } else { unmet.saturating_add(1) };
                }
                cursor.place_dependent(self, dependent);
                if before != self.satisfies_dependents(cursor, dependent) {
                    changed.push(dependent);
                }
            }
        }
    }

    /// Returns the tasks that wait for a task, directly or through tasks that are passed over.
    pub(crate) fn waiting_for(&self, id: TaskId) -> BTreeSet<TaskId> {
        let mut waiting = BTreeSet::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for dependent in self.graph.dependents_of(id) {
                let is_passed_over =
                    self.task(dependent).is_some_and(|(task, state)| is_passed_over(task, state));
                if waiting.insert(dependent) && is_passed_over {
                    open.push(dependent);
                }
            }
        }
        waiting
    }

    /// Returns the object that a prune's object must outlive because it is kept.
    pub(crate) fn kept_dependent(&self, id: TaskId) -> Option<&Task> {
        let kept = self.graph.dependencies_of(id).find(|dependent| self.is_kept(*dependent))?;
        self.plan.task(kept)
    }

    /// Returns true if a blocked task can still be released: none of its dependencies has failed, directly or indirectly.
    pub(crate) fn has_releasable_tasks(&self, index: u32) -> bool {
        let cursor = self.cursor_for_wave(index);
        let failed = self.wave_tasks(index).filter(|(_, _, state)| state.is_unsuccessful());
        let mut open: Vec<TaskId> = failed.map(|(id, _, _)| id).collect();
        let mut hopeless = BTreeSet::new();
        while let Some(id) = open.pop() {
            open.extend(self.graph.dependents_of(id).filter(|dependent| hopeless.insert(*dependent)));
        }
        cursor.blocked.iter().any(|id| !hopeless.contains(id))
    }

    /// Returns the tasks of a wave whose dependencies are satisfied, and whose manifests must be applied now.
    pub(crate) fn released_tasks(&self, index: u32) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let cursor = self.cursor_for_wave(index);
        let is_due = |id: &TaskId| self.graph.is_turn_of(*id, cursor.next);
        let due: Vec<TaskId> = cursor.released.iter().copied().filter(is_due).collect();
        due.into_iter().filter_map(|id| self.task(id).map(|(task, state)| (id, task, state)))
    }

    /// Returns the applied tasks of a wave that other tasks are waiting for.
    pub(crate) fn awaited_dependencies(
        &self,
        index: u32,
    ) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let awaited: Vec<TaskId> = self.cursor_for_wave(index).awaited_dependencies.iter().copied().collect();
        awaited.into_iter().filter_map(|id| self.task(id).map(|(task, state)| (id, task, state)))
    }

    /// Returns true if all manifests and prunes left in a wave are waiting for dependencies, so no call is
    /// outstanding.
    pub(crate) fn awaits_only_dependencies(&self, index: u32, step: WaveStep) -> bool {
        let cursor = self.cursor_for_wave(index);
        let end = self.wave(index).map(|wave| TaskId(wave.first.saturating_add(wave.count)));
        match step {
            WaveStep::Applying => {
                self.awaits_dependencies(index) && cursor.released.is_empty() && Some(cursor.next) == end
            }
            WaveStep::Pruning => self.orders_prunes(index) && cursor.released_prunes.is_empty(),
            _ => false,
        }
    }

    /// Returns true if the wave has prunes that wait for other prunes.
    pub(crate) fn orders_prunes(&self, index: u32) -> bool {
        let is_prune = |id: &TaskId| self.plan.task(*id).is_some_and(|task| task.action.is_prune());
        self.cursor_for_wave(index).unmet.keys().any(is_prune)
    }
}
