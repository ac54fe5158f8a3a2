//! What a wave waits for.

use std::borrow::Cow;
use std::collections::BTreeSet;

use tidegate_model::TaskId;

use crate::operation::state::{Cursor, OpenTasks};

/// What a wave waits for.
pub(crate) struct Awaiting<'a> {
    pub(super) cursor: Cow<'a, Cursor>,
    pub(super) awaits_resources: bool,
    pub(super) awaits_leaving: bool,
}

impl Awaiting<'_> {
    pub(super) fn sorts(&self) -> impl Iterator<Item = &OpenTasks> {
        let Cursor { open_hooks, open_resources, leaving, .. } = &*self.cursor;
        let resources = Some(open_resources).filter(|_| self.awaits_resources);
        let leaving = Some(leaving).filter(|_| self.awaits_leaving);
        std::iter::once(open_hooks).chain(resources).chain(leaving)
    }

    /// How many tasks keep the wave open.
    pub(crate) fn count(&self) -> usize {
        self.sorts().map(|open| open.tasks.len()).sum()
    }

    /// Whether there are some, and of all of them only time can confirm what is seen.
    pub(crate) fn is_settling(&self) -> bool {
        self.count() > 0 && self.sorts().all(|open| open.weak == open.tasks.len())
    }

    /// The first hook, or else the first resource whose health is awaited; and how many there are of either.
    pub(crate) fn health(&self) -> Option<(TaskId, usize, usize)> {
        let Cursor { open_hooks, open_resources, .. } = &*self.cursor;
        let resources = Some(&open_resources.tasks).filter(|_| self.awaits_resources);
        let first = open_hooks.tasks.first().or_else(|| resources?.first())?;
        Some((*first, open_hooks.tasks.len(), resources.map_or(0, BTreeSet::len)))
    }

    /// The first object that is awaited to be gone, and how many there are.
    pub(crate) fn leaving(&self) -> Option<(TaskId, usize)> {
        let leaving = Some(&self.cursor.leaving.tasks).filter(|_| self.awaits_leaving)?;
        Some((*leaving.first()?, leaving.len()))
    }
}
