//! All that is known of one operation, in one piece, for whoever keeps it beside an incident or a change request: as JSON for
//! programs, and as a page for people that needs nothing else.

mod logs;
pub(super) mod markup;
mod objects;
pub(super) mod page;
mod picture;
mod story;
mod telling;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate_lifecycle::operation::{Fact, OperationView};
use tidegate_model::{Plan, Timestamp};

use super::facts::{self, FactDocument};
use super::plan::{self, PlanDocument};
use super::{ExplanationDocument, SummaryDocument};
use crate::control::protocol::Inspected;

pub use logs::{AttemptLog, logs as attempt_logs};

/// What the document is called in its field `record`; a reader tells from it what to expect.
const RECORD: &str = "tidegate.dev/operation/v1";

/// An operation, and everything that was recorded about it.
#[derive(Clone, Debug)]
pub struct Record {
    /// How it stands, and why.
    pub inspected: Inspected,
    /// What was recorded, in order.
    pub facts: Vec<Fact>,
    /// The number of the first of these; more than 1 where older ones were compacted.
    pub first: u64,
    /// What is damaged of it.
    pub damage: Option<String>,
    /// When all this was read.
    pub at: Timestamp,
}

/// The record of an operation for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OperationRecord")]
pub struct RecordDocument<'a> {
    /// `tidegate.dev/operation/v1`.
    record: &'static str,
    /// When it was written.
    exported_at: Timestamp,
    /// The version of Tidegate that has written it.
    tidegate_version: &'static str,
    /// How the operation stands, as `ops show` prints it.
    operation: &'a OperationView,
    /// Whether a process works on it; nothing where that cannot be told.
    at_work: Option<bool>,
    /// Why it is where it is, as `explain` prints it.
    explanation: &'a ExplanationDocument,
    /// What was asked for, and by whom: the details of the first fact. Nothing where that is not kept any more.
    request: Option<Value>,
    /// Its newest plan. Nothing before there is one, and where it is not kept any more.
    plan: Option<PlanDocument<'a>>,
    /// Everything that was recorded, as `ops log` prints it.
    facts: Vec<FactDocument<'a>>,
    /// What the containers of failed hooks wrote last, in every attempt.
    logs: Vec<AttemptLog>,
    /// How many older facts are not kept any more.
    compacted: u64,
    /// Of an operation whose facts were all compacted: its line, as `ops list` prints it.
    kept: Option<&'a SummaryDocument>,
    /// What is damaged of it.
    damage: Option<&'a str>,
}

impl Record {
    /// For programs.
    pub fn document(&self) -> RecordDocument<'_> {
        let facts = facts::documents(self.first, &self.facts);
        let is_deletion = self.inspected.operation.deletion.is_some();
        RecordDocument {
            record: RECORD,
            exported_at: self.at,
            tidegate_version: env!("CARGO_PKG_VERSION"),
            operation: &self.inspected.operation,
            at_work: self.inspected.explanation.at_work,
            explanation: &self.inspected.explanation,
            request: facts.iter().find(|fact| fact.kind == "accepted").map(|fact| fact.details.clone()),
            plan: self.plan().map(|made| plan::of(made, &made.wave_numbers(is_deletion), &[])),
            facts,
            logs: logs::logs(&self.facts),
            compacted: self.first.saturating_sub(1),
            kept: self.inspected.kept.as_ref(),
            damage: self.damage.as_deref(),
        }
    }

    /// For people: a page of HTML without scripts and links, which asks nobody for anything.
    pub fn page(&self) -> String {
        page::of(self)
    }

    fn plan(&self) -> Option<&Plan> {
        self.facts.iter().rev().find_map(|fact| match fact {
            Fact::Planned { plan, .. } => Some(&**plan),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
