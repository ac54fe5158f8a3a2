use crate::fleet::DuplicateName;

/// Reason why an input was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The input is late or a duplicate, and is safe to ignore.
    #[error("unexpected input in state {state}")]
    Stale {
        /// State in which the input isn't expected.
        state: String,
    },
    /// No teardown has begun yet.
    #[error("the teardown does not exist yet; start it first")]
    NotStarted,
    /// The teardown already exists.
    #[error("the teardown already exists (state {state}); add more Applications to it")]
    AlreadyStarted {
        /// State of the teardown.
        state: String,
    },
    /// Two Applications have the same name.
    #[error(transparent)]
    DuplicateName(#[from] DuplicateName),
    /// The teardown has finished.
    #[error("the teardown has already finished: {message}")]
    AlreadyFinished {
        /// Final message of the teardown.
        message: String,
    },
    /// The teardown is paused.
    #[error("the teardown is already paused by {by}")]
    AlreadyPaused {
        /// User who paused the teardown.
        by: String,
    },
    /// The teardown is not paused.
    #[error("the teardown is not paused, so there is nothing to resume")]
    NotPaused,
    /// Other clients delete or release the Applications, so the teardown only records the result.
    #[error(
        "the Applications are deleted or released all at once, and this teardown only records the result, so \
         it cannot be paused, skipped or terminated"
    )]
    Witnessed,
    /// None of the named Applications can be skipped.
    #[error("{0}")]
    NothingToSkip(String),
}
