//! Use of a log without an engine: opening it, and recording user requests for operations that aren't
//! running. The engine executes these requests when the operation resumes.

use std::path::Path;
use std::sync::Arc;

use tidegate_lifecycle::DriverError;
use tidegate_lifecycle::operation::{Driver, Input, OperationEvent, OperationView, Rejection, view};
use tidegate_model::{OperationId, Timestamp};
use tidegate_oplog::{AppendOf, Holder, LogError, LogKey, Lookup, OpenOptions, SledLog, TypedLog as _};

use crate::clock::{Clock as _, SystemClock};
use crate::error::EngineError;
use crate::log::Log;
use crate::log::run_blocking;
use crate::summary::{Summary, codecs, summarize};

/// Opens the log in a state directory, creating it if necessary. Repairs summaries that damage left older
/// than their records. `key` encrypts content stored next to the log. [default: the directory's own key]
///
/// # Errors
///
/// Returns an error if another process has the log open, the directory isn't usable, or a newer version has
/// written to it.
pub fn open_log(directory: &Path, key: Option<LogKey>) -> Result<Log, LogError> {
    let text: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let holder = Holder { pid: std::process::id(), command: text.join(" "), since: SystemClock.now() };
    let log: Log = Arc::new(SledLog::open(directory, OpenOptions { holder, key, codecs: codecs() })?);
    if log.damage().iter().any(|damage| damage.is_new) {
        let right = find_wrong_summaries(&log)?.into_iter().map(|found| found.append);
        right.into_iter().try_for_each(|append| log.append_all(vec![append]))?;
    }
    Ok(log)
}

/// Records a user's request for an operation that isn't running, without executing it. Returns the
/// operation's status once the request is durable.
///
/// A request to end an operation that is already ending isn't recorded, because it has no effect.
///
/// The caller must ensure that no engine is running the operation; the log rejects the second writer.
pub async fn record_request(
    log: &Log,
    operation: OperationId,
    input: Input,
    now: Timestamp,
) -> Result<OperationView, EngineError> {
    let loaded = run_blocking(log, move |log| log.load_as(operation)).await?;
    let mut driver = Driver::recover(loaded.snapshot, loaded.events)?;
    if driver.state().is_finished() {
        let message = driver.state().message();
        return Err(EngineError::AlreadyFinished { operation, message });
    }
    let is_end = matches!(input, Input::Terminate { .. });
    match driver.handle_input(&input, now) {
        Ok(()) => {}
        Err(DriverError::IllegalEvent(illegal)) => return Err(illegal.into()),
        // No process is acting on the earlier request to end the operation, so the caller must.
        Err(DriverError::Rejected(Rejection::AlreadyEnding { .. })) if is_end => {}
        Err(DriverError::Rejected(rejection)) => {
            return Err(EngineError::Rejected { operation, reason: rejection.to_string() });
        }
    }
    let unknown = EngineError::UnknownOperation { operation };
    let Some(summary) = summarize(driver.state()) else { return Err(unknown) };
    if let Some(batch) = driver.take_batch(now, true) {
        // Requests don't refer to manifests, so there are no blobs to keep.
        let append = AppendOf::new(operation, batch.first_sequence, batch.events, summary.into());
        let append = AppendOf { snapshot: batch.snapshot, ..append };
        let log = Arc::clone(log);
        run_blocking(&log, move |log| log.append_all(vec![append])).await?;
    }
    view(driver.state()).ok_or(unknown)
}

/// Returns corrections for open operations with a summary that differs from their records. A repair after
/// damage may have recovered only an older summary, so that a paused or finished operation appears to be
/// running.
pub fn find_wrong_summaries(log: &Log) -> Result<Vec<SummaryCorrection>, LogError> {
    Ok(list_summaries(log, Lookup::open())?
        .into_iter()
        .filter_map(|kept| correct_summary(log, &kept))
        .collect())
}

/// Correction for a summary that differs from its operation's records.
#[derive(Clone, Debug)]
pub struct SummaryCorrection {
    /// The correct summary.
    pub summary: Summary,
    /// Append that corrects the summary.
    pub append: AppendOf<OperationEvent>,
}

/// Returns the correction for a wrong summary. Skips unreadable operations, which return the error on use.
fn correct_summary(log: &Log, stored: &Summary) -> Option<SummaryCorrection> {
    let loaded = log.load_as(stored.operation).ok()?;
    let driver = Driver::recover(loaded.snapshot, loaded.events).ok()?;
    let summary = summarize(driver.state()).filter(|summary| summary != stored)?;
    let next = driver.sequence().saturating_add(1);
    let append = AppendOf::new(stored.operation, next, Vec::new(), summary.clone().into());
    Some(SummaryCorrection { summary, append })
}

/// Returns all matching operations, oldest first.
pub fn list_summaries(log: &Log, lookup: Lookup) -> Result<Vec<Summary>, LogError> {
    Ok(log.find_as::<OperationEvent>(lookup)?.into_iter().map(Summary::from).collect())
}
