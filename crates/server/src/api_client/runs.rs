//! Rollouts and deletions run by a remote `tidegate serve`.

use tidegate_daemon::runs;
use tidegate_state::error::ServiceError;
use tidegate_views::runs::{RunSummary, RunWithEvents};

use super::ApiClient;
use super::api_request::encode_segment;

impl ApiClient {
    /// Returns the rollouts and deletions of one ApplicationSet or of all ApplicationSets, oldest first.
    pub async fn runs(&self, set: Option<&str>) -> Result<Vec<RunSummary>, ServiceError> {
        let mut lines: Vec<RunSummary> = self.list_all("/api/v1/runs", "applicationSet", set).await?;
        lines.reverse();
        Ok(lines)
    }

    /// Returns a run with all its recorded events. `text` is a run ID, an ID prefix or an ApplicationSet
    /// name.
    pub async fn run(&self, text: &str) -> Result<RunWithEvents, ServiceError> {
        let all = self.runs(None).await?;
        let id = runs::select_candidate(runs::select_matching(all, text), text)?.id;
        self.get(&format!("/api/v1/runs/{}/export", encode_segment(&id.to_string()))).await
    }
}
