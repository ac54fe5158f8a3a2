/// Why an input was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// A late or repeated answer. It can be dropped without harm.
    #[error("answer is not awaited in state {state}")]
    Stale {
        /// The state that does not await it.
        state: String,
    },
    /// Nothing was begun yet.
    #[error("rollout does not exist yet; begin it first")]
    NotStarted,
    /// The rollout exists already.
    #[error("rollout exists already (state {state}); use a new stream for other targets")]
    AlreadyStarted {
        /// Its state.
        state: String,
    },
    /// Two Applications have one name.
    #[error("ApplicationSet {set} has two Applications named {member}; give each a name of its own")]
    NamedTwice {
        /// The set.
        set: String,
        /// The name.
        member: String,
    },
    /// The rollout is over.
    #[error("rollout is already over: {message}")]
    AlreadyFinished {
        /// Its final message.
        message: String,
    },
    /// The rollout is ending.
    #[error("rollout is already ending (state {state}); wait for it")]
    AlreadyEnding {
        /// Its state.
        state: String,
    },
    /// The rollout is paused.
    #[error("rollout is already paused by {by}")]
    AlreadyPaused {
        /// By whom.
        by: String,
    },
    /// The rollout is not paused.
    #[error("rollout is not paused; nothing to resume")]
    NotPaused,
    /// No step waits for approval, or not the one that was named.
    #[error("{0}")]
    NothingToApprove(String),
    /// What was named cannot be skipped.
    #[error("{0}")]
    NothingToSkip(String),
    /// What was named cannot be retried.
    #[error("{0}")]
    NothingToRetry(String),
}
