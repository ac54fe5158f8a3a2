//! Why a machine could not do what was asked.

use std::sync::Arc;

use tidegate_model::StreamId;
use tidegate_oplog::{LogError, StreamName};

/// Why a machine could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MachineError {
    /// The log has nothing of it, and it was not to be begun.
    #[error("there is no {machine} in this state directory")]
    Unknown {
        /// What was asked for.
        machine: StreamName,
    },
    /// Its state does not allow it.
    #[error("{machine}: {reason}")]
    Refused {
        /// Which.
        machine: StreamName,
        /// Why, in the machine's words.
        reason: String,
    },
    /// It was stopped before it was over.
    #[error("{machine} is not at work; run it again to go on with it")]
    NotAtWork {
        /// Which.
        machine: StreamName,
    },
    /// Its actor failed before it could answer.
    #[error("{machine} met a fault inside the engine and goes on from the log; ask again")]
    Restarted {
        /// Which.
        machine: StreamName,
    },
    /// It cannot go on in this engine.
    #[error("{machine} cannot go on: {reason}")]
    GivenUp {
        /// Which.
        machine: StreamName,
        /// What its actor, or its log, said.
        reason: String,
    },
    /// Something else of this id is at work.
    #[error("{id} is at work, and is no {wanted}; ids must differ")]
    OtherMachine {
        /// The id.
        id: StreamId,
        /// What was to be run.
        wanted: tidegate_model::StreamKind,
    },
    /// The log takes nothing any more; nothing is done.
    #[error(
        "the operation log failed: {reason}; mend the cause and start again, everything recorded is kept"
    )]
    LogFailed {
        /// What the log said.
        reason: String,
    },
    /// It could not be read.
    #[error(transparent)]
    Log(#[from] Arc<LogError>),
    /// The engine is going down.
    #[error("the engine is shutting down; {machine} can be gone on with")]
    ShuttingDown {
        /// Which.
        machine: StreamName,
    },
    /// The engine's actors are not there any more.
    #[error("the engine has stopped; start it again and go on with {machine}")]
    Stopped {
        /// Which.
        machine: StreamName,
    },
}
