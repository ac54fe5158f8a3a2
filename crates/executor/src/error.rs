//! Why the engine could not do what was asked.

use tidegate_lifecycle::Illegal;
use tidegate_model::{Destination, OperationId};
use tidegate_oplog::LogError;

/// Why the engine could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The application has an open operation.
    #[error(
        "application {application} has an operation that is not over: {open}; resume it with `tidegate resume {open}` or end it with `tidegate ops terminate {open}`"
    )]
    Busy {
        /// Name of the application.
        application: String,
        /// The one that a second one would work beside.
        open: OperationId,
    },
    /// There is no such operation in the log.
    #[error(
        "there is no operation {operation} in this state directory; `tidegate ops list` shows those there are"
    )]
    Unknown {
        /// What was asked for.
        operation: OperationId,
    },
    /// The operation is not being worked on by this engine.
    #[error("operation {operation} is not at work; resume it with `tidegate resume {operation}`")]
    NotRunning {
        /// What was asked for.
        operation: OperationId,
    },
    /// The operation is over.
    #[error("operation {operation} is over: {message}")]
    AlreadyFinished {
        /// Id of the operation that was asked for something.
        operation: OperationId,
        /// What the operation ended with.
        message: String,
    },
    /// The operation's state does not allow it.
    #[error("operation {operation}: {reason}")]
    Refused {
        /// Id of the operation that was asked for something.
        operation: OperationId,
        /// Why, in the operation's words.
        reason: String,
    },
    /// The operation's actor could not start.
    #[error("operation {operation} cannot go on: {reason}")]
    Start {
        /// Id of the operation that was to begin or go on.
        operation: OperationId,
        /// What its actor, or its log, said.
        reason: String,
    },
    /// The operation's actor failed before it could answer.
    #[error("operation {operation} met a fault inside the engine and goes on from the log; ask again")]
    Restarted {
        /// Id of the operation that was asked for something.
        operation: OperationId,
    },
    /// Two extensions of a kind have the same name.
    #[error("two {kind}s are named {name}; names must differ")]
    NameTaken {
        /// Gate, hook runner or health judge.
        kind: &'static str,
        /// The name that both were registered under.
        name: String,
    },
    /// A gate has a name that means one of every engine's.
    #[error("gate {name} is built in and would never be asked; give yours another name")]
    BuiltInGate {
        /// The name that the gate was registered under.
        name: String,
    },
    /// The engine has a way to this cluster already.
    #[error("the engine works on the {destination} already; its connection cannot be replaced while it runs")]
    ClusterKnown {
        /// The cluster that was to be added.
        destination: Box<Destination>,
    },
    /// The log takes nothing any more, neither facts nor manifests; nothing is done until it is opened again.
    #[error(
        "the operation log failed: {reason}; mend the cause and start again, everything recorded is kept"
    )]
    LogFailed {
        /// What the log answered to what it was given last.
        reason: String,
    },
    /// The log could not be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log of an operation does not make sense.
    #[error(transparent)]
    Damaged(#[from] Illegal),
    /// These manifests cannot be kept, and others can.
    #[error("{reason}")]
    Manifests {
        /// What the log said when the manifests were handed to it.
        reason: String,
    },
    /// The engine is going down.
    #[error("the engine is shutting down; the operation can be resumed")]
    ShuttingDown,
    /// An actor of the engine is not there any more.
    #[error("the engine has stopped; start it again and resume")]
    Stopped,
}
