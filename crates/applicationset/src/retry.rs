//! Requests to restart a finished rollout or deletion. The ApplicationSet keeps the requester and the reason
//! until the restart, so that the request survives a crash and the new run's record names the requester.

use serde::{Deserialize, Serialize};
use tidegate_model::argo::{ApplicationSet, Time};
use tidegate_model::{Requester, StreamId, Timestamp};

/// Annotation with the requester of a retry. Only the controller writes it.
pub const RETRY_ANNOTATION: &str = "tidegate.dev/retry-requested-by";

/// Annotations of a retry request.
pub const ANNOTATIONS: [&str; 1] = [RETRY_ANNOTATION];

/// Request to restart a finished rollout or deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryAnnotation {
    by: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    at: Time,
    /// The ApplicationSet's newest rollout or deletion at the time of the request.
    #[serde(default)]
    after: Option<StreamId>,
}

impl RetryAnnotation {
    /// Creates a request. `after` is the ApplicationSet's newest rollout or deletion.
    pub fn new(by: &str, reason: &str, at: Time, after: Option<StreamId>) -> Self {
        Self { by: by.to_owned(), reason: reason.to_owned(), at, after }
    }

    /// Returns the ApplicationSet's request if no newer rollout or deletion has started since.
    pub fn from_appset(set: &ApplicationSet, newest: Option<StreamId>) -> Option<Self> {
        let found: Self = serde_json::from_str(set.metadata.annotations.get(RETRY_ANNOTATION)?).ok()?;
        (found.after == newest && !found.by.is_empty()).then_some(found)
    }

    /// Returns the requester and the reason.
    pub fn requester(&self) -> Requester<'_> {
        Requester { name: &self.by, reason: &self.reason }
    }

    /// Returns the time of the request.
    pub fn requested_at(&self) -> Timestamp {
        self.at.timestamp()
    }

    /// Returns the requester and the reason as the log stores them.
    pub fn requester_text(&self) -> String {
        self.requester().to_text()
    }

    /// Returns the ApplicationSet with this request.
    #[must_use]
    pub fn write_to(&self, set: &ApplicationSet) -> ApplicationSet {
        let mut set = set.clone();
        if let Ok(text) = serde_json::to_string(self) {
            set.metadata.annotations.insert(RETRY_ANNOTATION.to_owned(), text);
        }
        set
    }
}

/// Removes the request from the ApplicationSet, after the restart or because there is nothing to restart.
/// Returns `None` if there is no request.
pub fn without_retry(set: &ApplicationSet) -> Option<ApplicationSet> {
    set.metadata.annotations.contains_key(RETRY_ANNOTATION).then(|| {
        let mut without = set.clone();
        without.metadata.annotations.remove(RETRY_ANNOTATION);
        without
    })
}

/// Copies the request to an ApplicationSet that was reread from its file.
pub fn carry_over_retry(known: &ApplicationSet, read: &mut ApplicationSet) {
    if let Some(value) = known.metadata.annotations.get(RETRY_ANNOTATION) {
        read.metadata.annotations.insert(RETRY_ANNOTATION.to_owned(), value.clone());
    }
}
