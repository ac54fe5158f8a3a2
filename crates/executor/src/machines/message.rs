//! What the actors of a machine are told.

use tidegate_lifecycle::{Driver, Machine};
use tokio::sync::oneshot;

use super::error::MachineError;

/// A message to the actor of a machine.
pub(super) enum MachineMessage<M: Machine> {
    /// Something is in the inbox.
    Arrived,
    /// A wish; answered when it is durable.
    Wish { input: M::Input, reply: oneshot::Sender<Result<(), MachineError>> },
    /// Stop as soon as what is on its way has been recorded.
    Stop,
}

/// A message to the supervisor of a machine.
pub(super) enum SupervisorMessage<M: Machine> {
    /// The machine was read from the log, or could not be; with a reason to end it at once.
    Read { give_up: Option<String>, result: Result<Found<M>, MachineError> },
    /// What became of the wish to begin it.
    Begun(Result<(), MachineError>),
    /// The machine is over, and its actor waits to be stopped.
    Over,
    /// The actor has stopped in order, and waits for the same.
    Stopped,
    /// It is to stop in order.
    Stop,
    /// It has had its time to do so.
    StopNow,
    /// The log takes nothing any more.
    LogFailed(String),
}

/// A machine as the log has it.
pub(super) enum Found<M: Machine> {
    /// Not at all.
    Nothing,
    /// Not over, or its summary does not say so yet.
    Open(Box<Driver<M>>),
    /// Over.
    Over(Box<M::State>),
}
