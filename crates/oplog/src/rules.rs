//! What every store asks of an append before it writes anything, and the limits on what it takes.

use tidegate_model::StreamKind;

use crate::{Epoch, LogError, RawAppend, StreamName};

/// Longest name of an application or a set. Kubernetes names end at 253 bytes; a namespace and a few separators fit in
/// twice that.
pub(crate) const MAX_NAME_BYTES: usize = 1024;

/// Largest details of a summary. They are rewritten with every group, and a person reads them.
pub(crate) const MAX_SUMMARY_BYTES: usize = 256 << 10;

/// Largest blob. The planner refuses inputs of 100 MB, so a bundle of manifests stays below this.
pub(crate) const MAX_BLOB_BYTES: usize = 128 << 20;

/// How a stream stands, as far as the next append to it depends on that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) kind: StreamKind,
    /// Sequence number of its last fact.
    pub(crate) last: u64,
    pub(crate) epoch: Epoch,
    /// Who has begun the epoch; empty in the first, which nobody took from anybody.
    pub(crate) taken_by: String,
}

impl Standing {
    /// Of a stream that begins.
    pub(crate) fn new(kind: StreamKind) -> Self {
        Self { kind, last: 0, epoch: Epoch::FIRST, taken_by: String::new() }
    }

    /// Refuses an append that does not follow on it.
    pub(crate) fn check(&self, append: &RawAppend) -> Result<(), LogError> {
        if append.kind != self.kind {
            let (wanted, found) = (append.kind.clone(), self.kind.clone());
            return Err(LogError::OtherKind { stream: append.stream, wanted, found });
        }
        let stream = || StreamName::of(append.kind.clone(), append.stream);
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

    /// How it stands after an append by `writer`.
    pub(crate) fn after(&mut self, append: &RawAppend, writer: &str) {
        self.last = self.last.saturating_add(u64::try_from(append.facts.len()).unwrap_or(u64::MAX));
        if append.epoch > self.epoch {
            self.epoch = append.epoch;
            writer.clone_into(&mut self.taken_by);
        }
    }
}

/// Checks the size of what an append says about its stream.
pub(crate) fn check_size(append: &RawAppend) -> Result<(), LogError> {
    let summary = &append.summary;
    for (what, name) in [("application name", &summary.application), ("set name", &summary.set)] {
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

/// Checks the size of a blob.
pub(crate) fn check_blob(content: &[u8]) -> Result<(), LogError> {
    if content.len() > MAX_BLOB_BYTES {
        return Err(LogError::TooLarge { what: "blob", bytes: content.len(), limit: MAX_BLOB_BYTES });
    }
    Ok(())
}
