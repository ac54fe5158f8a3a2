//! Errors of requests to SCM providers and plugins.

use http::StatusCode;
use tidegate_generate::QueryError;

/// Error for a failed request. The message contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub message: String,
    /// Status code of the response, if the server responded.
    pub status: Option<StatusCode>,
    /// True if the server rejected a cached token. The token was dropped from the cache, and the server might
    /// accept a new one.
    pub is_stale: bool,
}

impl Problem {
    pub fn new(text: impl Into<String>) -> Self {
        Self { message: text.into(), status: None, is_stale: false }
    }

    /// Returns true if the server responded that the resource doesn't exist.
    pub fn is_missing(&self) -> bool {
        self.status == Some(StatusCode::NOT_FOUND)
    }
}

impl From<Problem> for QueryError {
    fn from(problem: Problem) -> Self {
        match problem.is_missing() {
            true => Self::missing(problem.message),
            false => Self::new(problem.message),
        }
    }
}
