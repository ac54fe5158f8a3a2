//! What was waited for, from when to when.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_lifecycle::fleet::Said;
use tidegate_model::Timestamp;

/// Something that was waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitSpan {
    /// Who waited: `step 2`, `Application prod-cart`, or all of it.
    pub what: String,
    /// For what.
    pub why: String,
    /// From when.
    pub since: Timestamp,
    /// To when; `None` while it lasts.
    pub until: Option<Timestamp>,
}

/// The waits so far. Of those under one key, one lasts at a time.
#[derive(Default)]
pub(super) struct Course {
    spans: Vec<(String, WaitSpan)>,
}

impl Course {
    /// Somebody waits from here on.
    pub fn begin(&mut self, key: &str, what: &str, why: String, since: Timestamp) {
        self.end(key, since);
        self.spans.push((key.to_owned(), WaitSpan { what: what.to_owned(), why, since, until: None }));
    }

    /// More is known of what is waited for.
    pub fn because(&mut self, key: &str, why: String) {
        if let Some(span) = self.open(key) {
            span.why = why;
        }
    }

    pub fn end(&mut self, key: &str, at: Timestamp) {
        if let Some(span) = self.open(key) {
            span.until = Some(at);
        }
    }

    pub fn end_all(&mut self, at: Timestamp) {
        let open = self.spans.iter_mut().filter(|(_, span)| span.until.is_none());
        open.for_each(|(_, span)| span.until = Some(at));
    }

    fn open(&mut self, key: &str) -> Option<&mut WaitSpan> {
        let mut newest_first = self.spans.iter_mut().rev();
        newest_first.find(|(of, span)| of == key && span.until.is_none()).map(|(_, span)| span)
    }

    /// In the order in which they began.
    pub fn finish(self) -> Vec<WaitSpan> {
        self.spans.into_iter().map(|(_, span)| span).collect()
    }
}

/// `held by ann: lunch`.
pub(super) fn held(said: &Said) -> String {
    super::facts::because(&format!("held by {}", said.by), &said.why)
}

/// `ann (CHG-7)`.
pub(super) fn person(said: &Said) -> String {
    if said.why.is_empty() { said.by.clone() } else { format!("{} ({})", said.by, said.why) }
}
