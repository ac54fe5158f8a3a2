//! A rollout or a deletion that has ended is to be begun again, because a person asks for it: the set says so, with who and why,
//! until one was begun. So it is begun after a kill too, and its record names them.

use serde::{Deserialize, Serialize};
use tidegate_model::argo::{ApplicationSet, Time};
use tidegate_model::{StreamId, Timestamp, Wisher};

/// On a set: who wants what has ended to be begun again. Nobody writes it by hand.
pub const RETRY_ANNOTATION: &str = "tidegate.dev/retry-requested-by";

/// All that it consists of.
pub const ANNOTATIONS: [&str; 1] = [RETRY_ANNOTATION];

/// Who wants what has ended to be begun again, why, and since when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    at: Time,
    /// The newest rollout or deletion of the set then.
    #[serde(default)]
    after: Option<StreamId>,
}

impl Retry {
    /// Somebody asks for it now, after this rollout or deletion, the newest of the set.
    pub fn new(by: &str, reason: &str, at: Time, after: Option<StreamId>) -> Self {
        Self { by: by.to_owned(), reason: reason.to_owned(), at, after }
    }

    /// The one that a set names and that is to be begun still: none is newer than that after which it was asked for.
    pub fn of(set: &ApplicationSet, newest: Option<StreamId>) -> Option<Self> {
        let found: Self = serde_json::from_str(set.metadata.annotations.get(RETRY_ANNOTATION)?).ok()?;
        (found.after == newest && !found.by.is_empty()).then_some(found)
    }

    /// Who, and why.
    pub fn asker(&self) -> Wisher<'_> {
        Wisher { by: &self.by, reason: &self.reason }
    }

    /// Since when.
    pub fn at(&self) -> Timestamp {
        self.at.moment()
    }

    /// Who and why, as the log has it of what is begun.
    pub fn recorded(&self) -> String {
        self.asker().text()
    }

    /// The set, which says so.
    #[must_use]
    pub fn written(&self, set: &ApplicationSet) -> ApplicationSet {
        let mut set = set.clone();
        if let Ok(text) = serde_json::to_string(self) {
            set.metadata.annotations.insert(RETRY_ANNOTATION.to_owned(), text);
        }
        set
    }
}

/// The set without it, because it was begun or there is nothing to begin. `None` where it says nothing.
pub fn without(set: &ApplicationSet) -> Option<ApplicationSet> {
    set.metadata.annotations.contains_key(RETRY_ANNOTATION).then(|| {
        let mut without = set.clone();
        without.metadata.annotations.remove(RETRY_ANNOTATION);
        without
    })
}

/// What a set says of it goes on to one that was read anew from what its author wrote.
pub fn carried(known: &ApplicationSet, read: &mut ApplicationSet) {
    if let Some(value) = known.metadata.annotations.get(RETRY_ANNOTATION) {
        read.metadata.annotations.insert(RETRY_ANNOTATION.to_owned(), value.clone());
    }
}
