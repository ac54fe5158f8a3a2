use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Health of an object, best first. As in Argo CD, several objects together have the worst health among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HealthStatus {
    /// The object works as declared.
    Healthy,
    /// The object was paused intentionally and is waiting to be resumed.
    Suspended,
    /// The object is not healthy yet but may become so.
    Progressing,
    /// The object is not in the cluster.
    Missing,
    /// The object has failed or isn't making progress.
    Degraded,
    /// The health cannot be determined.
    Unknown,
}

/// Health of one object and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The health.
    pub status: HealthStatus,
    /// Reason for the status; may be empty.
    pub message: String,
}

impl Health {
    /// Creates a health with its reason.
    pub fn new(status: HealthStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

/// Evidence that an object's status reflects the applied spec, not an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Evidence {
    /// The status names the generation that it was computed from.
    ObservedGeneration(i64),
    /// The status belongs to this exact object (Job and Pod conditions, bound volumes), so a new UID is
    /// sufficient evidence.
    Identity,
    /// The kind has no health or offers no evidence, so only waiting helps.
    None,
}

/// State of one object at a point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Time of the observation.
    pub at: Timestamp,
    /// The object at that time, or the fact that it didn't exist.
    pub seen: ObservedState,
}

/// Content of an observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObservedState {
    /// The object exists.
    Present {
        /// `metadata.uid`.
        uid: String,
        /// `metadata.resourceVersion`, an opaque string. Two versions are compared as numbers if both are
        /// numbers.
        resource_version: String,
        /// `metadata.generation`, or 0 for kinds that don't have a generation.
        generation: i64,
        /// True if `metadata.deletionTimestamp` is set.
        deleting: bool,
        /// Reason why the deletion isn't complete, as a phrase that follows "waits for"; empty if unknown.
        kept_by: String,
        /// Health; `None` if the kind has no health rule.
        health: Option<Health>,
        /// True if the health rule failed. The health is then Unknown, and its message is the failure.
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
    /// Returns the observation with a different health. If the health rule failed, `is_failure` is true and
    /// `verdict` contains the reason.
    #[must_use]
    pub fn with_health(mut self, verdict: Health, is_failure: bool) -> Self {
        if let Self::Present { health, unjudged, .. } = &mut self {
            (*health, *unjudged) = (Some(verdict), is_failure);
        }
        self
    }
}
