//! Requester of a deletion, and the reason. They are stored in an annotation, because Kubernetes only records
//! when something was deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{ObjectMeta, Time};
use tidegate_model::{Requester, normalize_reason};

/// Maximum length of a stored name in characters.
const NAME_MAX: usize = 256;
/// Maximum difference between the times of the annotation and of the deletion. If it is larger, the
/// annotation is left over from an earlier, failed attempt.
const SAME_DELETION_MAX: Duration = Duration::from_secs(600);

/// The user who deleted an Application or ApplicationSet through a command, the API or the web page, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionRequester {
    by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    /// The deleted ApplicationSet. Empty if the Application itself was deleted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    set: String,
    /// True if the deletion doesn't run hooks.
    #[serde(default, rename = "noHooks", skip_serializing_if = "std::ops::Not::not")]
    no_hooks: bool,
    at: Time,
}

impl DeletionRequester {
    /// Creates a requester. Returns `None` if the name is unknown.
    pub fn new(by: &str, reason: &str, at: Time) -> Option<Self> {
        Self::with_hooks(by, reason, false, at)
    }

    /// Creates the requester of a deletion with or without hooks. Returns `None` if there is nothing to
    /// record: the name is unknown and the hooks run.
    pub fn with_hooks(by: &str, reason: &str, no_hooks: bool, at: Time) -> Option<Self> {
        let all = Self { by: by.to_owned(), reason: reason.to_owned(), set: String::new(), no_hooks, at };
        all.with_limits()
    }

    /// Returns true if the deletion skips its hooks.
    pub fn skips_hooks(&self) -> bool {
        self.no_hooks
    }

    /// Reads the requester from the metadata of a resource that is being deleted.
    pub fn from_metadata(metadata: &ObjectMeta) -> Option<Self> {
        let deleted_at = metadata.deletion_timestamp?.timestamp();
        let found: Self = serde_json::from_str(metadata.annotations.get(DELETION_REQUESTED_BY)?).ok()?;
        let at = found.at.timestamp();
        let apart = if at > deleted_at { at.since(deleted_at) } else { deleted_at.since(at) };
        found.with_limits().filter(|_| apart <= SAME_DELETION_MAX)
    }

    /// Returns the requester for an Application that is deleted along with its ApplicationSet at the given
    /// time.
    #[must_use]
    pub fn for_member_of(&self, set: &str, at: Time) -> Self {
        Self { set: truncate_line(set, NAME_MAX), at, ..self.clone() }
    }

    /// Returns the name and the reason as the log stores them for ordered deletions.
    pub fn to_log_text(&self) -> String {
        Requester { name: &self.by, reason: &self.reason }.to_text()
    }

    /// Adds the annotation to a resource that is about to be deleted.
    pub fn annotate(&self, annotations: &mut BTreeMap<String, String>) {
        if let Ok(text) = serde_json::to_string(self) {
            annotations.insert(DELETION_REQUESTED_BY.to_owned(), text);
        }
    }

    /// Returns the text for the log, such as `ann, by the deletion of shops (moved to another cluster)`.
    pub(super) fn describe(&self) -> String {
        let Self { by, reason, set, .. } = self;
        if by.is_empty() {
            return String::new();
        }
        let what = if set.is_empty() { "the application" } else { set };
        let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        format!("{by}{}{what}{why}", Requester::DELETION_SEPARATOR)
    }

    fn with_limits(self) -> Option<Self> {
        let Self { by, reason, set, no_hooks, at } = self;
        let (by, set) = (truncate_line(&by, NAME_MAX), truncate_line(&set, NAME_MAX));
        let reason = normalize_reason(&reason);
        (!by.is_empty() || no_hooks).then_some(Self { by, reason, set, no_hooks, at })
    }
}

/// Turns a string into a single line of at most `most` characters.
fn truncate_line(text: &str, most: usize) -> String {
    normalize_reason(text).chars().take(most).collect()
}
