//! Rollouts and deletions of ApplicationSets as documents: one line of each, what one has come to, and everything that
//! was recorded about it. The field names are a stable interface, documented in `docs/cli.md`.

mod course;
mod deletion;
mod facts;
mod operations;
mod page;
mod rollout;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_lifecycle::rollout::RolloutView;
use tidegate_lifecycle::teardown::TeardownView;
use tidegate_lifecycle::{fleet, rollout as progressive, teardown};
use tidegate_model::{Digest, OperationId, OperationPhase, StreamId, Timestamp, Wisher};
use tidegate_oplog::EntryOf;

pub use course::WaitSpan;
pub use facts::RunFact;
pub use page::{OUTSIDE, approval_words, step_number, step_words};

/// What the document is called in its field `record`; a reader tells from it what to expect.
const RECORD: &str = "tidegate.dev/run/v1";

/// What was done about an ApplicationSet as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunKind {
    /// Its Applications were brought to a set of targets, step after step.
    Rollout,
    /// Applications of it were deleted, in their order or all at once, or let go.
    Deletion,
}

impl RunKind {
    /// As a list has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Deletion => "deletion",
        }
    }
}

/// One rollout or deletion of an ApplicationSet, in one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunLine {
    /// Its id.
    pub id: StreamId,
    /// Which of the two it is.
    pub kind: RunKind,
    /// The ApplicationSet: `namespace/name`. It may be gone by now. `None` where even that is lost, as with all that may be
    /// absent here.
    pub set: Option<String>,
    /// How it ended; `None` until it is over. Of a rollout `Completed`, `Failed`, `RolledBack`, `Superseded`, `Terminated` or
    /// `Error`; of a deletion `Completed`, `Failed`, `Terminated` or `Error`.
    pub end: Option<String>,
    /// A person holds it.
    pub paused: bool,
    /// How it stands, or why it ended so.
    pub message: String,
    /// Where the line is lost: what the id says.
    pub started_at: Timestamp,
    /// `None` until it is over.
    pub finished_at: Option<Timestamp>,
    /// Who has asked for it; `None` where that is not known, as of what an earlier program recorded.
    pub by: Option<String>,
    /// Why; `None` where nobody has said so.
    pub reason: Option<String>,
    /// Of a rollout: what tells its targets from others of the set.
    pub targets: Option<Digest>,
    /// Of a rollout: what the Applications in its steps are brought to, each revision once; of many the first few.
    pub revisions: Vec<String>,
    /// Of a rollout: steps that are done.
    pub steps_passed: Option<u32>,
    /// Of a rollout: steps in all.
    pub steps: Option<u32>,
    /// Applications that are Healthy; or gone, or let go.
    pub done: u32,
    /// Of a rollout: Applications that a person went on without, which are none of those that are done. `None` of a deletion,
    /// and where an earlier program has counted them among these.
    pub skipped: Option<u32>,
    /// Applications that its steps are about.
    pub applications: u32,
    /// What is damaged of it.
    pub damage: Option<String>,
}

/// How a rollout or a deletion stands, or how it has ended, and who has decided what meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunDocument {
    /// Its line.
    #[serde(flatten)]
    pub line: RunLine,
    /// A rollout step by step, with all of its Applications. Neither this nor `deletion` is there where its details were compacted,
    /// or cannot be read.
    pub rollout: Option<RolloutView>,
    /// A deletion step by step, with all of its Applications.
    pub deletion: Option<TeardownView>,
    /// What it waits for; `None` once it is over.
    pub explanation: Option<fleet::Explanation>,
    /// What people approved, skipped, tried again, held, let go on and ended: who, when, and why.
    pub decisions: Vec<RunFact>,
    /// What it waited for, from when to when.
    pub waits: Vec<WaitSpan>,
    /// How many of the oldest facts are not kept any more.
    pub compacted: u64,
}

/// A rollout or a deletion, and everything that was recorded about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// How it stands.
    pub run: RunDocument,
    /// What was recorded, in order.
    pub facts: Vec<RunFact>,
}

/// The record of a rollout or a deletion, for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunRecord")]
pub struct RunRecord<'a> {
    /// `tidegate.dev/run/v1`.
    record: &'static str,
    /// When it was written.
    exported_at: Timestamp,
    /// The version of Tidegate that has written it.
    tidegate_version: &'static str,
    /// How it stands, as `appset show-run` prints it.
    run: &'a RunDocument,
    /// Everything that was recorded.
    facts: &'a Vec<RunFact>,
}

impl RunDocument {
    /// Whether nothing but its line is left, since it is older than what is kept.
    pub fn is_compacted(&self) -> bool {
        self.rollout.is_none() && self.deletion.is_none() && self.line.damage.is_none()
    }
}

