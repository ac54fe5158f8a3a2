//! Complete record of an operation, to attach to an incident or a change request: JSON for programs, or a
//! self-contained HTML page for people.

mod dependency_waits;
mod logs;
pub(super) mod markup;
pub(super) mod page;
mod task_events;
mod timeline;
mod timeline_chart;
mod timeline_events;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate_lifecycle::operation::{OperationEvent, OperationView};
use tidegate_model::{Plan, Timestamp};

use super::log_entries::{self, LogEntryDocument};
use super::plan::{self, PlanDocument};
use super::{ExplanationDocument, SummaryDocument};
use crate::protocol::OperationDetails;

pub use logs::{AttemptLog, hook_logs as attempt_logs};

/// Document type in the `record` field, which readers use to choose a parser.
const RECORD_TYPE: &str = "tidegate.dev/operation/v1";

/// An operation, with all its recorded events.
#[derive(Clone, Debug)]
pub struct Record {
    /// Status, and the reasons for it.
    pub details: OperationDetails,
    /// Recorded events, in order.
    pub events: Vec<OperationEvent>,
    /// Sequence number of the first event. Greater than 1 if older events were compacted.
    pub first_sequence: u64,
    /// Description of the damage to the log, if any.
    pub damage: Option<String>,
    /// Time at which the record was read.
    pub read_at: Timestamp,
}

/// An operation's record, for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OperationRecord")]
pub struct RecordDocument<'a> {
    /// Format of the record: `tidegate.dev/operation/v1`.
    record: &'static str,
    /// Time of the export.
    exported_at: Timestamp,
    /// Version of Tidegate that exported the record.
    tidegate_version: &'static str,
    /// The operation's status, as printed by `ops show`.
    operation: &'a OperationView,
    /// True if a process is running the operation; absent if unknown.
    is_running: Option<bool>,
    /// Reasons for the status, as printed by `explain`.
    explanation: &'a ExplanationDocument,
    /// Request and requester, from the details of the first event; absent if that event was compacted.
    request: Option<Value>,
    /// Newest plan; absent if there is no plan yet or if it was compacted.
    plan: Option<PlanDocument<'a>>,
    /// All recorded events, as printed by `ops log`.
    events: Vec<LogEntryDocument<'a>>,
    /// Last output from the containers of failed hooks, for each attempt.
    logs: Vec<AttemptLog>,
    /// Number of compacted events.
    compacted_events: u64,
    /// Summary, as printed by `ops list`, if all of the operation's events were compacted.
    summary: Option<&'a SummaryDocument>,
    /// Description of the damage to the log, if any.
    damage: Option<&'a str>,
}

impl Record {
    /// Returns the JSON document for programs.
    pub fn document(&self) -> RecordDocument<'_> {
        let events = log_entries::documents(self.first_sequence, &self.events);
        let is_deletion = self.details.operation.deletion.is_some();
        RecordDocument {
            record: RECORD_TYPE,
            exported_at: self.read_at,
            tidegate_version: env!("CARGO_PKG_VERSION"),
            operation: &self.details.operation,
            is_running: self.details.explanation.is_running,
            explanation: &self.details.explanation,
            request: events.iter().find(|event| event.kind == "accepted").map(|event| event.details.clone()),
            plan: self.plan().map(|made| plan::plan_document(made, &made.wave_numbers(is_deletion), &[])),
            events,
            logs: logs::hook_logs(&self.events),
            compacted_events: self.first_sequence.saturating_sub(1),
            summary: self.details.summary.as_ref(),
            damage: self.damage.as_deref(),
        }
    }

    /// Returns the HTML page for people, which has no scripts or links and doesn't load anything.
    pub fn render_page(&self) -> String {
        page::render_page(self)
    }

    fn plan(&self) -> Option<&Plan> {
        self.events.iter().rev().find_map(|event| match event {
            OperationEvent::Planned { plan, .. } => Some(&**plan),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
