//! Size limits, and checks that every store runs before an append.

use tidegate_model::StreamKind;

use crate::{Epoch, LogError, RawAppend, StreamName};

/// Maximum length of an application or ApplicationSet name in bytes. Kubernetes names have at most 253 bytes,
/// so a namespace, a name and a few separators fit easily.
pub(crate) const MAX_NAME_BYTES: usize = 1024;

/// Maximum size of a summary's details in bytes. They are short texts for users, rewritten with every group.
pub(crate) const MAX_SUMMARY_BYTES: usize = 256 << 10;

/// Maximum size of a blob in bytes. The planner rejects inputs of 100 MB, so bundles of manifests stay below
/// this limit.
pub(crate) const MAX_BLOB_BYTES: usize = 128 << 20;

/// Stream state that the next append is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppendState {
    pub(crate) kind: StreamKind,
    /// Sequence number of the last event.
    pub(crate) last: u64,
    pub(crate) epoch: Epoch,
    /// Process that started the current epoch. Empty in the first epoch, which doesn't start with a takeover.
    pub(crate) taken_by: String,
}

impl AppendState {
    pub(crate) fn new(kind: StreamKind) -> Self {
        Self { kind, last: 0, epoch: Epoch::FIRST, taken_by: String::new() }
    }

    /// Rejects an append that doesn't continue the stream.
    pub(crate) fn check_append(&self, append: &RawAppend) -> Result<(), LogError> {
        if append.kind != self.kind {
            let (wanted, found) = (append.kind.clone(), self.kind.clone());
            return Err(LogError::KindMismatch { stream: append.stream, wanted, found });
        }
        let stream = || StreamName::with_kind(append.kind.clone(), append.stream);
        if append.epoch < self.epoch {
            let (epoch, by) = (self.epoch, self.taken_by.clone());
            return Err(LogError::Fenced { stream: stream(), epoch, by, offered: append.epoch });
        }
        let expected = self.last.saturating_add(1);
        if append.first_sequence != expected {
            return Err(LogError::Gap { stream: stream(), expected, found: append.first_sequence });
        }
        Ok(())
    }

    /// Updates the state after an append by `writer`.
    pub(crate) fn advance(&mut self, append: &RawAppend, writer: &str) {
        self.last = self.last.saturating_add(u64::try_from(append.events.len()).unwrap_or(u64::MAX));
        if append.epoch > self.epoch {
            self.epoch = append.epoch;
            writer.clone_into(&mut self.taken_by);
        }
    }
}

/// Checks the size of an append's stream data.
pub(crate) fn check_append_size(append: &RawAppend) -> Result<(), LogError> {
    let summary = &append.summary;
    for (what, name) in [("application name", &summary.application), ("ApplicationSet name", &summary.set)] {
        let bytes = name.as_ref().map_or(0, String::len);
        if bytes > MAX_NAME_BYTES {
            return Err(LogError::TooLarge { what, bytes, limit: MAX_NAME_BYTES });
        }
    }
    let bytes = summary.details.content.len();
    if bytes > MAX_SUMMARY_BYTES {
        return Err(LogError::TooLarge { what: "summary", bytes, limit: MAX_SUMMARY_BYTES });
    }
    Ok(())
}

pub(crate) fn check_blob_size(content: &[u8]) -> Result<(), LogError> {
    if content.len() > MAX_BLOB_BYTES {
        return Err(LogError::TooLarge { what: "blob", bytes: content.len(), limit: MAX_BLOB_BYTES });
    }
    Ok(())
}
