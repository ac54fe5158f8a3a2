//! Recorded events of a rollout or deletion, for programs and human readers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_lifecycle::fleet::{Assignment, Attribution};
use tidegate_model::{Requester, Timestamp};

/// Kind of the first event.
pub(super) const STARTED_KIND: &str = "created";

/// A recorded event, with its position in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RecordedRunEvent")]
pub struct RunEvent {
    /// Sequence number of the event, starting at 1.
    pub sequence: u64,
    /// Kind of event, in one word.
    pub kind: String,
    /// Time of the event, if it was recorded.
    pub at: Option<Timestamp>,
    /// Human-readable description.
    pub text: String,
    /// Application to which the event applies.
    pub application: Option<String>,
    /// Number of the step to which the event applies, starting at 1 as in the strategy.
    pub step: Option<u32>,
    /// User who made the decision.
    pub by: Option<String>,
    /// Reason. `None` if no reason was given.
    pub reason: Option<String>,
    /// Additional details. Their fields depend on the kind of event.
    pub details: Value,
}

/// Builder for an event without a sequence number.
pub(super) struct RunEventBuilder {
    event: RunEvent,
}

impl RunEventBuilder {
    pub fn new(kind: &str, text: impl Into<String>) -> Self {
        Self {
            event: RunEvent {
                sequence: 0,
                kind: kind.to_owned(),
                at: None,
                text: text.into(),
                application: None,
                step: None,
                by: None,
                reason: None,
                details: json!({}),
            },
        }
    }

    /// Describes an event that applies to an Application. The text starts with the Application's name.
    pub fn for_application(kind: &str, name: &str, text: impl AsRef<str>) -> Self {
        let mut builder = Self::new(kind, format!("{name}: {}", text.as_ref()));
        builder.event.application = Some(name.to_owned());
        builder
    }

    /// Describes a user's decision, such as `ann skipped prod-cart: moved away`.
    pub fn for_decision(kind: &str, decision: &Attribution, what: impl AsRef<str>) -> Self {
        let text = format!("{} {}", decision.by, what.as_ref());
        let mut builder = Self::new(kind, with_reason(&text, &decision.why)).at(decision.at);
        builder.event.by = Some(decision.by.clone());
        builder.event.reason = super::non_empty_text(decision.why.clone());
        builder
    }

    pub fn at(mut self, at: Timestamp) -> Self {
        self.event.at = Some(at);
        self
    }

    /// Describes the start of a run. `by` is the requester and the reason, which the log stores as one
    /// string.
    pub fn for_start(by: &str, what: &str) -> Self {
        let requester = Requester::parse(by);
        let by = Some(requester.name.to_owned()).filter(|by| !by.is_empty());
        let who = by.as_ref().map(|_| format!(" by {}", requester.display())).unwrap_or_default();
        let mut builder = Self::new(STARTED_KIND, format!("started{who}: {what}"));
        (builder.event.by, builder.event.reason) = (by, requester.reason_text());
        builder
    }

    pub fn application(mut self, name: &str) -> Self {
        self.event.application = Some(name.to_owned());
        self
    }

    pub fn step(mut self, number: Option<u32>) -> Self {
        self.event.step = number;
        self
    }

    pub fn details(mut self, details: Value) -> Self {
        self.event.details = details;
        self
    }

    pub fn build(self, sequence: u64) -> RunEvent {
        RunEvent { sequence, ..self.event }
    }
}

/// Appends the reason, as in `ann approved step 2: CHG-7`.
pub(super) fn with_reason(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
}

/// Converts a step's index to its number.
pub(super) fn step_number(step: u32) -> u32 {
    step.saturating_add(1)
}

/// Returns the number of the step that an Application is assigned to. Ignores other steps that also select
/// it.
pub(super) fn assigned_step(place: &Assignment) -> Option<u32> {
    place.step.map(step_number)
}
