//! Recent changes to the objects of each kind, the source of watch events.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_model::{GroupKind, Object, ObjectKey};

/// One change to one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The cluster's resource version directly after the change.
    pub(crate) revision: u64,
    pub(crate) is_deleted: bool,
    /// The object after the change, or its last state if it was deleted.
    pub(crate) object: Arc<Object>,
    /// The object before the change, for reconstructing an older list.
    pub(crate) previous: Option<Arc<Object>>,
}

#[derive(Clone, Debug, Default)]
struct KindHistory {
    /// Revision of the newest dropped change.
    dropped_up_to: u64,
    changes: VecDeque<Change>,
}

/// Recent changes, kept only in memory. Like a restarted API server, a reopened cluster starts with an empty
/// history and returns Gone for older resource versions.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    limit: usize,
    /// Start revision of this history.
    start_revision: u64,
    kinds: BTreeMap<GroupKind, KindHistory>,
}

/// Error for a resource version older than the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpiredRevision;

impl History {
    pub(crate) fn new(limit: usize, start_revision: u64) -> Self {
        Self { limit: limit.max(1), start_revision, kinds: BTreeMap::new() }
    }

    pub(crate) fn push(&mut self, key: &ObjectKey, change: Change) {
        let kind = key.group_kind();
        let (limit, born) = (self.limit, self.start_revision);
        let track = self
            .kinds
            .entry(kind)
            .or_insert_with(|| KindHistory { dropped_up_to: born, ..KindHistory::default() });
        if track.changes.len() >= limit
            && let Some(oldest) = track.changes.pop_front()
        {
            track.dropped_up_to = oldest.revision;
        }
        track.changes.push_back(change);
    }

    /// Returns the changes of a kind after a revision, oldest first.
    pub(crate) fn changes_since(
        &self,
        kind: &GroupKind,
        revision: u64,
    ) -> Result<impl Iterator<Item = &Change>, ExpiredRevision> {
        let track = self.kinds.get(kind);
        if revision < track.map_or(self.start_revision, |track| track.dropped_up_to) {
            return Err(ExpiredRevision);
        }
        let changes = track.map(|track| {
            let start = track.changes.partition_point(|change| change.revision <= revision);
            track.changes.range(start..)
        });
        Ok(changes.into_iter().flatten())
    }

    /// Returns the revision of the newest change to a kind, or 0 if the history has none.
    pub(crate) fn newest_revision(&self, kind: &GroupKind) -> u64 {
        self.kinds.get(kind).and_then(|track| track.changes.back()).map_or(0, |change| change.revision)
    }

    /// Returns the most recent `count` changes to a kind, newest first.
    pub(crate) fn newest_changes(&self, kind: &GroupKind, count: u64) -> impl Iterator<Item = &Change> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.kinds.get(kind).into_iter().flat_map(|track| track.changes.iter().rev()).take(count)
    }
}
