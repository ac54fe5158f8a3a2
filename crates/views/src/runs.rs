//! Documents that describe rollouts and deletions of ApplicationSets: summary, status and complete record.
//! Their field names are a stable interface, documented in `docs/reference/json-output.md`.

mod deletion;
mod last_operations;
mod page;
mod rollout;
mod run_events;
mod waits;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_lifecycle::rollout::RolloutView;
use tidegate_lifecycle::teardown::TeardownView;
use tidegate_lifecycle::{fleet, rollout as progressive, teardown};
use tidegate_model::{Digest, OperationId, OperationPhase, Requester, StreamId, Timestamp};
use tidegate_oplog::EntryOf;

pub use page::{NO_STEP, describe_approval, describe_step_number, describe_step_status};
pub use run_events::RunEvent;
pub use waits::WaitSpan;

/// Document type in the `record` field, which readers use to choose a parser.
const RECORD: &str = "tidegate.dev/run/v1";

/// Kind of a run of an ApplicationSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// Brings Applications to their targets, step by step.
    Rollout,
    /// Deletes or orphans Applications, either in order or all at once.
    Deletion,
}

impl RunKind {
    /// Returns the word used in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Deletion => "deletion",
        }
    }
}

/// Summary of a rollout or deletion of an ApplicationSet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// ID of the run.
    pub id: StreamId,
    /// Kind of the run.
    pub kind: RunKind,
    /// The ApplicationSet, as `namespace/name`. It may no longer exist. As with all optional fields of this
    /// type, `None` if the summary was lost.
    #[serde(rename = "applicationSet")]
    pub set: Option<String>,
    /// Outcome. `None` if the run hasn't finished. A rollout ends as `Completed`, `Failed`, `RolledBack`,
    /// `Superseded`, `Terminated` or `Error`. A deletion ends as `Completed`, `Failed`, `Terminated` or
    /// `Error`.
    #[serde(rename = "outcome")]
    pub end: Option<String>,
    /// True if a user has paused the run.
    pub paused: bool,
    /// Status, or the reason for the outcome.
    pub message: String,
    /// Start time. If the summary was lost, the time comes from the ID.
    pub started_at: Timestamp,
    /// End time. `None` if the run hasn't finished.
    pub finished_at: Option<Timestamp>,
    /// Requester. `None` if it wasn't recorded.
    #[serde(rename = "initiatedBy")]
    pub by: Option<String>,
    /// Reason. `None` if no reason was given.
    pub reason: Option<String>,
    /// Digest that distinguishes a rollout's targets from the ApplicationSet's other targets. `None` for a
    /// deletion.
    pub targets: Option<Digest>,
    /// Distinct target revisions of the Applications in a rollout's steps; only the first few if there are
    /// many.
    pub revisions: Vec<String>,
    /// Number of a rollout's steps that have finished. `None` for a deletion.
    pub steps_passed: Option<u32>,
    /// Total number of a rollout's steps. `None` for a deletion.
    pub steps: Option<u32>,
    /// Number of Applications that are Healthy, deleted or orphaned.
    pub done: u32,
    /// Number of Applications that a rollout has skipped, not included in `done`. `None` for a deletion.
    pub skipped: Option<u32>,
    /// Number of Applications in the steps.
    pub applications: u32,
    /// Description of the damage to the log, if any.
    pub damage: Option<String>,
}

/// Status or outcome of a rollout or deletion, with all decisions that users have made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDetails {
    /// Summary of the run.
    #[serde(flatten)]
    pub line: RunSummary,
    /// Details of a rollout: its steps and all of its Applications. Both `rollout` and `deletion` are absent
    /// if the details were compacted or are unreadable.
    pub rollout: Option<RolloutView>,
    /// Details of a deletion: its steps and all of its Applications.
    pub deletion: Option<TeardownView>,
    /// Explanation of what the run is waiting for. `None` once it has finished.
    pub explanation: Option<fleet::Explanation>,
    /// Decisions that users made (approve, skip, retry, pause, resume, terminate), each with the user, the
    /// time and the reason.
    pub decisions: Vec<RunEvent>,
    /// Waits with their start and end times.
    pub waits: Vec<WaitSpan>,
    /// Number of compacted events.
    pub compacted_events: u64,
}

/// A rollout or a deletion, with all its recorded events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunWithEvents {
    /// Status of the run.
    pub run: RunDetails,
    /// Recorded events, in order.
    #[serde(rename = "events")]
    pub facts: Vec<RunEvent>,
}

/// Record of a rollout or a deletion, for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunRecord")]
pub struct RunRecord<'a> {
    /// Format of the record: `tidegate.dev/run/v1`.
    record: &'static str,
    /// Time of the export.
    exported_at: Timestamp,
    /// Version of Tidegate that exported the record.
    tidegate_version: &'static str,
    /// Status, as printed by `appset show-run`.
    run: &'a RunDetails,
    /// All recorded events.
    events: &'a Vec<RunEvent>,
}

impl RunDetails {
    /// Returns true if the details were compacted, leaving only the summary.
    pub fn is_compacted(&self) -> bool {
        self.rollout.is_none() && self.deletion.is_none() && self.line.damage.is_none()
    }
}

impl RunWithEvents {
    /// Returns the JSON document for programs.
    pub fn record(&self, at: Timestamp) -> RunRecord<'_> {
        let Self { run, facts: events } = self;
        RunRecord {
            record: RECORD,
            exported_at: at,
            tidegate_version: env!("CARGO_PKG_VERSION"),
            run,
            events,
        }
    }

    /// Returns the HTML page for people, which has no scripts or links and doesn't load anything.
    pub fn render_page(&self, at: Timestamp) -> String {
        page::render_page(self, at)
    }
}

