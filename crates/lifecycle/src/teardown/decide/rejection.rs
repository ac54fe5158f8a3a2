use crate::fleet::DuplicateName;

/// Reason for rejecting an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The input is late or a duplicate, and is safe to ignore.
    #[error("the deletion does not accept this request while its state is {state}")]
    Stale {
        /// State that doesn't expect the input.
        state: String,
    },
    /// No teardown has begun yet.
    #[error("the deletion has not been started yet; start it first")]
    NotStarted,
    /// The teardown already exists.
    #[error(
        "this deletion already exists (state: {state}); add more Applications to it instead of starting it again"
    )]
    AlreadyStarted {
        /// State of the teardown.
        state: String,
    },
    /// Two Applications have the same name.
    #[error(transparent)]
    DuplicateName(#[from] DuplicateName),
    /// The teardown has finished.
    #[error("the deletion has already finished: {message}")]
    AlreadyFinished {
        /// Final message of the teardown.
        message: String,
    },
    /// The teardown is paused.
    #[error("the deletion is already paused by {by}")]
    AlreadyPaused {
        /// User who paused the teardown.
        by: String,
    },
    /// The teardown is not paused.
    #[error("the deletion is not paused, so there is nothing to resume")]
    NotPaused,
    /// Other clients delete or release the Applications, so the teardown only records the result.
    #[error(
        "all Applications in this deletion are deleted or released at once, and Tidegate only records the result; you cannot pause or terminate the deletion, or skip Applications"
    )]
    Witnessed,
    /// None of the named Applications can be skipped.
    #[error("{0}")]
    NothingToSkip(String),
}
