//! The head of a stream: how far its records reach, and a digest over them, so that a missing, repeated or
//! exchanged record is noticed even if every record by itself is sound.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;

use crate::Epoch;
use crate::rules::Standing;

/// Row `h`. Its layout is part of the format; golden logs hold it. The one before is [`super::earlier::Head`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Counts up with every change; the summary written with it bears the same number.
    pub(crate) revision: u64,
    /// Facts up to this one are gone. Where not all are, an earlier program removed those that the snapshot covers.
    pub(crate) base: u64,
    /// The digest up to there.
    pub(crate) base_digest: Digest,
    /// Sequence number of the last fact.
    pub(crate) last: u64,
    /// The digest up to there.
    pub(crate) digest: Digest,
    /// Where the newest snapshot is; `None` where none was made, or none is left.
    pub(crate) snapshot: Option<SnapshotMark>,
    /// How many reference rows there are.
    pub(crate) references: u64,
    /// Only the summary is kept.
    pub(crate) reduced: bool,
    /// Epoch of whoever wrote last.
    pub(crate) epoch: Epoch,
    /// Who began that epoch; empty in the first.
    pub(crate) taken_by: String,
}

/// What the head knows about the newest snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotMark {
    /// The last fact it covers.
    pub(crate) sequence: u64,
    /// The digest up to there.
    pub(crate) digest: Digest,
    /// The blob that holds it, when it is a large one.
    pub(crate) blob: Option<Digest>,
}

impl Head {
    /// Of a stream without facts.
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

    /// Takes in who wrote.
    pub(crate) fn written(&mut self, after: &Standing) {
        self.epoch = after.epoch;
        self.taken_by.clone_from(&after.taken_by);
    }

    /// Takes in the next fact, as the bytes that are stored.
    pub(crate) fn extend(&mut self, record: &[u8]) {
        self.last = self.last.saturating_add(1);
        self.digest = chain(self.digest, record);
    }
}

/// The digest after one more record.
pub(crate) fn chain(digest: Digest, record: &[u8]) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update(digest.0);
    hasher.update(record);
    Digest(hasher.finalize().into())
}
