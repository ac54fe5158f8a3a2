//! What is known of an operation before its plan is.

use serde::{Deserialize, Serialize};
use tidegate_model::{ClaimPlace, ClaimRequest, Digest, OperationId, SyncRequest, TakenPlan, Timestamp};

use super::claim::{Claim, had};
use super::health_rules::JudgedBy;
use super::task::Calls;

/// What is known of an operation from the beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Its id, which is the id of its stream in the log too.
    pub operation: OperationId,
    /// Which application, to where, with which options and limits.
    pub request: SyncRequest,
    /// Digest under which the log keeps the manifests that were handed over.
    pub targets: Digest,
    /// When it was accepted: `startedAt`.
    pub started_at: Timestamp,
    /// The operation's deadline counts from here: the start, moved by the time it was paused.
    pub deadline_from: Timestamp,
    /// Held by a person.
    pub paused: Option<Pause>,
    /// Failed calls while planning.
    pub calls: Calls,
    /// The cluster does not answer.
    pub outage: Option<Box<Outage>>,
    /// Watches fail: news of the cluster is late.
    pub blind: Option<Box<Outage>>,
    /// The attempt that its newest plan is for, from 1. A plan that is not valid is made anew by the next attempt.
    pub attempt: u32,
    /// What is known of its claim.
    pub claim: Option<Box<Claim>>,
    /// The health rules it is judged by; `None` until it is planned.
    pub health_rules: Option<Box<JudgedBy>>,
    /// The kept plan that it carries out, as it is or not at all; `None` where it makes its own.
    pub plan: Option<Box<TakenPlan>>,
}

/// Since when, and why, the cluster does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    /// When the first of the calls in a row was not answered; of watches, since when they fail.
    pub since: Timestamp,
    /// The cluster's words, or those of the connection.
    pub message: String,
    /// How often it was tried.
    pub tried: u32,
    /// When it is tried again.
    pub retry_at: Timestamp,
}

/// Who holds an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The person's name, as the caller gave it.
    pub by: String,
    /// The person's words; may be empty.
    pub reason: String,
    /// When it was paused: from here on deadlines stand still.
    pub at: Timestamp,
}

impl Header {
    /// Whether the operation may plan and write, as far as its claim is concerned.
    pub fn may_begin(&self) -> bool {
        let settled = matches!(self.claim.as_deref(), Some(Claim::Held { .. } | Claim::Without { .. }));
        self.request.claim.is_none() || settled
    }

    /// What is to be held, as long as there is something to hold, or was.
    pub fn claims(&self) -> Option<&ClaimRequest> {
        let is_off = match self.claim.as_deref() {
            Some(Claim::Without { .. }) => self.had_claim().is_none(),
            Some(Claim::Lost { .. }) => true,
            _ => false,
        };
        self.request.claim.as_ref().filter(|_| !is_off)
    }

    /// Where the claim is kept, and under which number, while the operation has it.
    pub fn held_claim(&self) -> Option<(&ClaimPlace, u64)> {
        match self.claim.as_deref() {
            Some(Claim::Held { place, epoch, .. }) => Some((place, *epoch)),
            _ => None,
        }
    }

    /// Where the claim is kept that the operation has, or has had and goes on without.
    pub fn had_claim(&self) -> Option<ClaimPlace> {
        match self.claim.as_deref() {
            Some(Claim::Held { place, .. }) => Some(place.clone()),
            Some(Claim::Without { reason }) => had(reason),
            _ => None,
        }
    }

    pub(in crate::operation) fn goes_on_without(&self, why: &str) -> bool {
        matches!(self.claim.as_deref(), Some(Claim::Without { reason }) if reason == why)
    }

    /// Whether the newest call before the plan has failed.
    pub(in crate::operation) fn is_troubled(&self) -> bool {
        self.calls.failed > 0 || self.outage.is_some()
    }

    pub(in crate::operation) fn holds(&self, other: &ClaimPlace, number: u64) -> bool {
        self.held_claim().is_some_and(|(place, epoch)| place == other && epoch == number)
    }
}
