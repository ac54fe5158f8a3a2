//! Documents that describe operations, for `-o json` and for communication between Tidegate processes. Their
//! field names are a stable interface, documented in `docs/reference/json-output.md`.

pub mod appset_actions;
pub mod appset_summary;
pub mod deletion;
pub mod differences;
pub mod events;
pub mod filter;
pub mod log_entries;
pub mod output;
pub mod plan;
pub mod protocol;
pub mod record;
pub mod runs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_lifecycle::NextAction;
use tidegate_lifecycle::operation::{
    AwaitedItem, Explanation, OperationView, PathStep, RETRYING, resume_action,
};
use tidegate_model::{OperationId, OperationOutcome, OperationPhase, Requester, Timestamp};

use tidegate_state::operations::{self, OperationEntry};

/// Explanation of an operation's status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationDocument {
    /// The operation.
    pub id: OperationId,
    /// The operation's application.
    pub app: String,
    /// `Running`, or the outcome.
    pub phase: OperationPhase,
    /// True for a dry run; otherwise absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Complete explanation in one sentence.
    pub summary: String,
    /// Stage of the operation, such as `wave 2 of 5 (Sync, wave 1)`.
    pub position: String,
    /// Progress within the stage, such as `3 of 14 healthy`. May be empty.
    pub progress: String,
    /// Items that the operation is waiting for, longest wait first.
    pub awaited: Vec<AwaitedItem>,
    /// Objects of the wave that determine its duration because of dependencies, in order. Each object waits for
    /// the previous one. Absent if the wave isn't waiting for dependencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub critical_path: Vec<PathStep>,
    /// Number of seconds until the next deadline. `None` if there is no deadline.
    pub seconds_until_deadline: Option<u64>,
    /// Number of seconds since the deadline passed. `None` if no deadline has passed.
    pub seconds_since_deadline: Option<u64>,
    /// Duration and cause of the current cluster outage, if any.
    pub outage: Option<String>,
    /// User who paused the operation, with the time and the reason.
    pub paused_by: Option<String>,
    /// First digits of the digest that identifies the operation's health rules. `None` until the operation
    /// has been planned.
    #[serde(default)]
    pub health_rules: Option<String>,
    /// Time at which the health rules last changed, and the origin of the new rules. `None` if the rules did
    /// not change during the operation.
    #[serde(default)]
    pub health_rules_change: Option<String>,
    /// Stored plan that the operation executes: the first digits of its hash, and its approvals. `None` if
    /// the operation created its own plan.
    #[serde(default)]
    pub plan: Option<String>,
    /// Decisions about individual tasks during the operation, each with the user and the reason.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// The next wave or attempt.
    pub next_position: Option<String>,
    /// Next operation, such as a sync to a newer revision, and what it is waiting for. `None` if no operation
    /// will follow or replace the current operation.
    #[serde(default)]
    pub successor: Option<String>,
    /// Next action for the user: a command to run, a change to make, or an event to wait for.
    #[serde(default)]
    pub next_action: NextAction,
    /// Time at which this status was read.
    pub at: Timestamp,
    /// True if a process is running the operation. `None` if unknown.
    pub is_running: Option<bool>,
}

/// An operation, and whether a process is running it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationDocument<'a> {
    /// The operation. Its fields are included directly in the document.
    #[serde(flatten)]
    pub operation: &'a OperationView,
    /// Final output from the containers of failed hooks, per attempt. `None` if there was only one attempt or
    /// only the status is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<Vec<record::AttemptLog>>,
    /// True if a process is running the operation. `None` if unknown.
    pub is_running: Option<bool>,
}

/// Summary of an operation, as printed by `ops list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SummaryDocument {
    /// The operation.
    pub id: OperationId,
    /// The operation's application. As with all optional fields of this type, `None` if the summary was lost.
    pub app: Option<String>,
    /// Description of the operation's cluster.
    pub destination: Option<String>,
    /// Last recorded phase.
    pub phase: Option<OperationPhase>,
    /// The phase, or `Superseded` if another operation replaced this operation. A superseded operation has
    /// the phase `Failed`.
    #[serde(default)]
    pub outcome: Option<OperationOutcome>,
    /// True for a dry run.
    #[serde(default)]
    pub dry_run: bool,
    /// True if a user has paused the operation.
    pub paused: bool,
    /// Reason for the outcome, once the operation has finished.
    pub message: Option<String>,
    /// Start time. If the summary was lost, the time comes from the ID.
    pub started_at: Timestamp,
    /// End time. `None` if the operation hasn't finished.
    pub finished_at: Option<Timestamp>,
    /// Revision of the manifests. `None` if it isn't known.
    #[serde(default)]
    pub revision: Option<String>,
    /// Requester. `None` if it isn't known.
    #[serde(default)]
    pub initiated_by: Option<String>,
    /// Reason for the request. `None` if no reason was given. For a deletion, `initiatedBy` also contains the
    /// reason.
    #[serde(default)]
    pub reason: Option<String>,
    /// Number of waves that have finished in the newest attempt.
    pub waves_passed: u32,
    /// Total number of waves in the plan. 0 if there is no plan yet.
    pub waves: u32,
    /// Description of the damage to the log, if any.
    pub damage: Option<String>,
    /// Kind of log entry, if the entry isn't an operation and was written by a newer version of Tidegate.
    pub unknown_kind: Option<String>,
    /// True if a process is running the operation. `None` if unknown.
    pub is_running: Option<bool>,
}

