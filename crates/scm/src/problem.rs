//! What went wrong on the way to an answer.

use http::StatusCode;
use tidegate_generate::Unanswered;

/// What went wrong. Holds nothing that is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub words: String,
    /// What the server has answered, if it has.
    pub status: Option<StatusCode>,
    /// A token was not accepted that was kept, and was given up: another one may be.
    pub is_stale: bool,
}

impl Problem {
    pub fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), status: None, is_stale: false }
    }

    /// Whether the server says that what was asked for does not exist.
    pub fn is_missing(&self) -> bool {
        self.status == Some(StatusCode::NOT_FOUND)
    }
}

impl From<Problem> for Unanswered {
    fn from(problem: Problem) -> Self {
        match problem.is_missing() {
            true => Self::missing(problem.words),
            false => Self::new(problem.words),
        }
    }
}
