//! Loads machines from the log.

use std::sync::Arc;

use tidegate_lifecycle::{Driver, IllegalEvent};
use tidegate_model::StreamId;
use tidegate_oplog::{LogError, TypedLog as _};

use super::error::MachineError;
use super::machine_effects::DurableMachine;
use super::machine_handle::machine_name;
use super::message::StoredMachine;
use crate::engine_context::EngineContext;
use crate::error::EngineError;
use crate::log::{Log, run_blocking};

/// Reads a machine from the log once all batches handed to the log are written.
pub(super) async fn read_machine<M: DurableMachine>(
    shared: &EngineContext,
    id: StreamId,
) -> Result<StoredMachine<M>, MachineError> {
    if let Err(error) = shared.log_actor.flush(&shared.log_failure).await {
        return Err(match error {
            EngineError::LogFailed { reason } => MachineError::LogFailed { reason },
            _ => MachineError::Stopped { machine: machine_name::<M>(id) },
        });
    }
    let (driver, is_open) = match run_blocking(&shared.log, move |log| load_machine::<M>(log, id)).await {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(StoredMachine::Missing),
        Err(error) => return Err(Arc::new(error).into()),
    };
    let driver = driver.map_err(|illegal| MachineError::Aborted {
        machine: machine_name::<M>(id),
        reason: illegal.to_string(),
    })?;
    let is_over = M::is_over(driver.state()) && !is_open;
    Ok(if is_over {
        StoredMachine::Over(Box::new(driver.state().clone()))
    } else {
        StoredMachine::Open(Box::new(driver))
    })
}

/// Returns the state of a machine according to its events, or `None` if the log doesn't contain the ID.
pub(super) fn read_state<M: DurableMachine>(
    log: &Log,
    id: StreamId,
) -> Result<Option<Result<M::State, IllegalEvent>>, LogError> {
    let read = load_machine::<M>(log, id)?;
    Ok(read.map(|(driver, _)| driver.map(|driver| driver.state().clone())))
}

type RecoveredDriver<M> = Result<Driver<M>, IllegalEvent>;

/// Loads a machine. The flag is true if the machine is open according to its summary. After a repair of the
/// log, the summary may be older than the events.
fn load_machine<M: DurableMachine>(
    log: &Log,
    id: StreamId,
) -> Result<Option<(RecoveredDriver<M>, bool)>, LogError> {
    let entry = log.entry_as::<M::Event>(id)?;
    let loaded = match log.load_as::<M::Event>(id) {
        Err(LogError::UnknownStream { .. }) => return Ok(None),
        loaded => loaded?,
    };
    let driver = Driver::recover(loaded.snapshot, loaded.events);
    Ok(Some((driver, entry.is_none_or(|entry| entry.summary.is_open()))))
}