impl ExplanationDocument {
    /// Creates the explanation for an operation.
    pub fn new(operation: &OperationView, mut explanation: Explanation, is_running: Option<bool>) -> Self {
        let is_unattended = is_running == Some(false) && operation.finished_at.is_none();
        if is_unattended && let Some(trouble) = &mut explanation.trouble {
            trouble.truncate(trouble.trim_end_matches(RETRYING).len());
        }
        let mut summary = explanation.to_string();
        if is_unattended {
            summary.push_str("; no process is running the operation");
        }
        if is_unattended && explanation.deadline_passed_seconds.is_some() {
            summary.push_str(", so this wait ends when the operation is resumed");
        }
        let next_action = match is_unattended {
            true => resume_action(operation.id, explanation.paused.is_some()),
            false => explanation.action,
        };
        Self {
            id: operation.id,
            app: operation.app.clone(),
            phase: operation.phase,
            dry_run: operation.dry_run,
            summary,
            position: explanation.position,
            progress: explanation.progress,
            awaited: explanation.awaited,
            critical_path: explanation.critical_path,
            seconds_until_deadline: explanation.deadline_in_seconds,
            seconds_since_deadline: explanation.deadline_passed_seconds,
            outage: explanation.trouble,
            paused_by: explanation.paused,
            health_rules: operation.health_rules.as_ref().map(|rules| rules.digest.clone()),
            health_rules_change: explanation.rules_changed,
            plan: explanation.plan,
            overrides: explanation.overridden,
            next_position: explanation.next,
            successor: None,
            next_action,
            at: explanation.at,
            is_running,
        }
    }

    /// Adds a description of the successor that is waiting for this operation.
    #[must_use]
    pub fn with_waiting(mut self, waiting: Option<String>) -> Self {
        if let Some(text) = &waiting {
            self.summary.push_str("; ");
            self.summary.push_str(text);
        }
        self.successor = waiting;
        self
    }

    /// Returns true if the operation is unfinished but no process is running it.
    pub fn is_unattended(&self) -> bool {
        self.is_running == Some(false) && !self.phase.is_completed()
    }
}

impl SummaryDocument {
    /// Returns the message shown to users.
    pub fn message(&self) -> String {
        match &self.unknown_kind {
            Some(kind) => format!("unknown record kind {kind}; the record is left unchanged"),
            None => self.damage.as_ref().or(self.message.as_ref()).cloned().unwrap_or_default(),
        }
    }

    /// Returns true if the operation is unfinished but no process is running it.
    pub fn is_unattended(&self) -> bool {
        self.is_running == Some(false) && self.phase.is_some_and(|phase| !phase.is_completed())
    }
}

impl From<&OperationEntry> for SummaryDocument {
    fn from(listed: &OperationEntry) -> Self {
        let summary = listed.summary.as_ref();
        let (waves_passed, waves) = summary.map_or((0, 0), |summary| summary.waves);
        let word = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let requester = summary.map(|summary| Requester::from_operation(&summary.initiated_by));
        Self {
            id: listed.operation,
            app: summary.map(|summary| summary.application.clone()),
            destination: summary.map(|summary| summary.destination.clone()),
            phase: summary.map(|summary| summary.phase),
            outcome: summary.map(|summary| OperationOutcome::from_phase(summary.phase, &summary.message)),
            dry_run: summary.is_some_and(|summary| summary.dry_run),
            paused: summary.is_some_and(|summary| summary.paused),
            message: summary.map(|summary| summary.message.clone()),
            started_at: summary
                .map_or_else(|| operations::creation_time(listed.operation), |summary| summary.started_at),
            finished_at: summary.and_then(|summary| summary.finished_at),
            revision: summary.and_then(|summary| word(&summary.revision)),
            initiated_by: requester.and_then(|requester| word(requester.name)),
            reason: requester.and_then(|requester| word(requester.reason)),
            waves_passed,
            waves,
            damage: listed.damage.clone(),
            unknown_kind: listed.unknown_kind.clone(),
            is_running: listed.at_work,
        }
    }
}
