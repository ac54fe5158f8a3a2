//! The recent changes of each kind, which watches are fed from.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_model::{GroupKind, Object, ObjectKey};

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Resource version of the cluster right after it.
    pub(crate) revision: u64,
    pub(crate) deleted: bool,
    /// The object after the change; its last state when it was deleted.
    pub(crate) object: Arc<Object>,
    /// The object before the change, so that an older list can be put together.
    pub(crate) before: Option<Arc<Object>>,
}

#[derive(Clone, Debug, Default)]
struct Track {
    /// Changes up to this revision are forgotten.
    floor: u64,
    changes: VecDeque<Change>,
}

/// Not kept on disk: a reopened cluster has forgotten its past, as a restarted API server has, and says Gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    limit: usize,
    /// The revision at which this history began.
    born: u64,
    kinds: BTreeMap<GroupKind, Track>,
}

/// The resource version is older than what the history remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld;

impl History {
    pub(crate) fn new(limit: usize, born: u64) -> Self {
        Self { limit: limit.max(1), born, kinds: BTreeMap::new() }
    }

    pub(crate) fn push(&mut self, key: &ObjectKey, change: Change) {
        let kind = key.group_kind();
        let (limit, born) = (self.limit, self.born);
        let track = self.kinds.entry(kind).or_insert_with(|| Track { floor: born, ..Track::default() });
        if track.changes.len() >= limit
            && let Some(oldest) = track.changes.pop_front()
        {
            track.floor = oldest.revision;
        }
        track.changes.push_back(change);
    }

    /// The changes of a kind after a revision, oldest first.
    pub(crate) fn since(
        &self,
        kind: &GroupKind,
        revision: u64,
    ) -> Result<impl Iterator<Item = &Change>, TooOld> {
        let track = self.kinds.get(kind);
        if revision < track.map_or(self.born, |track| track.floor) {
            return Err(TooOld);
        }
        let changes = track.map(|track| {
            let start = track.changes.partition_point(|change| change.revision <= revision);
            track.changes.range(start..)
        });
        Ok(changes.into_iter().flatten())
    }

    /// Revision of the newest change of a kind, 0 when none is remembered.
    pub(crate) fn newest(&self, kind: &GroupKind) -> u64 {
        self.kinds.get(kind).and_then(|track| track.changes.back()).map_or(0, |change| change.revision)
    }

    /// The newest `count` changes of a kind, newest first.
    pub(crate) fn last(&self, kind: &GroupKind, count: u64) -> impl Iterator<Item = &Change> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.kinds.get(kind).into_iter().flat_map(|track| track.changes.iter().rev()).take(count)
    }
}
