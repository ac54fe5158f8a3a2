//! Rollouts and ordered deletions of a `tidegate serve` elsewhere.

use serde::Deserialize;
use tidegate_service::documents::runs::{Run, RunLine};
use tidegate_service::error::ServiceError;
use tidegate_service::runs;

use super::ask::{Asking, part};
use super::{PAGE, PAGES_MAX, Remote};

#[derive(Deserialize)]
struct Page {
    items: Vec<RunLine>,
    next: Option<String>,
}

impl Remote {
    /// Those of an ApplicationSet, or of all, oldest first.
    pub async fn runs(&self, set: Option<&str>) -> Result<Vec<RunLine>, ServiceError> {
        let (mut lines, mut after) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let asking = Asking::get("/api/v1/runs").with("limit", PAGE);
            let asking = set.iter().fold(asking, |asking, set| asking.with("applicationSet", set));
            let asking = after.iter().fold(asking, |asking, page: &String| asking.with("page", page));
            let page: Page = self.0.ask(asking).await?;
            lines.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
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
