//! Errors of the engine.

use tidegate_lifecycle::IllegalEvent;
use tidegate_model::{Destination, OperationId};
use tidegate_oplog::LogError;

/// Error returned by the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The application has an open operation.
    #[error(
        "application {application} has an unfinished operation: {open}; resume it with `tidegate resume {open}` or end it with `tidegate ops \
         terminate {open}`"
    )]
    Busy {
        /// Name of the application.
        application: String,
        /// The open operation.
        open: OperationId,
    },
    /// The log doesn't contain this operation.
    #[error(
        "operation {operation} not found in this state directory; `tidegate ops list` lists all operations"
    )]
    UnknownOperation {
        /// Requested ID.
        operation: OperationId,
    },
    /// This engine isn't running the operation.
    #[error("operation {operation} is not running; resume it with `tidegate resume {operation}`")]
    NotRunning {
        /// Requested ID.
        operation: OperationId,
    },
    /// The operation has finished.
    #[error("operation {operation} has ended: {message}; `tidegate ops show {operation}` shows the result")]
    AlreadyFinished {
        /// ID of the operation that received the request.
        operation: OperationId,
        /// Final message of the operation.
        message: String,
    },
    /// The operation's state doesn't allow the request.
    #[error("operation {operation}: {reason}")]
    Rejected {
        /// ID of the operation that received the request.
        operation: OperationId,
        /// Reason from the operation.
        reason: String,
    },
    /// The operation's actor couldn't start.
    #[error("operation {operation} cannot continue: {reason}")]
    StartFailed {
        /// ID of the operation.
        operation: OperationId,
        /// Error from the operation's actor or from its log.
        reason: String,
    },
    /// The operation's actor failed before it could reply.
    #[error("operation {operation} restarted after an internal error; retry the request")]
    Restarted {
        /// ID of the operation that received the request.
        operation: OperationId,
    },
    /// Two extensions of the same kind have the same name.
    #[error("two {kind}s are named {name}; give each a unique name")]
    DuplicateName {
        /// Gate, hook runner or health judge.
        kind: &'static str,
        /// The duplicate name.
        name: String,
    },
    /// A gate was registered under the name of a built-in one.
    #[error("gate {name} is built in and cannot be replaced; use another name")]
    BuiltInGate {
        /// Name of the gate.
        name: String,
    },
    /// The engine already has a connection to this cluster.
    #[error(
        "the engine already has a connection to the {destination}; stop the engine before you replace the connection"
    )]
    DuplicateCluster {
        /// Destination of the rejected cluster.
        destination: Box<Destination>,
    },
    /// The log rejects all records and manifests. The engine stops working until the log is reopened.
    #[error("the operation log failed: {reason}; fix the cause and start again (no recorded data was lost)")]
    LogFailed {
        /// Last error of the log.
        reason: String,
    },
    /// The log couldn't be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The records of an operation are inconsistent.
    #[error(transparent)]
    Damaged(#[from] IllegalEvent),
    /// The log can't store the request's manifests, but still accepts others.
    #[error("{reason}")]
    Manifests {
        /// Error from the log.
        reason: String,
    },
    /// Another engine with the same log manages the application.
    #[error(
        "another process manages application {application} now, and continues its operations; send the request to that process"
    )]
    HandedOver {
        /// Application.
        application: String,
    },
    /// The engine is shutting down.
    #[error("the engine is shutting down; resume the operation once the engine restarts")]
    ShuttingDown,
    /// An actor of the engine has stopped.
    #[error("the engine has stopped; start the engine again and resume the operation")]
    Stopped,
}
