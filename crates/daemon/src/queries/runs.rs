//! Queries for rollouts and deletions of ApplicationSets, answered from the log.

use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::StreamId;
use tidegate_state::error::ServiceError;
use tidegate_views::runs::{RunSummary, RunWithEvents};

use super::Queries;
use crate::runs;

impl Queries {
    /// Returns all runs, or those of one ApplicationSet, oldest first. `set` is a name or `NAMESPACE/NAME`.
    /// The ApplicationSet may have been deleted.
    pub async fn list_runs(&self, set: Option<String>) -> Result<Vec<RunSummary>, ServiceError> {
        self.run_blocking(move |log| runs::list_runs(log, set.as_deref())).await
    }

    /// Returns the runs that match a run ID, an ID prefix or an ApplicationSet name.
    pub async fn find_runs(&self, text: String) -> Result<Vec<RunSummary>, ServiceError> {
        self.run_blocking(move |log| runs::find_candidates(log, &text)).await
    }

    /// Returns a run with all its recorded events.
    ///
    /// # Errors
    ///
    /// Returns an error if the run doesn't exist or the log is unreadable.
    pub async fn read_run(&self, id: StreamId) -> Result<RunWithEvents, ServiceError> {
        let now = SystemClock.now();
        self.run_blocking(move |log| runs::read_run(log, id, now)).await
    }
}
