//! Code that updates an operation's cursor from its tasks.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_model::{Task, TaskId, Timestamp};

use super::rules::{OpenReason, has_runner, is_blocking, is_unapplied, target_namespaces};
use super::state::{Cursor, DependencyGraph, OpenTasks, Operation, Progress, TaskState, WaveStep};

impl Cursor {
    /// Computes the cursor of an operation from all tasks in the current wave.
    pub fn from_operation(operation: &Operation) -> Self {
        operation.current_wave().map_or_else(Self::default, |(index, _)| Self::for_wave(operation, index))
    }

    /// Computes the cursor of a wave from all its tasks.
    pub(crate) fn for_wave(operation: &Operation, index: u32) -> Self {
        let mut cursor = Self { wave: Some(index), ..Self::default() };
        for (id, task, state) in operation.wave_tasks(index) {
            if task.is_hook() {
                cursor.hooks.push(id);
            }
            cursor.unsuccessful_count =
                cursor.unsuccessful_count.saturating_add(u32::from(state.is_unsuccessful()));
            if let Some((open, is_weak)) = operation.open_reason(id, task, state) {
                cursor.open_tasks_mut(open).add(id, is_weak);
            }
            cursor.deadlines.extend(operation.hook_deadline(task, state).map(|at| (at, id)));
            cursor.add_dependencies(operation, id, task, state);
        }
        cursor.is_final = operation.is_last_wave(index);
        cursor.next = operation.wave(index).map_or(TaskId(0), |wave| TaskId(wave.first));
        cursor.advance(operation);
        cursor
    }

    fn add_dependencies(&mut self, operation: &Operation, id: TaskId, task: &Task, state: &TaskState) {
        if operation.graph.has_dependencies(id) {
            let is_unmet =
                |id: &TaskId| operation.task(*id).is_some_and(|(_, state)| !state.satisfies_dependents());
            let unmet = operation.graph.dependencies_of(id).filter(is_unmet).count();
            self.unmet.insert(id, u32::try_from(unmet).unwrap_or(u32::MAX));
            self.place_dependent(id, task, state);
        }
        self.settling.extend(operation.dependency_settles_at(id, task, state).map(|at| (at, id)));
        if operation.is_awaited_dependency(id, task, state) {
            self.awaited_dependencies.insert(id);
        }
    }

    /// Records whether a task with dependencies is blocked or released.
    fn place_dependent(&mut self, id: TaskId, task: &Task, state: &TaskState) {
        let Some(unmet) = self.unmet.get(&id).copied() else { return };
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

    fn open_tasks_mut(&mut self, open: OpenReason) -> &mut OpenTasks {
        match open {
            OpenReason::Hook => &mut self.open_hooks,
            OpenReason::Resource => &mut self.open_resources,
            OpenReason::Deletion => &mut self.deletions,
        }
    }

    /// Advances past the tasks that no longer block later kind groups.
    fn advance(&mut self, operation: &Operation) {
        let Some(wave) = self.wave.and_then(|index| operation.wave(index)) else { return };
        let end = TaskId(wave.first.saturating_add(wave.count));
        while self.next < end
            && operation
                .task(self.next)
                .is_none_or(|(task, state)| !operation.is_blocking_group(self.next, task, state))
        {
            self.next = TaskId(self.next.0.saturating_add(1));
        }
    }
}

/// Parts of a task's state before an event, for updating the cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PriorTaskState {
    task: TaskId,
    was_unsuccessful: bool,
    open_reason: Option<(OpenReason, bool)>,
    deadline: Option<Timestamp>,
    satisfied_dependents: bool,
    was_awaited_dependency: bool,
    settles_at: Option<Timestamp>,
}

impl Operation {
    /// Computes the fields that aren't recorded because they follow from others.
    pub(crate) fn update_derived_fields(&mut self) {
        self.namespaces = target_namespaces(&self.plan);
        self.graph = Arc::new(DependencyGraph::from_plan(&self.plan));
        self.cursor = Cursor::from_operation(self);
    }

    pub(crate) fn capture_task_state(&self, task: TaskId) -> PriorTaskState {
        let known = self.task(task);
        PriorTaskState {
            task,
            was_unsuccessful: known.is_some_and(|(_, state)| state.is_unsuccessful()),
            open_reason: known.and_then(|(known, state)| self.open_reason(task, known, state)),
            deadline: known.and_then(|(task, state)| self.hook_deadline(task, state)),
            satisfied_dependents: known.is_some_and(|(_, state)| state.satisfies_dependents()),
            was_awaited_dependency: known
                .is_some_and(|(known, state)| self.is_awaited_dependency(task, known, state)),
            settles_at: known.and_then(|(known, state)| self.dependency_settles_at(task, known, state)),
        }
    }

    /// Returns true if a task without dependencies blocks later kind groups. A task with dependencies blocks
    /// only its dependents.
    fn is_blocking_group(&self, id: TaskId, task: &Task, state: &TaskState) -> bool {
        is_blocking(task, state) && !self.graph.has_dependencies(id)
    }

    /// Returns true if other tasks wait until this task, which was applied, is healthy.
    fn is_awaited_dependency(&self, id: TaskId, task: &Task, state: &TaskState) -> bool {
        let is_open = self.open_reason(id, task, state).is_some_and(|(open, _)| open != OpenReason::Deletion);
        is_open && self.graph.has_dependents(id)
    }

    /// Returns the time when weak evidence about the health of a task with dependents starts to count.
    fn dependency_settles_at(&self, id: TaskId, task: &Task, state: &TaskState) -> Option<Timestamp> {
        let (at, _) = self.weak_verdict(id, task, state).filter(|_| state.progress == Progress::Running)?;
        self.graph.has_dependents(id).then_some(at)
    }

