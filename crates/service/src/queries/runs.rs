//! Answers about rollouts and deletions of ApplicationSets, from the log.

use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::StreamId;

use super::Queries;
use crate::documents::runs::{Run, RunLine};
use crate::error::ServiceError;
use crate::runs;

impl Queries {
    /// Those of an ApplicationSet, by its name or `NAMESPACE/NAME`, or of all, oldest first. The set may be gone.
    pub async fn runs(&self, set: Option<String>) -> Result<Vec<RunLine>, ServiceError> {
        self.blocking(move |log| runs::listed(log, set.as_deref())).await
    }

    /// Those that a person may mean by an id, the beginning of one, or the name of an ApplicationSet.
    pub async fn find_runs(&self, text: String) -> Result<Vec<RunLine>, ServiceError> {
        self.blocking(move |log| runs::candidates(log, &text)).await
    }

    /// One of them, and everything that was recorded about it.
    ///
    /// # Errors
    ///
    /// There is none of this id; the log cannot be read.
    pub async fn run(&self, id: StreamId) -> Result<Run, ServiceError> {
        let now = SystemClock.now();
        self.blocking(move |log| runs::read(log, id, now)).await
    }
}
