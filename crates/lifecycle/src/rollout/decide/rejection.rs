use crate::fleet::DuplicateName;

/// Reason why an input was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The input is late or repeated, and is safe to ignore.
    #[error("unexpected input in state {state}")]
    Stale {
        /// State in which the input isn't expected.
        state: String,
    },
    /// No rollout has begun yet.
    #[error("the rollout does not exist yet; start it first")]
    NotStarted,
    /// The rollout already exists.
    #[error("the rollout already exists (state {state}); start a new rollout for other targets")]
    AlreadyStarted {
        /// State of the rollout.
        state: String,
    },
    /// Two Applications have the same name.
    #[error(transparent)]
    DuplicateName(#[from] DuplicateName),
    /// The rollout has finished.
    #[error("the rollout has already finished: {message}")]
    AlreadyFinished {
        /// Final message of the rollout.
        message: String,
    },
    /// The rollout is already ending.
    #[error("the rollout is already ending (state {state}); wait until it ends")]
    AlreadyEnding {
        /// State of the rollout.
        state: String,
    },
    /// The rollout is paused.
    #[error("the rollout is already paused by {by}")]
    AlreadyPaused {
        /// User who paused the rollout.
        by: String,
    },
    /// The rollout is not paused.
    #[error("the rollout is not paused, so there is nothing to resume")]
    NotPaused,
    /// Either no step is waiting for approval, or the specified step isn't.
    #[error("{0}")]
    NothingToApprove(String),
    /// The specified Applications can't be skipped.
    #[error("{0}")]
    NothingToSkip(String),
    /// The specified Applications can't be retried.
    #[error("{0}")]
    NothingToRetry(String),
}
