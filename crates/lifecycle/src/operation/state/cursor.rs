//! Where the current wave stands among its tasks.

use std::collections::BTreeSet;

use tidegate_model::{TaskId, Timestamp};

/// What the machine asks about the current wave at every turn. It follows from the plan and the tasks, and is kept so
/// that a turn costs as much as has happened, not a look at every task: a wave of many kind groups has many turns, and so
/// has one of many resources that become well one after the other.
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
    /// No wave comes after this one unless something fails.
    pub is_final: bool,
    /// Hooks that have not ended, or still carry the finalizer.
    pub open_hooks: OpenTasks,
    /// Resources at work that are judged by their health.
    pub open_resources: OpenTasks,
    /// Objects that are being pruned.
    pub leaving: OpenTasks,
    /// The deadlines of hooks at work.
    pub deadlines: BTreeSet<(Timestamp, TaskId)>,
}

/// Tasks of one sort that keep a wave open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenTasks {
    /// Those that have not ended.
    pub tasks: BTreeSet<TaskId>,
    /// How many of them look decided by evidence that only time can confirm.
    pub weak: usize,
}

impl OpenTasks {
    pub(in crate::operation) fn add(&mut self, task: TaskId, is_weak: bool) {
        self.tasks.insert(task);
        self.weak = self.weak.saturating_add(usize::from(is_weak));
    }

    pub(in crate::operation) fn remove(&mut self, task: TaskId, is_weak: bool) {
        self.tasks.remove(&task);
        self.weak = self.weak.saturating_sub(usize::from(is_weak));
    }
}