impl Run {
    /// For programs.
    pub fn record(&self, at: Timestamp) -> RunRecord<'_> {
        let Self { run, facts } = self;
        RunRecord { record: RECORD, exported_at: at, tidegate_version: env!("CARGO_PKG_VERSION"), run, facts }
    }

    /// For people: a page of HTML without scripts and links, which asks nobody for anything.
    pub fn page(&self, at: Timestamp) -> String {
        page::of(self, at)
    }
}

fn word(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Who has asked, and why, of what the log has as one text.
fn asker(recorded: &str) -> (Option<String>, Option<String>) {
    let asker = Wisher::read(recorded);
    (word(asker.by.to_owned()), asker.why())
}

impl RunLine {
    /// Of a rollout, as the log lists it.
    pub fn of_rollout(entry: EntryOf<progressive::Fact>) -> Self {
        let summary = entry.summary;
        let progressive::Details { targets, end, paused, message, steps, members, by, revisions, skipped } =
            summary.details;
        let (by, reason) = asker(&by);
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
            skipped,
            applications: members.1,
            damage: None,
        }
    }

    /// Of a deletion, as the log lists it.
    pub fn of_deletion(entry: EntryOf<teardown::Fact>) -> Self {
        let summary = entry.summary;
        let teardown::Details { end, paused, message, members, by } = summary.details;
        let (by, reason) = asker(&by);
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

    /// With who asked, and why, as the record has it, where the line does not say.
    fn or_asked_by(self, recorded: Option<(&String, &Option<String>)>) -> Self {
        match recorded {
            Some((by, reason)) if self.by.is_none() => {
                Self { by: Some(by.clone()), reason: reason.clone(), ..self }
            }
            _ => self,
        }
    }

    /// How many of its Applications are done: `11 of 12`, and where some were skipped `11 of 12, 1 skipped`.
    pub fn progress(&self) -> String {
        self.counted("")
    }

    /// The same with what those are that are done: `11 of 12 Healthy, 1 skipped`.
    fn counted(&self, what: &str) -> String {
        let Self { done, applications, .. } = self;
        let skipped = self.skipped.filter(|skipped| *skipped > 0);
        let skipped = skipped.map(|skipped| format!(", {skipped} skipped")).unwrap_or_default();
        format!("{done} of {applications}{what}{skipped}")
    }
}

impl Run {
    /// What these facts tell of a rollout; `first` is the number of the first of them, and `state` the fold over all there were.
    /// How an operation that was stopped has ended, where that is known, says `end_of`.
    pub fn of_rollout(
        line: RunLine,
        (first, facts): (u64, &[progressive::Fact]),
        state: &progressive::State,
        now: Timestamp,
        end_of: impl Fn(OperationId) -> Option<(OperationPhase, String)>,
    ) -> Self {
        let told = rollout::documents(first, facts);
        let mut rollout = progressive::view(state);
        // Where all facts are kept, they say how far those were that have left the set.
        if let (1, Some(view), Ok(left)) = (first, rollout.as_mut(), progressive::left(facts)) {
            view.left = left;
        }
        if let Some(view) = &mut rollout {
            operations::tell(view, facts, end_of);
        }
        let line = line.or_asked_by(rollout.as_ref().map(|view| (&view.by, &view.reason)));
        let run = RunDocument {
            explanation: (!state.is_finished()).then(|| progressive::explain(state, now)),
            decisions: decisions(&told),
            waits: rollout::waits(facts),
            compacted: first.saturating_sub(1),
            line,
            rollout,
            deletion: None,
        };
        Self { run, facts: told }
    }

    /// The same of a deletion.
    pub fn of_deletion(
        line: RunLine,
        (first, facts): (u64, &[teardown::Fact]),
        state: &teardown::State,
        now: Timestamp,
    ) -> Self {
        let order = state.teardown().map(|teardown| teardown.order.clone()).unwrap_or_default();
        let told = deletion::documents(first, facts, &order);
        let deletion = teardown::view(state);
        let line = line.or_asked_by(deletion.as_ref().map(|view| (&view.by, &view.reason)));
        let run = RunDocument {
            explanation: (!state.is_finished()).then(|| teardown::explain(state, now)),
            decisions: decisions(&told),
            waits: deletion::waits(facts),
            compacted: first.saturating_sub(1),
            line,
            rollout: None,
            deletion,
        };
        Self { run, facts: told }
    }

    /// One of which nothing but its line is left, or can be read.
    pub fn of_line(line: RunLine, compacted: u64) -> Self {
        let run = RunDocument {
            line,
            rollout: None,
            deletion: None,
            explanation: None,
            decisions: Vec::new(),
            waits: Vec::new(),
            compacted,
        };
        Self { run, facts: Vec::new() }
    }
}

/// What people said. Who asked for it is in its line.
fn decisions(facts: &[RunFact]) -> Vec<RunFact> {
    facts.iter().filter(|fact| fact.by.is_some() && fact.kind != facts::BEGUN).cloned().collect()
}

#[cfg(test)]
mod tests;
