use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

/// State of a rollout or teardown: a fold over its events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum State<R> {
    /// No event has been recorded yet.
    #[default]
    New,
    /// The rollout or teardown has begun but hasn't finished.
    Running(Box<R>),
    /// The rollout or teardown has finished.
    Finished(Box<R>),
}

impl<R> State<R> {
    /// Returns the rollout or teardown, if there is one.
    pub(crate) fn content(&self) -> Option<&R> {
        match self {
            Self::New => None,
            Self::Running(content) | Self::Finished(content) => Some(content),
        }
    }

    /// Returns true if the rollout or teardown has finished.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished(_))
    }

    /// Returns the name of the state, or of its stage while running.
    pub(crate) fn name_with(&self, stage_name: impl FnOnce(&R) -> String) -> String {
        match self {
            Self::New => "New".to_owned(),
            Self::Running(content) => stage_name(content),
            Self::Finished(_) => "Finished".to_owned(),
        }
    }
}

/// Outcome of a finished rollout or teardown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome<E> {
    /// Type of outcome.
    pub end: E,
    /// Final message.
    pub message: String,
    /// End time.
    pub at: Timestamp,
}
