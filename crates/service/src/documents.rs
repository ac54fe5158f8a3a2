//! Operations as documents: what `-o json` prints and what tidegate processes tell each other. The field names are a
//! stable interface, documented in `docs/cli.md`.

pub mod deletion;
pub mod differences;
pub mod events;
pub mod facts;
pub mod filter;
pub mod output;
pub mod plan;
pub mod record;
pub mod runs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::{Awaited, Explanation, OperationView, TRYING_AGAIN};
use tidegate_model::{OperationId, OperationPhase, Timestamp, Wisher};

use crate::operations::{self, Listed};

/// Why an operation is where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationDocument {
    /// The operation.
    pub id: OperationId,
    /// The application it belongs to.
    pub app: String,
    /// Running, or how it ended.
    pub phase: OperationPhase,
    /// It only tries what it would do; absent where it is no dry run, as in the operation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The whole answer as one sentence.
    pub summary: String,
    /// The stage: `wave 2 of 5 (Sync, wave 1)`.
    pub position: String,
    /// What goes on there: `3 of 14 healthy`; may be empty.
    pub progress: String,
    /// The longest wait first.
    pub awaited: Vec<Awaited>,
    /// Seconds until the nearest deadline; `None` without one.
    pub deadline_in_seconds: Option<u64>,
    /// Seconds since that deadline; `None` while there is time left.
    pub deadline_passed_seconds: Option<u64>,
    /// Since when the cluster does not answer, and why.
    pub trouble: Option<String>,
    /// Who holds it, since when and why.
    pub paused: Option<String>,
    /// The health rules it is judged by, by the first digits of their digest; `None` until it is planned.
    #[serde(default)]
    pub health_rules: Option<String>,
    /// When and from which the health rules changed; `None` where they did not while it ran.
    #[serde(default)]
    pub rules_changed: Option<String>,
    /// The kept plan that it carries out, by the first digits of its hash, and who has approved it; `None` where it made its own.
    #[serde(default)]
    pub plan: Option<String>,
    /// What people decided about single tasks while it ran: who, why, and which.
    #[serde(default)]
    pub overridden: Vec<String>,
    /// The wave or attempt that follows.
    pub next: Option<String>,
    /// What is to follow it or to take its place, such as a newer revision, and what is in the way; `None` where nothing waits.
    #[serde(default)]
    pub waiting: Option<String>,
    /// The moment all this was true.
    pub at: Timestamp,
    /// Whether a process works on it; `None` where that cannot be told.
    pub at_work: Option<bool>,
}

/// An operation, and whether a process works on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationDocument<'a> {
    /// Its fields are those of the document.
    #[serde(flatten)]
    pub operation: &'a OperationView,
    /// What the containers of failed hooks wrote last, in every attempt; `None` where there was one, and where only how it stands is
    /// told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<Vec<record::AttemptLog>>,
    /// `None` where that cannot be told.
    pub at_work: Option<bool>,
}

/// One line of `ops list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SummaryDocument {
    /// The operation.
    pub id: OperationId,
    /// `None` where even that is lost, as with all that may be absent here.
    pub app: Option<String>,
    /// The cluster it was begun on, in words.
    pub destination: Option<String>,
    /// As it was recorded last.
    pub phase: Option<OperationPhase>,
    /// Nothing is written to the cluster; of what an earlier program began it is not known.
    #[serde(default)]
    pub dry_run: bool,
    /// A person holds it.
    pub paused: bool,
    /// Of an operation that is over: why it ended so.
    pub message: Option<String>,
    /// Where the summary is lost: what the id says.
    pub started_at: Timestamp,
    /// `None` until it is over.
    pub finished_at: Option<Timestamp>,
    /// The revision of its manifests; `None` where it is not known, as of what an earlier program began.
    #[serde(default)]
    pub revision: Option<String>,
    /// Who has asked for it; `None` where that is not known.
    #[serde(default)]
    pub initiated_by: Option<String>,
    /// Why; `None` where that was not said. Of a deletion, who has asked for it says that too.
    #[serde(default)]
    pub reason: Option<String>,
    /// In the newest attempt.
    pub waves_passed: u32,
    /// All waves of its plan; 0 before there is one.
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
            dry_run: operation.dry_run,
            summary,
            position: explanation.position,
            progress: explanation.progress,
            awaited: explanation.awaited,
            deadline_in_seconds: explanation.deadline_in_seconds,
            deadline_passed_seconds: explanation.deadline_passed_seconds,
            trouble: explanation.trouble,
            paused: explanation.paused,
            health_rules: operation.health_rules.as_ref().map(|rules| rules.digest.clone()),
            rules_changed: explanation.rules_changed,
            plan: explanation.plan,
            overridden: explanation.overridden,
            next: explanation.next,
            waiting: None,
            at: explanation.at,
            at_work,
        }
    }

    /// The same, while this waits for its end.
    #[must_use]
    pub fn while_waits(mut self, waiting: Option<String>) -> Self {
        if let Some(words) = &waiting {
            self.summary.push_str("; ");
            self.summary.push_str(words);
        }
        self.waiting = waiting;
        self
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
        let word = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let asker = known.map(|known| Wisher::of_operation(&known.initiated_by));
        Self {
            id: listed.operation,
            app: known.map(|known| known.application.clone()),
            destination: known.map(|known| known.destination.clone()),
            phase: known.map(|known| known.phase),
            dry_run: known.is_some_and(|known| known.dry_run),
            paused: known.is_some_and(|known| known.paused),
            message: known.map(|known| known.message.clone()),
            started_at: known.map_or_else(|| operations::made_at(listed.operation), |known| known.started_at),
            finished_at: known.and_then(|known| known.finished_at),
            revision: known.and_then(|known| word(&known.revision)),
            initiated_by: asker.and_then(|asker| word(asker.by)),
            reason: asker.and_then(|asker| word(asker.reason)),
            waves_passed,
            waves,
            damage: listed.damage.clone(),
            unknown_kind: listed.unknown_kind.clone(),
            at_work: listed.at_work,
        }
    }
}
