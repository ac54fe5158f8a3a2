//! What is done with a log beside the engine: opening it, and recording wishes of people for operations that no engine works
//! on, to be carried out on resume.

use std::path::Path;
use std::sync::Arc;

use tidegate_lifecycle::DriverError;
use tidegate_lifecycle::operation::{Driver, Fact, Input, OperationView, Rejection, view};
use tidegate_model::{OperationId, Timestamp};
use tidegate_oplog::{AppendOf, Holder, LogError, LogKey, Lookup, OpenOptions, SledLog, TypedLog as _};

use crate::clock::{Clock as _, SystemClock};
use crate::error::EngineError;
use crate::log::Log;
use crate::log::blocking;
use crate::summary::{Summary, codecs, summary};

/// Opens the log in a state directory, which is made when it is not there, and puts summaries right that damage has left
/// behind their facts. `key` is what content beside the log is sealed with; without one it is the directory's own.
///
/// # Errors
///
/// Another process has it open, the directory cannot be used, or a newer program has written to it.
pub fn open_log(directory: &Path, key: Option<LogKey>) -> Result<Log, LogError> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let holder = Holder { pid: std::process::id(), command: words.join(" "), since: SystemClock.now() };
    let log: Log = Arc::new(SledLog::open(directory, OpenOptions { holder, key, codecs: codecs() })?);
    if log.damage().iter().any(|damage| damage.is_new) {
        let right = misstated(&log)?.into_iter().map(|found| found.append);
        right.into_iter().try_for_each(|append| log.append_all(vec![append]))?;
    }
    Ok(log)
}

/// Records a person's wish for an operation that is not at work, without doing anything about it. Returns how the
/// operation then stands, when the wish is durable.
///
/// A wish that an operation may end is no news where it is ending already: nothing is then recorded.
///
/// The caller sees to it that no engine works on the operation meanwhile: the log refuses the later of two writers.
pub async fn record(
    log: &Log,
    operation: OperationId,
    wish: Input,
    now: Timestamp,
) -> Result<OperationView, EngineError> {
    let loaded = blocking(log, move |log| log.load_as(operation)).await?;
    let mut driver = Driver::recover(loaded.snapshot, loaded.facts)?;
    if driver.state().is_finished() {
        let message = driver.state().message();
        return Err(EngineError::AlreadyFinished { operation, message });
    }
    let is_end = matches!(wish, Input::Terminate { .. });
    match driver.offer(&wish, now) {
        Ok(()) => {}
        Err(DriverError::Illegal(illegal)) => return Err(illegal.into()),
        // Nobody brings about the end that was wished for before. Whoever wishes for it again is to do that.
        Err(DriverError::Rejected(Rejection::AlreadyEnding { .. })) if is_end => {}
        Err(DriverError::Rejected(rejection)) => {
            return Err(EngineError::Refused { operation, reason: rejection.to_string() });
        }
    }
    let unknown = EngineError::Unknown { operation };
    let Some(summary) = summary(driver.state()) else { return Err(unknown) };
    if let Some(batch) = driver.take_batch(now, true) {
        // A wish brings no manifests.
        let append = AppendOf::new(operation, batch.first_sequence, batch.facts, summary.into());
        let append = AppendOf { snapshot: batch.snapshot, ..append };
        let log = Arc::clone(log);
        blocking(&log, move |log| log.append_all(vec![append])).await?;
    }
    view(driver.state()).ok_or(unknown)
}

/// The open operations whose summary is not the one of their facts. A repair after damage may find only an older summary, and then an operation that is paused, or over, is taken for one that is
/// at work.
pub fn misstated(log: &Log) -> Result<Vec<Misstated>, LogError> {
    Ok(operations(log, Lookup::open())?.into_iter().filter_map(|kept| restated(log, &kept)).collect())
}

/// An operation whose summary is not the one of its facts.
#[derive(Clone, Debug)]
pub struct Misstated {
    /// What its facts say of it.
    pub summary: Summary,
    /// What puts it right when it is appended.
    pub append: AppendOf<Fact>,
}

/// One that cannot be read says so to whoever wants it.
fn restated(log: &Log, kept: &Summary) -> Option<Misstated> {
    let loaded = log.load_as(kept.operation).ok()?;
    let driver = Driver::recover(loaded.snapshot, loaded.facts).ok()?;
    let summary = summary(driver.state()).filter(|summary| summary != kept)?;
    let next = driver.sequence().saturating_add(1);
    let append = AppendOf::new(kept.operation, next, Vec::new(), summary.clone().into());
    Some(Misstated { summary, append })
}

/// The operations that are all that is asked for, oldest first.
pub fn operations(log: &Log, lookup: Lookup) -> Result<Vec<Summary>, LogError> {
    Ok(log.find_as::<Fact>(lookup)?.into_iter().map(Summary::from).collect())
}
