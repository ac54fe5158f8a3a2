//! Why an input is not accepted.

/// Why an input was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A late or repeated answer. It can be dropped without harm.
    #[error("answer is not awaited in state {state}")]
    Stale {
        /// The state that does not await it.
        state: String,
    },
    /// Nothing was accepted yet.
    #[error("operation does not exist yet; request a sync first")]
    NotStarted,
    /// The operation exists already.
    #[error("operation exists already (state {state}); use a new operation id")]
    AlreadyStarted {
        /// Its state.
        state: String,
    },
    /// The operation is over.
    #[error("operation is already over: {message}")]
    AlreadyFinished {
        /// Its final message.
        message: String,
    },
    /// The operation is ending by itself or was terminated before.
    #[error("operation is already ending (state {state}); wait for it")]
    AlreadyEnding {
        /// Its state.
        state: String,
    },
    /// The operation is paused.
    #[error("operation is already paused by {by}")]
    AlreadyPaused {
        /// By whom.
        by: String,
    },
    /// The operation is not paused.
    #[error("operation is not paused; nothing to unpause")]
    NotPaused,
    /// No prune waits for confirmation.
    #[error("no prune of this operation needs confirmation")]
    NothingToConfirm,
    /// No wave waits for approval, or not the one that was named.
    #[error("{0}")]
    NothingToApprove(String),
}
