//! Operations as documents: what `-o json` prints and what tidegate processes tell each other. The field names are a
//! stable interface, documented in `docs/cli.md`.

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::{Awaited, Explanation, OperationView};
use tidegate_model::{OperationId, OperationPhase, Timestamp};

use crate::control::Listed;
use crate::store;

/// Why an operation is where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationDocument {
    pub id: OperationId,
    pub app: String,
    pub phase: OperationPhase,
    /// The whole answer as one sentence.
    pub summary: String,
    pub position: String,
    pub progress: String,
    pub awaited: Vec<Awaited>,
    pub deadline_in_seconds: Option<u64>,
    pub trouble: Option<String>,
    pub paused: Option<String>,
    pub next: Option<String>,
    pub at: Timestamp,
}

/// One line of `ops list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SummaryDocument {
    pub id: OperationId,
    pub app: Option<String>,
    pub destination: Option<String>,
    pub phase: Option<OperationPhase>,
    pub paused: bool,
    pub message: Option<String>,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub waves_passed: u32,
    pub waves: u32,
    /// What is damaged of it.
    pub damage: Option<String>,
}

impl ExplanationDocument {
    /// The explanation of an operation.
    pub fn new(operation: &OperationView, explanation: Explanation) -> Self {
        Self {
            id: operation.id,
            app: operation.app.clone(),
            phase: operation.phase,
            summary: explanation.to_string(),
            position: explanation.position,
            progress: explanation.progress,
            awaited: explanation.awaited,
            deadline_in_seconds: explanation.deadline_in_seconds,
            trouble: explanation.trouble,
            paused: explanation.paused,
            next: explanation.next,
            at: explanation.at,
        }
    }
}

impl From<&Listed> for SummaryDocument {
    fn from(listed: &Listed) -> Self {
        let known = listed.summary.as_ref();
        let (waves_passed, waves) = known.map_or((0, 0), |known| known.waves);
        Self {
            id: listed.operation,
            app: known.map(|known| known.application.clone()),
            destination: known.map(|known| known.destination.clone()),
            phase: known.map(|known| known.phase),
            paused: known.is_some_and(|known| known.paused),
            message: known.map(|known| known.message.clone()),
            started_at: known.map_or_else(|| store::made_at(listed.operation), |known| known.started_at),
            finished_at: known.and_then(|known| known.finished_at),
            waves_passed,
            waves,
            damage: listed.damage.clone(),
        }
    }
}
