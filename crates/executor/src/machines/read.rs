//! Machines from the log.

use std::sync::Arc;

use tidegate_lifecycle::{Driver, Illegal};
use tidegate_model::StreamId;
use tidegate_oplog::{LogError, TypedLog as _};

use super::error::MachineError;
use super::line::name;
use super::message::Found;
use super::work::Durable;
use crate::error::EngineError;
use crate::log::{Log, blocking};
use crate::shared::Shared;

/// A machine as the log has it, when everything that was handed to the log is written.
pub(super) async fn read<M: Durable>(shared: &Shared, id: StreamId) -> Result<Found<M>, MachineError> {
    if let Err(error) = shared.log_actor.settle(&shared.log_failure).await {
        return Err(match error {
            EngineError::LogFailed { reason } => MachineError::LogFailed { reason },
            _ => MachineError::Stopped { machine: name::<M>(id) },
        });
    }
    let (driver, is_open) = match blocking(&shared.log, move |log| load::<M>(log, id)).await {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(Found::Nothing),
        Err(error) => return Err(Arc::new(error).into()),
    };
    let driver = driver
        .map_err(|illegal| MachineError::GivenUp { machine: name::<M>(id), reason: illegal.to_string() })?;
    let is_over = M::is_over(driver.state()) && !is_open;
    Ok(if is_over { Found::Over(Box::new(driver.state().clone())) } else { Found::Open(Box::new(driver)) })
}

/// How a machine stands by its facts; `None` when the log knows none of this id.
pub(super) fn state<M: Durable>(
    log: &Log,
    id: StreamId,
) -> Result<Option<Result<M::State, Illegal>>, LogError> {
    let read = load::<M>(log, id)?;
    Ok(read.map(|(driver, _)| driver.map(|driver| driver.state().clone())))
}

type Recovered<M> = Result<Driver<M>, Illegal>;

/// With whether its summary says that it is open: a repair after damage may have left an older one.
fn load<M: Durable>(log: &Log, id: StreamId) -> Result<Option<(Recovered<M>, bool)>, LogError> {
    let entry = log.entry_as::<M::Fact>(id)?;
    let loaded = match log.load_as::<M::Fact>(id) {
        Err(LogError::UnknownStream { .. }) => return Ok(None),
        loaded => loaded?,
    };
    let driver = Driver::recover(loaded.snapshot, loaded.facts);
    Ok(Some((driver, entry.is_none_or(|entry| entry.summary.is_open()))))
}
