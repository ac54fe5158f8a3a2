//! The head of a stream: the number of its records and a digest of them. The digest reveals missing, repeated
//! or swapped records even if each is intact.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;

use crate::Epoch;
use crate::append_checks::AppendState;

/// Row `h`. Its layout is part of the on-disk format, and golden logs contain such rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Revision, incremented with every change. A summary written with the head shares its revision.
    pub(crate) revision: u64,
    /// Sequence number of the last removed event.
    pub(crate) base: u64,
    /// Digest of the events up to `base`.
    pub(crate) base_digest: Digest,
    /// Sequence number of the last event.
    pub(crate) last: u64,
    /// Digest of the events up to `last`.
    pub(crate) digest: Digest,
    /// Location of the newest snapshot, if there is one.
    pub(crate) snapshot: Option<SnapshotMark>,
    /// Number of reference rows.
    pub(crate) references: u64,
    /// True if only the summary remains.
    pub(crate) reduced: bool,
    /// Epoch of the last writer.
    pub(crate) epoch: Epoch,
    /// Process that started the epoch. Empty in the first epoch.
    pub(crate) taken_by: String,
}

/// Information about the newest snapshot, stored in the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotMark {
    /// Sequence number of the last event that the snapshot covers.
    pub(crate) sequence: u64,
    /// Digest of the events up to `sequence`.
    pub(crate) digest: Digest,
    /// Blob with the snapshot, if it is large.
    pub(crate) blob: Option<Digest>,
}

impl Head {
    /// Returns the head of an empty stream.
    pub(crate) fn new() -> Self {
        let none = Digest([0; 32]);
        Self {
            revision: 0,
            base: 0,
            base_digest: none,
            last: 0,
            digest: none,
            snapshot: None,
            references: 0,
            reduced: false,
            epoch: Epoch::FIRST,
            taken_by: String::new(),
        }
    }

    pub(crate) fn record_writer(&mut self, after: &AppendState) {
        self.epoch = after.epoch;
        self.taken_by.clone_from(&after.taken_by);
    }

    /// Adds the next event, given its stored bytes.
    pub(crate) fn extend(&mut self, record: &[u8]) {
        self.last = self.last.saturating_add(1);
        self.digest = chain_digest(self.digest, record);
    }
}

/// Extends the digest of a sequence of records by one.
pub(crate) fn chain_digest(digest: Digest, record: &[u8]) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update(digest.0);
    hasher.update(record);
    Digest(hasher.finalize().into())
}
