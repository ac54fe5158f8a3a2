//! Operations as documents: what `-o json` prints and what tidegate processes tell each other. The field names are a
//! stable interface, documented in `docs/cli.md`.

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::{Awaited, Explanation, OperationView, TRYING_AGAIN};
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
    pub deadline_passed_seconds: Option<u64>,
    pub trouble: Option<String>,
    pub paused: Option<String>,
    pub next: Option<String>,
    pub at: Timestamp,
    /// Whether a process works on it; `None` where that cannot be told.
    pub at_work: Option<bool>,
}

/// An operation, and whether a process works on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationDocument<'a> {
    #[serde(flatten)]
    pub operation: &'a OperationView,
    /// `None` where that cannot be told.
    pub at_work: Option<bool>,
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
    /// What it is, where it is no operation but something that a newer program began.
    pub unknown_kind: Option<String>,
    /// Whether a process works on it; `None` where that cannot be told.
    pub at_work: Option<bool>,
}

impl ExplanationDocument {
    /// The explanation of an operation.
    pub fn new(operation: &OperationView, mut explanation: Explanation, at_work: Option<bool>) -> Self {
        let left_alone = at_work == Some(false) && operation.finished_at.is_none();
        if left_alone && let Some(trouble) = &mut explanation.trouble {
            trouble.truncate(trouble.trim_end_matches(TRYING_AGAIN).len());
        }
        let mut summary = explanation.to_string();
        if left_alone {
            summary.push_str("; no process is at work on it");
        }
        if left_alone && explanation.deadline_passed_seconds.is_some() {
            summary.push_str(", so the next resume ends this wait");
        }
        Self {
            id: operation.id,
            app: operation.app.clone(),
            phase: operation.phase,
            summary,
            position: explanation.position,
            progress: explanation.progress,
            awaited: explanation.awaited,
            deadline_in_seconds: explanation.deadline_in_seconds,
            deadline_passed_seconds: explanation.deadline_passed_seconds,
            trouble: explanation.trouble,
            paused: explanation.paused,
            next: explanation.next,
            at: explanation.at,
            at_work,
        }
    }

    /// Whether it waits for somebody to go on with it.
    pub fn is_left_alone(&self) -> bool {
        self.at_work == Some(false) && !self.phase.is_completed()
    }
}

impl SummaryDocument {
    /// What a person is told of it.
    pub fn message(&self) -> String {
        match &self.unknown_kind {
            Some(kind) => format!("this program does not know what a {kind} is; it is kept as it is"),
            None => self.damage.as_ref().or(self.message.as_ref()).cloned().unwrap_or_default(),
        }
    }

    /// Whether it waits for somebody to go on with it.
    pub fn is_left_alone(&self) -> bool {
        self.at_work == Some(false) && self.phase.is_some_and(|phase| !phase.is_completed())
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
            unknown_kind: listed.unknown_kind.clone(),
            at_work: listed.at_work,
        }
    }
}
