use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// How well an object does, best first. The order is Argo CD's: the worst of several is their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HealthStatus {
    /// Works as it is declared to.
    Healthy,
    /// Stopped on purpose, and waits to be let go on.
    Suspended,
    /// On its way, and may still become healthy.
    Progressing,
    /// Not in the cluster.
    Missing,
    /// Failed, or does not get where it should.
    Degraded,
    /// Could not be judged.
    Unknown,
}

/// Health of one object, with the reason in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// How well it does, in one word.
    pub status: HealthStatus,
    /// Why; may be empty.
    pub message: String,
}

impl Health {
    /// A verdict with its reason.
    pub fn new(status: HealthStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

/// How an object's status proves that it speaks about the spec we wrote, and not an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Evidence {
    /// The status names the generation it was computed from.
    ObservedGeneration(i64),
    /// The status belongs to this very object (Job and Pod conditions, bound volumes): a newer UID is proof enough.
    Identity,
    /// The kind has no health, or offers no proof; only time can settle it.
    None,
}

/// What was seen of one object at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// When it was seen.
    pub at: Timestamp,
    /// The object as it was then, or that it was not there.
    pub seen: Observed,
}

/// The content of an observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observed {
    /// The object is there.
    Present {
        /// `metadata.uid`.
        uid: String,
        /// `metadata.resourceVersion`, an opaque text; compared as a number where both sides are numbers.
        resource_version: String,
        /// `metadata.generation`, 0 where the kind has none.
        generation: i64,
        /// Whether `metadata.deletionTimestamp` is set.
        deleting: bool,
        /// What keeps an object that is being deleted, in words that follow "waits for"; empty where nobody knows.
        kept_by: String,
        /// Health, `None` when the kind has no health rule.
        health: Option<Health>,
        /// The rule for the kind failed; the health is then Unknown, and its message says why.
        unjudged: bool,
        /// What proves that the health is about the newest spec.
        evidence: Evidence,
    },
    /// The object is not there; `uid` names the one that went, when it is known.
    Gone {
        /// `metadata.uid` of the object that was deleted.
        uid: Option<String>,
    },
}

impl Observed {
    /// The same with another verdict. `is_failure`: the rule failed, and the verdict says why.
    #[must_use]
    pub fn judged(mut self, verdict: Health, is_failure: bool) -> Self {
        if let Self::Present { health, unjudged, .. } = &mut self {
            (*health, *unjudged) = (Some(verdict), is_failure);
        }
        self
    }
}
