use crate::fleet::DuplicateName;

/// Reason for rejecting an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The input is late or a duplicate, and is safe to ignore.
    #[error("the rollout does not accept this request while its state is {state}")]
    Stale {
        /// State that doesn't expect the input.
        state: String,
    },
    /// No rollout has begun yet.
    #[error("the rollout has not been started yet; start it first")]
    NotStarted,
    /// The rollout already exists.
    #[error("this rollout already exists (state: {state}); to deploy other targets, start a new rollout")]
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
    #[error("the rollout is already ending (state: {state}); wait until it ends")]
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
    /// The step isn't waiting for approval, or no step is.
    #[error("{0}")]
    NothingToApprove(String),
    /// None of the named Applications can be skipped.
    #[error("{0}")]
    NothingToSkip(String),
    /// None of the named Applications can be retried.
    #[error("{0}")]
    NothingToRetry(String),
}
