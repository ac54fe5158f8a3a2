//! Tasks that a wave is waiting for.

use std::borrow::Cow;
use std::collections::BTreeSet;

use tidegate_model::TaskId;

use crate::operation::state::{Cursor, OpenTasks};

/// Tasks that keep a wave open, grouped by the reason.
pub(crate) struct AwaitedTasks<'a> {
    pub(super) cursor: Cow<'a, Cursor>,
    pub(super) needs_healthy_resources: bool,
    pub(super) needs_deletions: bool,
}

impl AwaitedTasks<'_> {
    pub(super) fn open_tasks(&self) -> impl Iterator<Item = &OpenTasks> {
        let Cursor { open_hooks, open_resources, deletions, .. } = &*self.cursor;
        let resources = Some(open_resources).filter(|_| self.needs_healthy_resources);
        let leaving = Some(deletions).filter(|_| self.needs_deletions);
        std::iter::once(open_hooks).chain(resources).chain(leaving)
    }

    /// Returns the number of tasks that keep the wave open.
    pub(crate) fn count(&self) -> usize {
        self.open_tasks().map(|open| open.tasks.len()).sum()
    }

    /// Returns true if the wave is waiting only for tasks whose health must persist for some time.
    pub(crate) fn is_settling(&self) -> bool {
        self.count() > 0 && self.open_tasks().all(|open| open.weak_count == open.tasks.len())
    }

    /// Returns the first awaited hook or, without hooks, the first awaited resource. Also returns the numbers
    /// of awaited hooks and resources.
    pub(crate) fn first_health(&self) -> Option<(TaskId, usize, usize)> {
        let Cursor { open_hooks, open_resources, .. } = &*self.cursor;
        let resources = Some(&open_resources.tasks).filter(|_| self.needs_healthy_resources);
        let first = open_hooks.tasks.first().or_else(|| resources?.first())?;
        Some((*first, open_hooks.tasks.len(), resources.map_or(0, BTreeSet::len)))
    }

    /// Returns the task of the first awaited deletion, and the number of awaited deletions.
    pub(crate) fn first_deletion(&self) -> Option<(TaskId, usize)> {
        let leaving = Some(&self.cursor.deletions.tasks).filter(|_| self.needs_deletions)?;
        Some((*leaving.first()?, leaving.len()))
    }
}
