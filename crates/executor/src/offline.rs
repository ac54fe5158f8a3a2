//! Wishes of people for operations that no engine works on: recorded in the log, carried out on resume.

use std::sync::Arc;

use tidegate_lifecycle::operation::{Fact, Input, OperationView, Rejection, State, view};
use tidegate_lifecycle::{Driver, DriverError};
use tidegate_model::{OperationId, Timestamp};
use tidegate_oplog::{Append, LogError, Summary};

use crate::actors::log::Log;
use crate::actors::operation::summary;
use crate::engine::EngineError;
use crate::shared::blocking;

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
    let loaded = blocking(log, move |log| log.load(operation)).await?;
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
        let append = Append {
            operation,
            first_sequence: batch.first_sequence,
            facts: batch.facts,
            snapshot: batch.snapshot,
            summary,
            // A wish brings no manifests.
            blobs: Vec::new(),
            inventory: None,
        };
        let log = Arc::clone(log);
        blocking(&log, move |log| log.append(vec![append])).await?;
    }
    view(driver.state()).ok_or(unknown)
}

/// The open operations whose summary is not the one of their facts, with what puts it right when it is appended. A repair
/// after damage may find only an older summary, and then an operation that is paused, or over, is taken for one that is
/// at work.
pub fn misstated(log: &Log) -> Result<Vec<Append<Fact, State>>, LogError> {
    let open = log.summaries()?.into_iter().filter(|kept| kept.finished_at.is_none());
    Ok(open.filter_map(|kept| restated(log, &kept)).collect())
}

/// One that cannot be read says so to whoever wants it.
fn restated(log: &Log, kept: &Summary) -> Option<Append<Fact, State>> {
    let loaded = log.load(kept.operation).ok()?;
    let driver = Driver::recover(loaded.snapshot, loaded.facts).ok()?;
    let summary = summary(driver.state()).filter(|summary| summary != kept)?;
    Some(Append {
        operation: kept.operation,
        first_sequence: driver.sequence().saturating_add(1),
        facts: Vec::new(),
        snapshot: None,
        summary,
        blobs: Vec::new(),
        inventory: None,
    })
}
