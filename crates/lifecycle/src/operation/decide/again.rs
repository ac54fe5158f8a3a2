//! When a call that has failed is made again.

use std::time::Duration;

use tidegate_model::Timestamp;

use crate::operation::input::CallError;
use crate::operation::state::{Calls, Header, Operation, Progress, Stage, TaskState};

/// How often one call may fail in a passing way before the failure counts. With the waits below about a minute. Calls
/// that fail because the cluster does not answer are not counted, as long as the operation has time.
pub(crate) const CALLS_MAX: u32 = 10;
/// The same where [few tries](CallError::few_tries) are made.
const FEW_CALLS_MAX: u32 = 3;
/// Wait after the first failed call; doubled each time.
const CALL_WAIT: Duration = Duration::from_millis(200);
/// Longest wait between two calls.
const CALL_WAIT_MAX: Duration = Duration::from_secs(15);
/// Longest wait between two looks at a cluster that does not answer. Only one call of the operation is made meanwhile,
/// so it may be short: the operation goes on soon after the cluster is back.
const OUTAGE_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long the cleaning up after an operation waits for a cluster that does not answer. There is no deadline any more,
/// and an operation on a cluster that is gone for good must end.
const CLEANING_PATIENCE: Duration = Duration::from_secs(600);

/// When a failed call may be made again.
pub(crate) struct Again {
    pub(crate) retry_at: Timestamp,
    /// The cluster does not answer, and the call is not counted.
    pub(crate) outage: bool,
}

/// When a failed call may be made again; `None` when the failure counts. `patient`: no deadline has passed, so there is
/// no hurry while the cluster does not answer.
pub(crate) fn call_again(
    header: &Header,
    calls: Option<&Calls>,
    error: &CallError,
    patient: bool,
    now: Timestamp,
) -> Option<Again> {
    if error.outage && patient {
        let known = header.outage.as_deref();
        // Many calls may have been on their way when it began; they are one try.
        let retry_at = match known.filter(|outage| now < outage.retry_at) {
            Some(outage) => outage.retry_at,
            None => {
                let tried = known.map_or(0, |outage| outage.tried);
                now + error.wait(CALL_WAIT, tried, OUTAGE_WAIT_MAX)
            }
        };
        return Some(Again { retry_at, outage: true });
    }
    let failed = calls.map_or(0, |calls| calls.failed);
    let most = if error.few_tries { FEW_CALLS_MAX } else { CALLS_MAX };
    if !error.transient || failed.saturating_add(1) >= most {
        return None;
    }
    let retry_at = now + error.wait(CALL_WAIT, failed, CALL_WAIT_MAX);
    Some(Again { retry_at, outage: false })
}

/// Whether calls about this task may be made for as long as the cluster does not answer. Not once a deadline has
/// passed or somebody wants the end: that must come.
pub(crate) fn is_patient(operation: &Operation, state: &TaskState, now: Timestamp) -> bool {
    let stopping = matches!(state.progress, Progress::Stopping { .. }) || operation.wave_expired.is_some();
    match operation.stage {
        Stage::Terminating => false,
        Stage::Finishing { .. } => now < operation.since + CLEANING_PATIENCE,
        _ => !stopping,
    }
}
