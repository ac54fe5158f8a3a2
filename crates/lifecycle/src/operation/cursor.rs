//! How the cursor of an operation follows its tasks.

use std::borrow::Cow;

use tidegate_model::{Task, TaskId, Timestamp};

use super::rules::{Open, holds_up, namespaces_of};
use super::state::{Cursor, OpenTasks, Operation, TaskState};

impl Cursor {
    /// The cursor of an operation, from a look at all tasks of the current wave.
    pub fn of(operation: &Operation) -> Self {
        operation.current_wave().map_or_else(Self::default, |(index, _)| Self::at(operation, index))
    }

    /// The cursor of a wave, from a look at all its tasks.
    pub(crate) fn at(operation: &Operation, index: u32) -> Self {
        let mut cursor = Self { wave: Some(index), ..Self::default() };
        for (id, task, state) in operation.wave_tasks(index) {
            if task.is_hook() {
                cursor.hooks.push(id);
            }
            cursor.unsuccessful = cursor.unsuccessful.saturating_add(u32::from(state.is_unsuccessful()));
            if let Some((open, is_weak)) = operation.open(task, state) {
                cursor.sort(open).add(id, is_weak);
            }
            cursor.deadlines.extend(operation.hook_deadline(task, state).map(|at| (at, id)));
        }
        cursor.is_final = operation.is_last(index);
        cursor.next = operation.wave(index).map_or(TaskId(0), |wave| TaskId(wave.first));
        cursor.go_on(operation);
        cursor
    }

    fn sort(&mut self, open: Open) -> &mut OpenTasks {
        match open {
            Open::Hook => &mut self.open_hooks,
            Open::Resource => &mut self.open_resources,
            Open::Leaving => &mut self.leaving,
        }
    }

    /// Passes over the tasks that hold up nothing any more.
    fn go_on(&mut self, operation: &Operation) {
        let Some(wave) = self.wave.and_then(|index| operation.wave(index)) else { return };
        let end = TaskId(wave.first.saturating_add(wave.count));
        while self.next < end && operation.task(self.next).is_none_or(|(task, state)| !holds_up(task, state))
        {
            self.next = TaskId(self.next.0.saturating_add(1));
        }
    }
}

/// What the cursor needs to know of a task before a fact about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    task: TaskId,
    was_unsuccessful: bool,
    was_open: Option<(Open, bool)>,
    deadline: Option<Timestamp>,
}

impl Operation {
    /// Works out what is not recorded, because the rest says it.
    pub(crate) fn derive(&mut self) {
        self.namespaces = namespaces_of(&self.plan);
        self.cursor = Cursor::of(self);
    }

    pub(crate) fn before(&self, task: TaskId) -> Before {
        let known = self.task(task);
        Before {
            task,
            was_unsuccessful: known.is_some_and(|(_, state)| state.is_unsuccessful()),
            was_open: known.and_then(|(task, state)| self.open(task, state)),
            deadline: known.and_then(|(task, state)| self.hook_deadline(task, state)),
        }
    }

    /// Moves the cursor after a fact about one task, or about more than that.
    pub(crate) fn move_cursor(&mut self, changed: Option<Before>) {
        let mut cursor = std::mem::take(&mut self.cursor);
        match (cursor.wave, changed) {
            (_, None) => cursor = Cursor::of(self),
            (Some(index), Some(before)) if self.is_of_wave(before.task, index) => {
                self.follow_task(&mut cursor, before);
            }
            (_, Some(_)) => {}
        }
        self.cursor = cursor;
    }

    fn is_of_wave(&self, task: TaskId, index: u32) -> bool {
        self.wave(index)
            .is_some_and(|wave| (wave.first..wave.first.saturating_add(wave.count)).contains(&task.0))
    }

    fn follow_task(&self, cursor: &mut Cursor, before: Before) {
        let Before { task: id, was_unsuccessful, was_open, deadline: known } = before;
        let Some((task, state)) = self.task(id) else { return };
        let (before, now) = (u32::from(was_unsuccessful), u32::from(state.is_unsuccessful()));
        cursor.unsuccessful = cursor.unsuccessful.saturating_add(now).saturating_sub(before);
        if holds_up(task, state) {
            cursor.next = cursor.next.min(id);
        }
        cursor.go_on(self);
        let deadline = self.hook_deadline(task, state);
        if known != deadline {
            known.map(|at| cursor.deadlines.remove(&(at, id)));
            cursor.deadlines.extend(deadline.map(|at| (at, id)));
        }
        let is_open = self.open(task, state);
        if was_open != is_open {
            if let Some((open, is_weak)) = was_open {
                cursor.sort(open).remove(id, is_weak);
            }
            if let Some((open, is_weak)) = is_open {
                cursor.sort(open).add(id, is_weak);
            }
        }
    }

    /// The cursor of a wave, whether it is the current one or not.
    pub(crate) fn cursor_at(&self, index: u32) -> Cow<'_, Cursor> {
        if self.cursor.wave == Some(index) {
            Cow::Borrowed(&self.cursor)
        } else {
            Cow::Owned(Cursor::at(self, index))
        }
    }

    /// The hooks of a wave.
    pub(crate) fn wave_hooks(&self, index: u32) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let known = (self.cursor.wave == Some(index)).then_some(&self.cursor.hooks);
        let kept = known.into_iter().flatten().filter_map(|id| {
            let (task, state) = self.task(*id)?;
            Some((*id, task, state))
        });
        let others = (known.is_none()).then(|| self.wave_tasks(index));
        kept.chain(others.into_iter().flatten().filter(|(_, task, _)| task.is_hook()))
    }

    /// The tasks of a wave from the first that holds up the kind groups after its own.
    pub(crate) fn rest_of_wave(&self, index: u32) -> impl Iterator<Item = (TaskId, &Task, &TaskState)> {
        let next = self.cursor_at(index).next;
        let end = self.wave(index).map_or(0, |wave| wave.first.saturating_add(wave.count));
        (next.0..end).map(TaskId).filter_map(|id| {
            let (task, state) = self.task(id)?;
            Some((id, task, state))
        })
    }
}
