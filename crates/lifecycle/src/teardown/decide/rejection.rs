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
    #[error("teardown does not exist yet; begin it first")]
    NotStarted,
    /// The teardown exists already.
    #[error("teardown exists already (state {state}); what else is to be deleted may join it")]
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
    /// The teardown is over.
    #[error("teardown is already over: {message}")]
    AlreadyFinished {
        /// Its final message.
        message: String,
    },
    /// The teardown is paused.
    #[error("teardown is already paused by {by}")]
    AlreadyPaused {
        /// By whom.
        by: String,
    },
    /// The teardown is not paused.
    #[error("teardown is not paused; nothing to resume")]
    NotPaused,
    /// Others are at work, who do not ask.
    #[error(
        "its Applications are deleted or let go all at once: that is only recorded here, and cannot be held, skipped or ended"
    )]
    Witnessed,
    /// What was named cannot be skipped.
    #[error("{0}")]
    NothingToSkip(String),
}
