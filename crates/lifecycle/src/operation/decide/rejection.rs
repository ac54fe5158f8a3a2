//! Why an input is not accepted.

/// Why an input was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A late or repeated answer. It can be dropped without harm.
    #[error("answer is not awaited in state {state}")]
    Stale {
        /// Its name, such as `Wave 2 Applying`.
        state: String,
    },
    /// Nothing was accepted yet.
    #[error("operation does not exist yet; request a sync first")]
    NotStarted,
    /// The operation exists already.
    #[error("operation exists already (state {state}); use a new operation id")]
    AlreadyStarted {
        /// Its name, such as `Wave 2 Applying`.
        state: String,
    },
    /// The operation is over.
    #[error("operation is already over: {message}")]
    AlreadyFinished {
        /// What the operation ended with.
        message: String,
    },
    /// The operation is ending by itself or was terminated before.
    #[error("operation is already ending (state {state}); wait for it")]
    AlreadyEnding {
        /// Its name: `Terminating` or `Finishing`.
        state: String,
    },
    /// The operation is paused.
    #[error("operation is already paused by {by}")]
    AlreadyPaused {
        /// Name of the person who paused it.
        by: String,
    },
    /// The operation is not paused.
    #[error("operation is not paused; nothing to unpause")]
    NotPaused,
    /// Another sync cannot take its place here.
    #[error("operation cannot be superseded now: {why}")]
    NotSafe {
        /// What is at work, and has to end before.
        why: String,
    },
    /// No prune waits for confirmation.
    #[error("no prune of this operation needs confirmation")]
    NothingToConfirm,
    /// No wave waits for approval, or not the one that was named.
    #[error("{0}")]
    NothingToApprove(String),
    /// What was named cannot be skipped, marked as done or retried.
    #[error("{0}")]
    NothingToOverride(String),
    /// Who goes on without something has to say why.
    #[error("say why: a reason is needed to {0} anything")]
    ReasonWanted(&'static str),
}
