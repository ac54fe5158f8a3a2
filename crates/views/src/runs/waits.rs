//! Waits with their start and end times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_lifecycle::fleet::Attribution;
use tidegate_model::Timestamp;

/// A wait, with its subject and reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitSpan {
    /// Subject of the wait, such as `step 2`, `Application prod-cart`, or the whole run.
    pub subject: String,
    /// Reason for the wait.
    pub reason: String,
    /// Start time.
    pub since: Timestamp,
    /// End time. `None` if the wait hasn't ended.
    pub until: Option<Timestamp>,
}

/// All waits so far, with at most one open wait per key.
#[derive(Default)]
pub(super) struct WaitTracker {
    spans: Vec<(String, WaitSpan)>,
}

impl WaitTracker {
    /// Starts a wait.
    pub fn begin(&mut self, key: &str, what: &str, reason: String, since: Timestamp) {
        self.end(key, since);
        self.spans.push((key.to_owned(), WaitSpan { subject: what.to_owned(), reason, since, until: None }));
    }

    /// Updates the reason of an open wait.
    pub fn set_reason(&mut self, key: &str, reason: String) {
        if let Some(span) = self.open_wait(key) {
            span.reason = reason;
        }
    }

    pub fn end(&mut self, key: &str, at: Timestamp) {
        if let Some(span) = self.open_wait(key) {
            span.until = Some(at);
        }
    }

    pub fn end_all(&mut self, at: Timestamp) {
        let open = self.spans.iter_mut().filter(|(_, span)| span.until.is_none());
        open.for_each(|(_, span)| span.until = Some(at));
    }

    fn open_wait(&mut self, key: &str) -> Option<&mut WaitSpan> {
        let mut newest_first = self.spans.iter_mut().rev();
        newest_first.find(|(of, span)| of == key && span.until.is_none()).map(|(_, span)| span)
    }

    /// Returns the waits, ordered by start time.
    pub fn finish(self) -> Vec<WaitSpan> {
        self.spans.into_iter().map(|(_, span)| span).collect()
    }
}

/// Formats a pause, such as `paused by ann: lunch`.
pub(super) fn describe_hold(decision: &Attribution) -> String {
    super::run_events::with_reason(&format!("paused by {}", decision.by), &decision.why)
}

/// Formats a user and the reason, such as `ann (CHG-7)`.
pub(super) fn format_person(decision: &Attribution) -> String {
    if decision.why.is_empty() { decision.by.clone() } else { format!("{} ({})", decision.by, decision.why) }
}
