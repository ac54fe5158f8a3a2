//! What failures of the cluster mean for the machine.

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::format_duration;

/// What a failed call means for the machine. A conflict is a race, and races pass.
pub(crate) fn call_error(error: &ClusterError) -> CallError {
    let retry_after = match error.kind {
        ErrorKind::TooManyRequests { retry_after } => retry_after,
        _ => None,
    };
    let transient = error.kind.is_transient() || error.kind == ErrorKind::Conflict;
    let outage = error.kind.is_outage();
    let message = match retry_after {
        Some(wait) => format!("it asks to slow down for {}: {}", format_duration(wait), error.message),
        None => error.message.clone(),
    };
    let few_tries = matches!(error.kind, ErrorKind::Stalled | ErrorKind::Allocated);
    CallError { transient, outage, few_tries, retry_after, message }
}
