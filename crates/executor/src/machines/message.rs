//! Messages to the actors of a machine.

use tidegate_lifecycle::{Driver, Machine};
use tokio::sync::oneshot;

use super::error::MachineError;

/// Message to the actor of a machine.
pub(super) enum MachineMessage<M: Machine> {
    /// The inbox has new entries.
    InboxReady,
    /// A request. The reply is sent once the request is durable.
    Request { input: M::Input, reply: oneshot::Sender<Result<(), MachineError>> },
    /// Stop once the batch in flight is recorded.
    Stop,
}

/// Message to the supervisor of a machine.
pub(super) enum SupervisorMessage<M: Machine> {
    /// The machine was read from the log. `end_reason` is set if the machine must end immediately.
    Read { end_reason: Option<String>, result: Result<StoredMachine<M>, MachineError> },
    /// Outcome of the request to start the machine.
    Started(Result<(), MachineError>),
    /// The machine has finished, and its actor waits to be stopped.
    Over,
    /// The actor has stopped gracefully, and waits to be removed.
    Stopped,
    /// Stop gracefully.
    Stop,
    /// The time limit for a graceful stop has expired.
    StopNow,
    /// The log rejects all records.
    LogFailed(String),
}

/// State of a machine, according to the log.
pub(super) enum StoredMachine<M: Machine> {
    /// The log doesn't contain the machine.
    Missing,
    /// The machine is open, according to its events or its summary.
    Open(Box<Driver<M>>),
    /// The machine has finished.
    Over(Box<M::State>),
}
