//! Retries of failed calls.

use std::time::Duration;

use tidegate_model::Timestamp;

use crate::operation::input::CallError;
use crate::operation::state::{CallFailures, Header, Operation, Progress, Stage, TaskState};

/// Maximum number of transient failures per call, reached in about a minute with the delays below. Failures
/// in a cluster outage don't count while the operation has time left.
pub(crate) const CALL_FAILURES_MAX: u32 = 10;
/// Maximum number of failures for calls that [allow only a few retries](CallError::has_few_retries).
const LIMITED_CALL_FAILURES_MAX: u32 = 3;
/// Delay after the first failed call. It doubles with each further failure.
const CALL_RETRY_DELAY: Duration = Duration::from_millis(200);
/// Maximum delay between two calls.
const CALL_RETRY_DELAY_MAX: Duration = Duration::from_secs(15);
/// Maximum delay between two probes of an unresponsive cluster. Short, so that work resumes soon after an
/// outage. The cluster isn't overloaded, because an operation makes only one call at a time during an outage.
const OUTAGE_PROBE_DELAY_MAX: Duration = Duration::from_secs(5);
/// Maximum time that an operation's clean-up waits for an unresponsive cluster. Deadlines don't apply to the
/// clean-up, but an operation must finish even if its cluster never comes back.
const CLEANUP_OUTAGE_WAIT_MAX: Duration = Duration::from_secs(600);

/// Time of the next call after a failure.
pub(crate) struct CallRetry {
    pub(crate) retry_at: Timestamp,
    /// True if the cluster isn't responding. The call then doesn't count as a failure.
    pub(crate) is_outage: bool,
}

/// Returns the retry time for a failed call, or `None` to give up. `patient` is true if no deadline has
/// passed, so that the operation can sit out an outage.
pub(crate) fn schedule_call_retry(
    header: &Header,
    calls: Option<&CallFailures>,
    error: &CallError,
    patient: bool,
    now: Timestamp,
) -> Option<CallRetry> {
    if error.is_outage && patient {
        let known = header.outage.as_deref();
        // Many calls may be in flight when an outage begins. Together, they count as a single attempt.
        let retry_at = match known.filter(|outage| now < outage.retry_at) {
            Some(outage) => outage.retry_at,
            None => {
                let tried = known.map_or(0, |outage| outage.tried);
                now + error.retry_delay(CALL_RETRY_DELAY, tried, OUTAGE_PROBE_DELAY_MAX)
            }
        };
        return Some(CallRetry { retry_at, is_outage: true });
    }
    let failed = calls.map_or(0, |calls| calls.failed);
    let most = if error.has_few_retries { LIMITED_CALL_FAILURES_MAX } else { CALL_FAILURES_MAX };
    if !error.is_transient || failed.saturating_add(1) >= most {
        return None;
    }
    let retry_at = now + error.retry_delay(CALL_RETRY_DELAY, failed, CALL_RETRY_DELAY_MAX);
    Some(CallRetry { retry_at, is_outage: false })
}

/// Returns true if this task can keep retrying its calls during an outage. False if a deadline has passed or
/// a user has terminated the operation, because the task must then end.
pub(crate) fn can_retry_during_outage(operation: &Operation, state: &TaskState, now: Timestamp) -> bool {
    let stopping = matches!(state.progress, Progress::Stopping { .. }) || operation.wave_expired.is_some();
    match operation.stage {
        Stage::Terminating => false,
        Stage::Finishing { .. } => now < operation.since + CLEANUP_OUTAGE_WAIT_MAX,
        _ => !stopping,
    }
}