    /// Updates the cursor after an event about one task. After any other event, computes the cursor from
    /// scratch.
    pub(crate) fn update_cursor(&mut self, changed: Option<PriorTaskState>) {
        let mut cursor = std::mem::take(&mut self.cursor);
        match (cursor.wave, changed) {
            (_, None) => cursor = Cursor::from_operation(self),
            (Some(index), Some(before)) if self.is_in_wave(before.task, index) => {
                self.update_cursor_for_task(&mut cursor, before);
            }
            (_, Some(_)) => {}
        }
        self.cursor = cursor;
    }

    fn is_in_wave(&self, task: TaskId, index: u32) -> bool {
        self.wave(index)
            .is_some_and(|wave| (wave.first..wave.first.saturating_add(wave.count)).contains(&task.0))
    }

    fn update_cursor_for_task(&self, cursor: &mut Cursor, before: PriorTaskState) {
        let PriorTaskState { task: id, was_unsuccessful, open_reason, deadline: known, .. } = before;
        let Some((task, state)) = self.task(id) else { return };
        self.update_dependencies(cursor, before, task, state);
        let (before, now) = (u32::from(was_unsuccessful), u32::from(state.is_unsuccessful()));
        cursor.unsuccessful_count = cursor.unsuccessful_count.saturating_add(now).saturating_sub(before);
        if self.is_blocking_group(id, task, state) {
            cursor.next = cursor.next.min(id);
        }
        cursor.advance(self);
        let deadline = self.hook_deadline(task, state);
        if known != deadline {
            known.map(|at| cursor.deadlines.remove(&(at, id)));
            cursor.deadlines.extend(deadline.map(|at| (at, id)));
        }
        let is_open = self.open_reason(id, task, state);
        if open_reason != is_open {
            if let Some((open, is_weak)) = open_reason {
                cursor.open_tasks_mut(open).remove(id, is_weak);
            }
            if let Some((open, is_weak)) = is_open {
                cursor.open_tasks_mut(open).add(id, is_weak);
            }
        }
    }

    /// Updates the dependencies of the changed task and of its dependents.
    fn update_dependencies(
        &self,
        cursor: &mut Cursor,
        before: PriorTaskState,
        task: &Task,
        state: &TaskState,
    ) {
        let id = before.task;
        cursor.place_dependent(id, task, state);
        let settles_at = self.dependency_settles_at(id, task, state);
        if before.settles_at != settles_at {
            before.settles_at.map(|at| cursor.settling.remove(&(at, id)));
            cursor.settling.extend(settles_at.map(|at| (at, id)));
        }
        match (before.was_awaited_dependency, self.is_awaited_dependency(id, task, state)) {
            (false, true) => drop(cursor.awaited_dependencies.insert(id)),
            (true, false) => drop(cursor.awaited_dependencies.remove(&id)),
            _ => {}
        }
        let is_satisfied = state.satisfies_dependents();
        if before.satisfied_dependents == is_satisfied {
            return;
        }
        for dependent in self.graph.dependents_of(id) {
            let Some((task, state)) = self.task(dependent) else { continue };
            if let Some(unmet) = cursor.unmet.get_mut(&dependent) {
                *unmet = if is_satisfied { unmet.saturating_sub(1) } else { unmet.saturating_add(1) };
            }
            cursor.place_dependent(dependent, task, state);
        }
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
        let is_sendable_prune = |(id, task, state): (TaskId, &Task, &TaskState)| {
            task.action.is_prune() && state.progress == Progress::Waiting && self.is_released(index, id)
        };
        match step {
            WaveStep::Applying => {
                self.awaits_dependencies(index) && cursor.released.is_empty() && Some(cursor.next) == end
            }
            WaveStep::Pruning => !cursor.unmet.is_empty() && !self.wave_tasks(index).any(is_sendable_prune),
            _ => false,
        }
    }

    /// Returns true if a task's dependencies are satisfied. Always true for a task without dependencies.
    pub(crate) fn is_released(&self, index: u32, id: TaskId) -> bool {
        self.cursor_for_wave(index).unmet.get(&id).is_none_or(|unmet| *unmet == 0)
    }

    /// Returns the cursor of any wave.
    pub(crate) fn cursor_for_wave(&self, index: u32) -> Cow<'_, Cursor> {
        if self.cursor.wave == Some(index) {
            Cow::Borrowed(&self.cursor)
        } else {
            Cow::Owned(Cursor::for_wave(self, index))
        }
    }

    pub(crate) fn wave_hooks(&self, index: u32) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let known = (self.cursor.wave == Some(index)).then_some(&self.cursor.hooks);
        let kept = known.into_iter().flatten().filter_map(|id| {
            let (task, state) = self.task(*id)?;
            Some((*id, task, state))
        });
        let others = (known.is_none()).then(|| self.wave_tasks(index));
        kept.chain(others.into_iter().flatten().filter(|(_, task, _)| task.is_hook()))
    }

    /// Returns the tasks in a wave, starting with the first task that blocks later kind groups.
    pub(crate) fn remaining_wave_tasks(
        &self,
        index: u32,
    ) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let next = self.cursor_for_wave(index).next;
        let end = self.wave(index).map_or(0, |wave| wave.first.saturating_add(wave.count));
        (next.0..end).map(TaskId).filter_map(|id| {
            let (task, state) = self.task(id)?;
            Some((id, task, state))
        })
    }
}
