//! What every store asks of an append before it writes anything, and the limits on what it takes.

use tidegate_model::LogRecord;

use crate::{Append, LogError};

/// Longest application name. Kubernetes names end at 253 bytes; a namespace and a few separators fit in twice that.
pub(crate) const MAX_APPLICATION_BYTES: usize = 1024;

/// Longest text of a summary. It is rewritten with every group, and a person reads it.
pub(crate) const MAX_SUMMARY_BYTES: usize = 256 << 10;

/// Largest blob. The planner refuses inputs of 100 MB, so a bundle of manifests stays below this.
pub(crate) const MAX_BLOB_BYTES: usize = 128 << 20;

/// Checks what needs no look at the storage but the last sequence number.
pub(crate) fn check_append<F: LogRecord, S: LogRecord>(
    last: u64,
    append: &Append<F, S>,
) -> Result<(), LogError> {
    let operation = append.operation;
    let expected = last.saturating_add(1);
    if append.first_sequence != expected {
        return Err(LogError::Gap { operation, expected, found: append.first_sequence });
    }
    if append.summary.operation != operation {
        return Err(LogError::WrongSummary { operation, summary: append.summary.operation });
    }
    let bytes = append.summary.application.len();
    if bytes > MAX_APPLICATION_BYTES {
        return Err(LogError::TooLarge { what: "application name", bytes, limit: MAX_APPLICATION_BYTES });
    }
    let bytes =
        bytes.saturating_add(append.summary.message.len()).saturating_add(append.summary.destination.len());
    if bytes > MAX_SUMMARY_BYTES {
        return Err(LogError::TooLarge { what: "summary", bytes, limit: MAX_SUMMARY_BYTES });
    }
    for kind in append.facts.iter().map(LogRecord::kind) {
        check_kind("fact", kind, F::HIGHEST_KIND)?;
    }
    append.snapshot.iter().try_for_each(|snapshot| check_kind("snapshot", snapshot.kind(), S::HIGHEST_KIND))
}

/// A record that could not be read back is not written.
fn check_kind(what: &'static str, kind: u16, highest: u16) -> Result<(), LogError> {
    if kind == 0 || kind > highest {
        let reason = format!("its kind {kind} is not between 1 and its type's highest, {highest}");
        return Err(LogError::Encoding { what, reason });
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
