//! Code that updates an operation's cursor from its tasks.

mod dependencies;

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_model::{Task, TaskId, Timestamp};

use self::dependencies::PriorDependencies;
use super::rules::{OpenReason, is_blocking, target_namespaces};
use super::state::{Cursor, DependencyGraph, OpenTasks, Operation, TaskState};

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
        }
        cursor.add_dependencies(operation, index);
        cursor.is_final = operation.is_last_wave(index);
        cursor.next = operation.wave(index).map_or(TaskId(0), |wave| TaskId(wave.first));
        cursor.advance(operation);
        cursor
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
    dependencies: PriorDependencies,
}

impl Operation {
    /// Computes the fields that aren't recorded because they follow from others.
    pub(crate) fn update_derived_fields(&mut self) {
        self.namespaces = target_namespaces(&self.plan);
        self.graph = Arc::new(DependencyGraph::from_plan(&self.plan));
        self.cursor = Cursor::from_operation(self);
    }

    pub(crate) fn capture_task_state(&self, id: TaskId) -> PriorTaskState {
        let known = self.task(id);
        PriorTaskState {
            task: id,
            was_unsuccessful: known.is_some_and(|(_, state)| state.is_unsuccessful()),
            open_reason: known.and_then(|(task, state)| self.open_reason(id, task, state)),
            deadline: known.and_then(|(task, state)| self.hook_deadline(task, state)),
            dependencies: self.capture_dependencies(id),
        }
    }

    /// Returns true if a task without dependencies blocks later kind groups. A task with dependencies blocks
    /// only its dependents.
    fn is_blocking_group(&self, id: TaskId, task: &Task, state: &TaskState) -> bool {
        is_blocking(task, state) && !self.graph.has_dependencies(id)
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
        self.update_dependencies(cursor, id, before.dependencies);
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
