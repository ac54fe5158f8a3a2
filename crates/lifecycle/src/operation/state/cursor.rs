//! Where the current wave stands among its tasks.

use serde::{Deserialize, Deserializer};
use tidegate_model::{Task, TaskId};

use super::{Operation, TaskState};
use crate::operation::rules::holds_up;

/// What the machine asks about the current wave at every turn. It follows from the plan and the tasks, and is kept so
/// that a turn costs as much as there is to do, not a look at every task: a wave of many kind groups has many turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The wave, by position; `None` while there is none.
    pub wave: Option<u32>,
    /// The first task that holds up the kind groups after its own; the end of the wave when none does.
    pub next: TaskId,
    /// The hooks of the wave.
    pub hooks: Vec<TaskId>,
    /// How many tasks of the wave have ended badly.
    pub unsuccessful: u32,
}

/// An operation from a record, with its cursor.
pub(super) fn read_operation<'de, D: Deserializer<'de>>(record: D) -> Result<Box<Operation>, D::Error> {
    let mut operation = Box::<Operation>::deserialize(record)?;
    operation.cursor = Cursor::of(&operation);
    Ok(operation)
}

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
        }
        cursor.next = operation.wave(index).map_or(TaskId(0), |wave| TaskId(wave.first));
        cursor.go_on(operation);
        cursor
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
}

impl Operation {
    pub(crate) fn before(&self, task: TaskId) -> Before {
        let state = self.tasks.get(task.index());
        Before { task, was_unsuccessful: state.is_some_and(TaskState::is_unsuccessful) }
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

    fn follow_task(&self, cursor: &mut Cursor, Before { task: id, was_unsuccessful }: Before) {
        let Some((task, state)) = self.task(id) else { return };
        let (before, now) = (u32::from(was_unsuccessful), u32::from(state.is_unsuccessful()));
        cursor.unsuccessful = cursor.unsuccessful.saturating_add(now).saturating_sub(before);
        if holds_up(task, state) {
            cursor.next = cursor.next.min(id);
        }
        cursor.go_on(self);
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
        let next = match &self.cursor {
            Cursor { wave: Some(current), next, .. } if *current == index => *next,
            _ => Cursor::at(self, index).next,
        };
        let end = self.wave(index).map_or(0, |wave| wave.first.saturating_add(wave.count));
        (next.0..end).map(TaskId).filter_map(|id| {
            let (task, state) = self.task(id)?;
            Some((id, task, state))
        })
    }
}
