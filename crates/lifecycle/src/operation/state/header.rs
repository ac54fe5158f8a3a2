//! Parts of an operation's state that exist before the operation is planned.

use serde::{Deserialize, Serialize};
use tidegate_model::{
    ClaimLocation, ClaimRequest, Digest, OperationId, StoredPlanRef, SyncRequest, Timestamp,
};

use super::claim::{Claim, parse_former_lease};
use super::health_rules::ActiveHealthRules;
use super::task::CallFailures;

/// Parts of an operation's state that exist from the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// ID of the operation and of its stream in the log.
    pub operation: OperationId,
    /// The request: application, destination, options and limits.
    pub request: SyncRequest,
    /// Digest of the stored manifests, as submitted.
    pub targets: Digest,
    /// Time the operation was accepted: `startedAt`.
    pub started_at: Timestamp,
    /// Time from which the operation's deadline is measured: the start of the operation, postponed by the
    /// length of pauses.
    pub deadline_from: Timestamp,
    /// Pause by a user, if the operation is paused.
    pub paused: Option<Pause>,
    /// Failed calls before the operation is planned.
    pub calls: CallFailures,
    /// Current outage of the cluster, if any.
    pub outage: Option<Box<Outage>>,
    /// Current failure of watches, if any. Observations are delayed while watches fail.
    pub blind: Option<Box<Outage>>,
    /// Number of the attempt that created the newest plan, starting at 1.
    pub attempt: u32,
    /// Last known state of the operation's claim.
    pub claim: Option<Box<Claim>>,
    /// Health rules in use. `None` until the operation is planned.
    pub health_rules: Option<Box<ActiveHealthRules>>,
    /// Stored plan that the operation executes. `None` if the operation creates its own plan.
    pub plan: Option<Box<StoredPlanRef>>,
}

/// Start and cause of an outage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// Time of the first unanswered call or, for watches, of their first failure.
    pub since: Timestamp,
    /// Message from the cluster or the connection.
    pub message: String,
    /// Number of attempts to reach the cluster.
    pub tried: u32,
    /// Time of the next attempt.
    pub retry_at: Timestamp,
}

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Name of the user, as provided by the caller.
    pub by: String,
    /// Reason. May be empty.
    pub reason: String,
    /// Start of the pause, which doesn't count toward deadlines.
    pub at: Timestamp,
}

impl Header {
    /// Returns true if the state of the claim allows the operation to plan and write.
    pub fn can_begin(&self) -> bool {
        let settled = matches!(self.claim.as_deref(), Some(Claim::Held { .. } | Claim::Without { .. }));
        self.request.claim.is_none() || settled
    }

    /// Returns the claim to request or hold, or `None` if it is unavailable or was lost.
    pub fn claim_request(&self) -> Option<&ClaimRequest> {
        let is_off = match self.claim.as_deref() {
            Some(Claim::Without { .. }) => self.last_claim().is_none(),
            Some(Claim::Lost { .. }) => true,
            _ => false,
        };
        self.request.claim.as_ref().filter(|_| !is_off)
    }

    /// Returns the claim's Lease and the number of its holders so far, or `None` if the operation doesn't hold
    /// the claim.
    pub fn held_claim(&self) -> Option<(&ClaimLocation, u64)> {
        match self.claim.as_deref() {
            Some(Claim::Held { place, epoch, .. }) => Some((place, *epoch)),
            _ => None,
        }
    }

    /// Returns the Lease of the claim that the operation holds, or that it held before it continued without a
    /// claim.
    pub fn last_claim(&self) -> Option<ClaimLocation> {
        match self.claim.as_deref() {
            Some(Claim::Held { place, .. }) => Some(place.clone()),
            Some(Claim::Without { reason }) => parse_former_lease(reason),
            _ => None,
        }
    }

    pub(in crate::operation) fn is_without_claim_because(&self, why: &str) -> bool {
        matches!(self.claim.as_deref(), Some(Claim::Without { reason }) if reason == why)
    }

    /// Returns true if the most recent call failed. Used only for an operation that isn't planned yet.
    pub(in crate::operation) fn has_failing_call(&self) -> bool {
        self.calls.failed > 0 || self.outage.is_some()
    }

    pub(in crate::operation) fn has_claim(&self, other: &ClaimLocation, number: u64) -> bool {
        self.held_claim().is_some_and(|(place, epoch)| place == other && epoch == number)
    }
}
