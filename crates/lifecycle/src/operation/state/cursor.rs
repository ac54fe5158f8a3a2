//! Cursor of the current wave.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{TaskId, Timestamp};

/// Data about the current wave, computed from the plan and the tasks. The machine needs it after every event.
/// Without a cursor, it would have to visit all tasks each time a single resource becomes healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Position of the wave. `None` outside of waves.
    pub wave: Option<u32>,
    /// First task that blocks later kind groups, or the end of the wave.
    pub next: TaskId,
    /// Hooks of the wave.
    pub hooks: Vec<TaskId>,
    /// Number of failed tasks in the wave.
    pub unsuccessful_count: u32,
    /// True if this is the last wave, apart from SyncFail waves.
    pub is_final: bool,
    /// Hooks that haven't finished or still have their finalizer.
    pub open_hooks: OpenTasks,
    /// Resources that have been applied but aren't healthy yet.
    pub open_resources: OpenTasks,
    /// Objects that are being pruned.
    pub deletions: OpenTasks,
    /// Deadlines of running hooks.
    pub deadlines: BTreeSet<(Timestamp, TaskId)>,
    /// Number of unsatisfied dependencies of each task that has dependencies.
    pub unmet: BTreeMap<TaskId, u32>,
    /// Prunes that haven't been sent yet.
    pub waiting_prunes: BTreeSet<TaskId>,
    /// Prunes that haven't been sent yet and whose dependencies are satisfied.
    pub released_prunes: BTreeSet<TaskId>,
    /// Prunes that must not run because an object that depends on theirs was kept.
    pub withheld_prunes: BTreeSet<TaskId>,
    /// Tasks with dependencies whose manifests still wait for a dependency.
    pub blocked: BTreeSet<TaskId>,
    /// Tasks whose dependencies are satisfied and whose manifests haven't been applied yet.
    pub released: BTreeSet<TaskId>,
    /// Released hooks that haven't been passed to their runners yet.
    pub released_runners: BTreeSet<TaskId>,
    /// Applied tasks that aren't healthy yet and have dependents.
    pub awaited_dependencies: BTreeSet<TaskId>,
    /// Times when the weak evidence about awaited dependencies starts to count.
    pub settling: BTreeSet<(Timestamp, TaskId)>,
}

/// Tasks of one type that keep a wave open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenTasks {
    /// Tasks that haven't finished.
    pub tasks: BTreeSet<TaskId>,
    /// Number of tasks whose health must persist before it counts.
    pub weak_count: usize,
}

impl OpenTasks {
    pub(in crate::operation) fn add(&mut self, task: TaskId, is_weak: bool) {
        self.tasks.insert(task);
        self.weak_count = self.weak_count.saturating_add(usize::from(is_weak));
    }

    pub(in crate::operation) fn remove(&mut self, task: TaskId, is_weak: bool) {
        self.tasks.remove(&task);
        self.weak_count = self.weak_count.saturating_sub(usize::from(is_weak));
    }
}
