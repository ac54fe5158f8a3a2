//! What becomes of the namespaces that an operation writes into.

use tidegate_model::Timestamp;

use crate::operation::fact::Fact;
use crate::operation::state::{Operation, Stage, WaveStep};
use crate::operation::{follow, messages};

/// One of them goes. What fails anyway needs no other reason.
pub(super) fn terminating(operation: &Operation, name: &str, at: Timestamp) -> Vec<Fact> {
    let has_failed = operation.failure.is_some() || operation.wave_expired.is_some();
    if has_failed || operation.namespaces.iter().all(|known| known != name) {
        return Vec::new();
    }
    match operation.stage {
        Stage::Planned | Stage::DryRun => {
            let message = messages::namespace_terminating_already(name);
            vec![Fact::AttemptFailed { message, retriable: true, at }]
        }
        Stage::Wave { index, .. } if !operation.is_sync_fail(index) => {
            vec![Fact::NamespaceTerminating { namespace: name.to_owned(), at }]
        }
        _ => Vec::new(),
    }
}

/// The look that a wave ends with; `None` when nobody awaits it.
pub(super) fn seen(operation: &Operation, names: &[String], now: Timestamp) -> Option<Vec<Fact>> {
    let (index, step) = operation.current_wave()?;
    let is_decided = operation.wave_expired.is_some() || operation.failure.is_some();
    if step != WaveStep::Verifying || is_decided || operation.header.paused.is_some() {
        return None;
    }
    let lost = names.iter().map(|name| terminating(operation, name, now)).find(|facts| !facts.is_empty());
    Some(lost.unwrap_or_else(|| follow::verified(operation, index, now)))
}
