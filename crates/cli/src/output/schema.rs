//! Operations as documents: what `-o json` prints and what tidegate processes tell each other. The field names are a
//! stable interface, documented in `docs/cli.md`.

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::{Awaited, Explanation, OperationView};
use tidegate_model::{OperationId, OperationPhase, Timestamp};
use tidegate_oplog::Summary;

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
    pub app: String,
    pub destination: String,
    pub phase: OperationPhase,
    pub paused: bool,
    pub message: String,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub waves_passed: u32,
    pub waves: u32,
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

impl From<&Summary> for SummaryDocument {
    fn from(summary: &Summary) -> Self {
        Self {
            id: summary.operation,
            app: summary.application.clone(),
            destination: summary.destination.clone(),
            phase: summary.phase,
            paused: summary.paused,
            message: summary.message.clone(),
            started_at: summary.started_at,
            finished_at: summary.finished_at,
            waves_passed: summary.waves.0,
            waves: summary.waves.1,
        }
    }
}
