//! What the log keeps of an operation: the kinds of its records, and how each is read.

use tidegate_model::{Content, LogRecord};

use super::earlier;
use super::fact::Fact;
use super::state::State;

impl LogRecord for Fact {
    type Earlier = earlier::Fact;

    const HIGHEST_KIND: u16 = 45;

    fn is_earlier(kind: u16) -> bool {
        kind < 3 || kind == 30
    }

    fn read_earlier<C: Content>(kind: u16, content: &C) -> Result<Self, C::Error> {
        match kind {
            30 => content.read::<earlier::FactOfKind30>().map(Into::into),
            _ => content.read::<earlier::Fact>().map(Into::into),
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Accepted { .. } => 43,
            Self::Planned { .. } => 31,
            Self::Moved { .. } => 3,
            Self::GateAnswered { .. } => 4,
            Self::Checked { .. } => 5,
            Self::CheckFailed { .. } => 6,
            Self::CallFailed { .. } => 7,
            Self::PruneSent { .. } => 8,
            Self::HookCleared { .. } => 9,
            Self::ObjectGone { .. } => 10,
            Self::Applied { .. } => 11,
            Self::RunnerStarted { .. } => 12,
            Self::HealthSeen { .. } => 13,
            Self::TaskCompleted { .. } => 14,
            Self::TaskFailed { .. } => 15,
            Self::HookReleased { .. } => 16,
            Self::HookDeleted { .. } => 17,
            Self::DeadlinePassed { .. } => 18,
            Self::HookStopped { .. } => 19,
            Self::AttemptFailed { .. } => 20,
            Self::RetryStarted { .. } => 21,
            Self::TerminateRequested { .. } => 22,
            Self::Paused { .. } => 23,
            Self::Unpaused { .. } => 24,
            Self::PruneConfirmed { .. } => 25,
            Self::Finished { .. } => 26,
            Self::ReasonSeen { .. } => 27,
            Self::LogsKept { .. } => 28,
            Self::Watching { .. } => 29,
            Self::PlaceTaken { .. } => 32,
            Self::Warned { .. } => 33,
            Self::Claim { .. } => 34,
            Self::DeletionBegun { .. } => 35,
            Self::NamespaceTerminating { .. } => 36,
            Self::Approved { .. } => 37,
            Self::NamespacesSeen { .. } => 38,
            Self::NamespaceLost { .. } => 39,
            Self::RetryPlansAnew { .. } => 40,
            Self::RecreationBegun { .. } => 41,
            Self::HealthRulesKnown { .. } => 42,
            Self::Overridden { .. } => 44,
            Self::PlanTaken { .. } => 45,
        }
    }
}

impl LogRecord for State {
    type Earlier = earlier::State;

    const HIGHEST_KIND: u16 = 7;

    fn is_earlier(kind: u16) -> bool {
        kind < 7
    }

    fn kind(&self) -> u16 {
        7
    }

    fn read_earlier<C: Content>(kind: u16, content: &C) -> Result<Self, C::Error> {
        match kind {
            2 => content.read::<earlier::StateOfKind2>().map(Into::into),
            3 => content.read::<earlier::StateOfKind3>().map(Into::into),
            4 => content.read::<earlier::StateOfKind4>().map(Into::into),
            5 => content.read::<earlier::StateOfKind5>().map(Into::into),
            6 => content.read::<earlier::StateOfKind6>().map(Into::into),
            _ => content.read::<earlier::State>().map(Into::into),
        }
    }
}
