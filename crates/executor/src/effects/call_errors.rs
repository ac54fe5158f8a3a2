//! Translates cluster errors for the state machine.

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::format_duration;

/// Converts a cluster error. Conflicts come from races, so they count as transient.
pub(crate) fn call_error(error: &ClusterError) -> CallError {
    let retry_after = match error.kind {
        ErrorKind::TooManyRequests { retry_after } => retry_after,
        _ => None,
    };
    let is_transient = error.kind.is_transient() || error.kind == ErrorKind::Conflict;
    let is_outage = error.kind.is_outage();
    let message = match retry_after {
        Some(wait) => {
            format!("the cluster requested a delay of {}: {}", format_duration(wait), error.message)
        }
        None => error.message.clone(),
    };
    let has_few_retries = matches!(error.kind, ErrorKind::DependencyTimeout | ErrorKind::AlreadyAllocated);
    CallError { is_transient, is_outage, has_few_retries, retry_after, message }
}
