//! Errors of machines.

use std::sync::Arc;

use tidegate_model::StreamId;
use tidegate_oplog::{LogError, StreamName};

/// Error of a machine.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MachineError {
    /// The log doesn't contain the machine, and the caller didn't provide an input to start it.
    #[error("{machine} not found in this state directory")]
    UnknownMachine {
        /// The requested machine.
        machine: StreamName,
    },
    /// The machine's state doesn't allow the request.
    #[error("{machine}: {reason}")]
    Rejected {
        /// The machine.
        machine: StreamName,
        /// Reason from the machine.
        reason: String,
    },
    /// The machine was stopped before it finished.
    #[error("{machine} is not running; start it again to continue")]
    NotRunning {
        /// The machine.
        machine: StreamName,
    },
    /// The machine's actor failed before it could reply.
    #[error("{machine} restarted after an internal error; retry the request")]
    Restarted {
        /// The machine.
        machine: StreamName,
    },
    /// The machine can't continue in this engine.
    #[error("{machine} cannot continue: {reason}")]
    Aborted {
        /// The machine.
        machine: StreamName,
        /// Error from the machine's actor or from its log.
        reason: String,
    },
    /// A machine of another kind is running under this ID.
    #[error("{id} is already running, but it is not a machine of kind {wanted}; use a different ID")]
    IdInUse {
        /// The ID.
        id: StreamId,
        /// Kind of the requested machine.
        wanted: tidegate_model::StreamKind,
    },
    /// The log rejects all records, and the engine has stopped all work.
    #[error("the operation log failed: {reason}; fix the cause and start again (no recorded data was lost)")]
    LogFailed {
        /// Error from the log.
        reason: String,
    },
    /// The log couldn't be read.
    #[error(transparent)]
    Log(#[from] Arc<LogError>),
    /// The engine is shutting down.
    #[error("the engine is shutting down; resume {machine} once the engine restarts")]
    ShuttingDown {
        /// The machine.
        machine: StreamName,
    },
    /// The engine's actors have stopped.
    #[error("the engine has stopped; start the engine again and resume {machine}")]
    Stopped {
        /// The machine.
        machine: StreamName,
    },
}