fn non_empty_text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Splits text from the log into the requester and the reason.
fn split_requester(recorded: &str) -> (Option<String>, Option<String>) {
    let requester = Requester::parse(recorded);
    (non_empty_text(requester.name.to_owned()), requester.reason_text())
}

impl RunSummary {
    /// Summarizes a rollout from the log.
    pub fn from_rollout(entry: EntryOf<progressive::Event>) -> Self {
        let summary = entry.summary;
        let progressive::Details { targets, end, paused, message, steps, members, by, revisions, skipped } =
            summary.details;
        let (by, reason) = split_requester(&by);
        Self {
            id: entry.stream,
            kind: RunKind::Rollout,
            set: summary.set,
            end: end.map(|end| format!("{end:?}")),
            paused: paused && summary.finished_at.is_none(),
            message,
            started_at: summary.started_at,
            finished_at: summary.finished_at,
            by,
            reason,
            targets: Some(targets),
            revisions,
            steps_passed: Some(steps.0),
            steps: Some(steps.1),
            done: members.0,
            skipped: Some(skipped),
            applications: members.1,
            damage: None,
        }
    }

    /// Summarizes a deletion from the log.
    pub fn from_deletion(entry: EntryOf<teardown::Event>) -> Self {
        let summary = entry.summary;
        let teardown::Details { end, paused, message, members, by } = summary.details;
        let (by, reason) = split_requester(&by);
        Self {
            id: entry.stream,
            kind: RunKind::Deletion,
            set: summary.set,
            end: end.map(|end| format!("{end:?}")),
            paused: paused && summary.finished_at.is_none(),
            message,
            started_at: summary.started_at,
            finished_at: summary.finished_at,
            by,
            reason,
            targets: None,
            revisions: Vec::new(),
            steps_passed: None,
            steps: None,
            done: members.0,
            skipped: None,
            applications: members.1,
            damage: None,
        }
    }

    /// Adds the recorded requester and reason if the summary lacks them.
    fn add_recorded_requester(&mut self, by: &str, reason: Option<&String>) {
        if self.by.is_none() {
            self.by = Some(by.to_owned());
            self.reason = reason.cloned();
        }
    }

    /// Formats the Applications' progress, such as `11 of 12`, or `11 of 12, 1 skipped`.
    pub fn progress(&self) -> String {
        self.describe_progress("")
    }

    /// Formats the progress with a word for finished Applications, such as `11 of 12 Healthy, 1 skipped`.
    fn describe_progress(&self, what: &str) -> String {
        let Self { done, applications, .. } = self;
        let skipped = self.skipped.filter(|skipped| *skipped > 0);
        let skipped = skipped.map(|skipped| format!(", {skipped} skipped")).unwrap_or_default();
        format!("{done} of {applications}{what}{skipped}")
    }
}

impl RunWithEvents {
    /// Builds a rollout from its events. `first` is the sequence number of the first event. `state` also
    /// reflects compacted events. `end_of` returns a stopped operation's outcome, if available.
    pub fn from_rollout(
        mut line: RunSummary,
        first: u64,
        events: &[progressive::Event],
        state: &progressive::State,
        now: Timestamp,
        end_of: impl Fn(OperationId) -> Option<(OperationPhase, String)>,
    ) -> Self {
        let documents = rollout::documents(first, events);
        let mut rollout = progressive::view(state);
        // If no event was compacted, the events show the progress of Applications that have left the
        // ApplicationSet.
        if let (1, Some(view), Ok(left)) = (first, rollout.as_mut(), progressive::departed_members(events)) {
            view.left = left;
        }
        if let Some(view) = &mut rollout {
            last_operations::add_last_operations(view, events, end_of);
        }
        if let Some(view) = &rollout {
            line.add_recorded_requester(&view.by, view.reason.as_ref());
        }
        let run = RunDetails {
            explanation: (!state.is_finished()).then(|| progressive::explain(state, now)),
            decisions: decisions(&documents),
            waits: rollout::collect_waits(events),
            compacted_events: first.saturating_sub(1),
            line,
            rollout,
            deletion: None,
        };
        Self { run, facts: documents }
    }

    /// Builds a deletion from its events, like [`Self::from_rollout`].
    pub fn from_deletion(
        mut line: RunSummary,
        first: u64,
        events: &[teardown::Event],
        state: &teardown::State,
        now: Timestamp,
    ) -> Self {
        let order = state.teardown().map(|teardown| teardown.order.clone()).unwrap_or_default();
        let documents = deletion::documents(first, events, &order);
        let deletion = teardown::view(state);
        if let Some(view) = &deletion {
            line.add_recorded_requester(&view.by, view.reason.as_ref());
        }
        let run = RunDetails {
            explanation: (!state.is_finished()).then(|| teardown::explain(state, now)),
            decisions: decisions(&documents),
            waits: deletion::collect_waits(events),
            compacted_events: first.saturating_sub(1),
            line,
            rollout: None,
            deletion,
        };
        Self { run, facts: documents }
    }

    /// Builds a run from its summary, for a run with compacted or unreadable events.
    pub fn from_summary(line: RunSummary, compacted: u64) -> Self {
        let run = RunDetails {
            line,
            rollout: None,
            deletion: None,
            explanation: None,
            decisions: Vec::new(),
            waits: Vec::new(),
            compacted_events: compacted,
        };
        Self { run, facts: Vec::new() }
    }
}

/// Returns users' decisions. Omits the request that started the run, which is in the summary.
fn decisions(events: &[RunEvent]) -> Vec<RunEvent> {
    events
        .iter()
        .filter(|event| event.by.is_some() && event.kind != run_events::STARTED_KIND)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests;
