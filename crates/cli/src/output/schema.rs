//! Operations as documents: what `-o json` prints and what tidegate processes tell each other. The field names are a
//! stable interface, documented in `docs/cli.md`.

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::{Awaited, Explanation, OperationView, WaveView};
use tidegate_model::{OperationId, OperationPhase, Phase, ResourceResult, Timestamp, Warning};
use tidegate_oplog::Summary;

/// An operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationDocument {
    pub id: OperationId,
    pub app: String,
    pub phase: OperationPhase,
    pub message: String,
    pub started_at: Timestamp,
    pub finished_at: Option<Timestamp>,
    pub retry_count: u32,
    pub paused_by: Option<String>,
    pub waves: Vec<WaveDocument>,
    pub resources: Vec<ResourceResult>,
    pub warnings: Vec<Warning>,
}

/// A wave of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaveDocument {
    pub phase: Phase,
    pub wave: i64,
    pub state: String,
    pub tasks: u32,
    pub done: u32,
    pub opened_at: Option<Timestamp>,
    pub applied_at: Option<Timestamp>,
    pub passed_at: Option<Timestamp>,
}

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
    pub awaited: Vec<AwaitedDocument>,
    pub deadline_in_seconds: Option<u64>,
    pub paused: Option<String>,
    pub next: Option<String>,
    pub at: Timestamp,
}

/// One thing an operation waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedDocument {
    pub what: String,
    pub why: String,
    pub since: Timestamp,
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

impl From<OperationView> for OperationDocument {
    fn from(view: OperationView) -> Self {
        Self {
            id: view.id,
            app: view.app,
            phase: view.phase,
            message: view.message,
            started_at: view.started_at,
            finished_at: view.finished_at,
            retry_count: view.retry_count,
            paused_by: view.paused_by,
            waves: view.waves.into_iter().map(WaveDocument::from).collect(),
            resources: view.resources,
            warnings: view.warnings,
        }
    }
}

impl From<WaveView> for WaveDocument {
    fn from(wave: WaveView) -> Self {
        Self {
            phase: wave.phase,
            wave: wave.wave,
            state: wave.state,
            tasks: wave.tasks,
            done: wave.done,
            opened_at: wave.opened_at,
            applied_at: wave.applied_at,
            passed_at: wave.passed_at,
        }
    }
}

impl ExplanationDocument {
    /// The explanation of an operation.
    pub fn new(operation: &OperationDocument, explanation: Explanation) -> Self {
        Self {
            id: operation.id,
            app: operation.app.clone(),
            phase: operation.phase,
            summary: explanation.to_string(),
            position: explanation.position,
            progress: explanation.progress,
            awaited: explanation.awaited.into_iter().map(AwaitedDocument::from).collect(),
            deadline_in_seconds: explanation.deadline_in_seconds,
            paused: explanation.paused,
            next: explanation.next,
            at: explanation.at,
        }
    }
}

impl From<Awaited> for AwaitedDocument {
    fn from(awaited: Awaited) -> Self {
        Self { what: awaited.what, why: awaited.why, since: awaited.since }
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
