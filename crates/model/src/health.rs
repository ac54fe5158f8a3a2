use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Health of an object, from best to worst. As in Argo CD, a group of objects has the health of its least
/// healthy object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HealthStatus {
    /// The object works as declared.
    Healthy,
    /// The object was paused intentionally and is waiting to be resumed.
    Suspended,
    /// The object is not healthy yet but may become so.
    Progressing,
    /// The object doesn't exist in the cluster.
    Missing,
    /// The object has failed or isn't making progress.
    Degraded,
    /// The health cannot be determined.
    Unknown,
}

/// Health of an object, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Health status.
    pub status: HealthStatus,
    /// Reason for the status; may be empty.
    pub message: String,
}

impl Health {
    /// Creates a health from a status and its reason.
    pub fn new(status: HealthStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

/// Evidence that an object's status reflects the applied spec rather than an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Evidence {
    /// The status names the generation that it was computed from.
    ObservedGeneration(i64),
    /// The status belongs to this very object (Job and Pod conditions, bound volumes), so a new UID is
    /// sufficient evidence.
    Identity,
    /// The kind has no health status or offers no evidence, so the engine can only wait.
    None,
}

/// State of an object at a point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Time of the observation.
    pub at: Timestamp,
    /// The object's state at that time, or its absence.
    pub seen: ObservedState,
}

/// State of the object in an observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObservedState {
    /// The object exists.
    Present {
        /// `metadata.uid`.
        uid: String,
        /// `metadata.resourceVersion`, an opaque string. Two numeric versions are compared as numbers.
        resource_version: String,
        /// `metadata.generation`, or 0 for kinds without one.
        generation: i64,
        /// True if `metadata.deletionTimestamp` is set.
        deleting: bool,
        /// Reason the deletion isn't complete, as a phrase that follows "waits for". Empty if unknown.
        kept_by: String,
        /// Health of the object. `None` if its kind has no health rule.
        health: Option<Health>,
        /// True if the health rule failed. The health is then Unknown, with the error as its message.
        unjudged: bool,
        /// Evidence that the health reflects the newest spec.
        evidence: Evidence,
    },
    /// The object does not exist.
    Gone {
        /// `metadata.uid` of the deleted object, if known.
        uid: Option<String>,
    },
}

impl ObservedState {
    /// Sets the health. If the health rule failed, `is_failure` is true and `verdict` contains the error.
    #[must_use]
    pub fn with_health(mut self, verdict: Health, is_failure: bool) -> Self {
        if let Self::Present { health, unjudged, .. } = &mut self {
            (*health, *unjudged) = (Some(verdict), is_failure);
        }
        self
    }
}
