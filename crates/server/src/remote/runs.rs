//! Rollouts and deletions of a `tidegate serve` elsewhere.

use tidegate_service::documents::runs::{Run, RunLine};
use tidegate_service::error::ServiceError;
use tidegate_service::runs;

use super::Remote;
use super::ask::part;

impl Remote {
    /// Those of an ApplicationSet, or of all, oldest first.
    pub async fn runs(&self, set: Option<&str>) -> Result<Vec<RunLine>, ServiceError> {
        let mut lines: Vec<RunLine> = self.all("/api/v1/runs", ("applicationSet", set)).await?;
        lines.reverse();
        Ok(lines)
    }

    /// The one that is meant by an id, the beginning of one, or the name of an ApplicationSet, and everything that was recorded
    /// about it.
    pub async fn run(&self, text: &str) -> Result<Run, ServiceError> {
        let all = self.runs(None).await?;
        let id = runs::find(runs::meant(all, text), text)?.id;
        self.read(&format!("/api/v1/runs/{}/export", part(&id.to_string()))).await
    }
}
