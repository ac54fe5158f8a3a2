//! Reasons for rejecting inputs.

/// Reason for rejecting an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The input is late or a duplicate, and is safe to ignore.
    #[error("this is not possible while the state of the operation is {state}")]
    Stale {
        /// Name of the state, such as `Wave 2 Applying`.
        state: String,
    },
    /// No request has been accepted yet.
    #[error("the operation has not been started yet; request a sync first")]
    NotStarted,
    /// The operation already exists.
    #[error("this operation already exists (state: {state}); use a new operation ID")]
    AlreadyStarted {
        /// Name of the state, such as `Wave 2 Applying`.
        state: String,
    },
    /// The operation has finished.
    #[error("the operation has already finished: {message}")]
    AlreadyFinished {
        /// Final message of the operation.
        message: String,
    },
    /// The operation is already ending, or has already been terminated.
    #[error("the operation is already ending (state: {state}); wait until it ends")]
    AlreadyEnding {
        /// Name of the state: `Terminating` or `Finishing`.
        state: String,
    },
    /// The operation is paused.
    #[error("the operation is already paused by {by}")]
    AlreadyPaused {
        /// Name of the user who paused the operation.
        by: String,
    },
    /// The operation is not paused.
    #[error("the operation is not paused, so there is nothing to unpause")]
    NotPaused,
    /// Another sync can't supersede the operation at this point.
    #[error("the operation cannot be superseded now: {reason}")]
    NotSupersedable {
        /// Description of the running work that must finish first.
        reason: String,
    },
    /// No prunes are waiting for confirmation.
    #[error("no prune in this operation needs confirmation")]
    NothingToConfirm,
    /// The wave isn't waiting for approval, or no wave is.
    #[error("{0}")]
    NothingToApprove(String),
    /// None of the named tasks can be skipped, marked as done or retried.
    #[error("{0}")]
    NothingToOverride(String),
    /// Skipping a task or marking it as done requires a reason.
    #[error("a reason is required before a task or wave can be {0}")]
    ReasonRequired(&'static str),
}
