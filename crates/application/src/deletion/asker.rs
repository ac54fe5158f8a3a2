//! Who has asked for a deletion, and why: an annotation that is written with it, because a resource that is deleted says when
//! that was, and not by whom.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{ObjectMeta, Time};
use tidegate_model::{Wisher, reason_line};

/// So many characters of a name are kept.
const NAME_MAX: usize = 256;
/// An annotation that is so much older or newer than the deletion is of another one, which came to nothing.
const OF_ONE_DELETION: Duration = Duration::from_secs(600);

/// Who has asked for the deletion of an Application or an ApplicationSet by a command, the API or the page, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asker {
    by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    /// The ApplicationSet that was deleted; empty where it was the Application itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    set: String,
    at: Time,
}

impl Asker {
    /// Somebody asks for a deletion now. Nothing where it is not known who.
    pub fn new(by: &str, reason: &str, at: Time) -> Option<Self> {
        let all = Self { by: by.to_owned(), reason: reason.to_owned(), set: String::new(), at };
        all.bounded()
    }

    /// The one that the resource of something names that is being deleted.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let deleted_at = metadata.deletion_timestamp?.moment();
        let found: Self = serde_json::from_str(metadata.annotations.get(DELETION_REQUESTED_BY)?).ok()?;
        let at = found.at.moment();
        let apart = if at > deleted_at { at.since(deleted_at) } else { deleted_at.since(at) };
        found.bounded().filter(|_| apart <= OF_ONE_DELETION)
    }

    /// The same, for an Application that goes with this ApplicationSet, and now.
    #[must_use]
    pub fn with_set(&self, set: &str, at: Time) -> Self {
        Self { set: bounded(set, NAME_MAX), at, ..self.clone() }
    }

    /// Who and why, as the log of an ordered deletion has it.
    pub fn recorded(&self) -> String {
        Wisher { by: &self.by, reason: &self.reason }.text()
    }

    /// Writes it down in the annotations of what is deleted.
    pub fn annotate(&self, annotations: &mut BTreeMap<String, String>) {
        if let Ok(text) = serde_json::to_string(self) {
            annotations.insert(DELETION_REQUESTED_BY.to_owned(), text);
        }
    }

    /// As the log has it: `ann, by the deletion of shops (moved to another cluster)`.
    pub(super) fn words(&self) -> String {
        let Self { by, reason, set, .. } = self;
        let what = if set.is_empty() { "the application" } else { set };
        let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        format!("{by}{}{what}{why}", Wisher::BY_DELETION)
    }

    fn bounded(self) -> Option<Self> {
        let Self { by, reason, set, at } = self;
        let (by, set) = (bounded(&by, NAME_MAX), bounded(&set, NAME_MAX));
        let reason = reason_line(&reason);
        (!by.is_empty()).then_some(Self { by, reason, set, at })
    }
}

/// One line of so many characters.
fn bounded(text: &str, most: usize) -> String {
    reason_line(text).chars().take(most).collect()
}
