//! The claim of an operation: that it alone works on its application.
//!
//! The operation takes it before it plans. Whoever holds it hears what becomes of it; who it belongs to is decided by the
//! Lease in the cluster, guarded there, and not here.

use serde::{Deserialize, Serialize};
use tidegate_model::{ClaimHolder, ClaimPlace, ClaimRequest, IfTaken, OperationPhase, Timestamp};

use super::decide::{Again, call_again};
use super::fact::Fact;
use super::follow::{self, ending};
use super::input::CallError;
use super::messages;
use super::state::{Header, Operation};

/// What is known of the claim of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    /// The operation has it.
    Held {
        /// Where it is kept.
        place: ClaimPlace,
        /// How many holders it has had, this one included.
        epoch: u64,
        /// Since when.
        since: Timestamp,
    },
    /// Another operation has it.
    Taken {
        /// Which.
        holder: ClaimHolder,
        /// Since when this one waits for it.
        since: Timestamp,
    },
    /// None can be had here; the operation goes on without.
    Without {
        /// Why.
        reason: String,
    },
    /// Another operation has taken it.
    Lost {
        /// Which; `None` when that one is over as well.
        holder: Option<ClaimHolder>,
    },
}

/// What became of a claim. Appended to only, because facts hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimNews {
    /// The operation has it.
    Held {
        /// Where it is kept.
        place: ClaimPlace,
        /// How many holders it has had, this one included.
        epoch: u64,
    },
    /// Another operation has it.
    Taken {
        /// Which.
        holder: ClaimHolder,
        /// It is at work: it was seen to renew its claim. Otherwise it may be dead, and its claim run out.
        at_work: bool,
    },
    /// None can be had here.
    Without {
        /// Why.
        reason: String,
    },
    /// It ran out while nobody renewed it, and another operation has taken it.
    Lost {
        /// Which; `None` when that one is over as well.
        holder: Option<ClaimHolder>,
    },
    /// Another operation asks this one to end.
    EndWanted {
        /// Which.
        by: ClaimHolder,
    },
}

/// Begins the reason of an operation that has no claim since its namespace is being deleted. Rights would not help it.
const NAMESPACE_GOES: &str = "the namespace of its Lease is being deleted";

/// Stands behind the Lease that an operation goes on without, and before why.
const NOT_RENEWED: &str = " cannot be renewed: ";

impl ClaimNews {
    /// The operation has had it there, and may not renew it; with the cluster's words.
    pub fn not_renewed(place: &ClaimPlace, message: &str) -> Self {
        Self::Without { reason: format!("{place}{NOT_RENEWED}{message}") }
    }

    /// None can be had, because the namespace that it is kept in is being deleted; with the cluster's words.
    pub fn namespace_goes(message: &str) -> Self {
        Self::Without { reason: format!("{NAMESPACE_GOES}: {message}") }
    }
}

/// The Lease that an operation without a claim has had, as [`ClaimNews::not_renewed`] says it. Somebody else may take it.
fn had(reason: &str) -> Option<ClaimPlace> {
    let (lease, _) = reason.split_once(NOT_RENEWED)?;
    let (namespace, name) = lease.strip_prefix("Lease ")?.split_once('/')?;
    Some(ClaimPlace { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// What an operation that has no claim warns of.
pub(super) fn no_claim(reason: &str) -> String {
    let advice = if reason.starts_with(NAMESPACE_GOES) {
        "sync again when it is gone"
    } else {
        "give the rights for Leases (see docs/real-clusters.md), or switch the claim off with --no-claim"
    };
    format!(
        "the operation runs without a claim on its application, so another one may run at the same time: {reason}; {advice}"
    )
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

    /// What ends a planned operation that has lost its claim: somebody else's work has begun since, and what was planned
    /// is of the past.
    pub(super) fn lost_claim(&self) -> Option<String> {
        match self.claim.as_deref() {
            Some(Claim::Lost { holder }) => Some(messages::claim_lost(self, holder.as_ref())),
            _ => None,
        }
    }

    fn goes_on_without(&self, why: &str) -> bool {
        matches!(self.claim.as_deref(), Some(Claim::Without { reason }) if reason == why)
    }

    /// Whether the newest call before the plan has failed.
    fn is_troubled(&self) -> bool {
        self.calls.failed > 0 || self.outage.is_some()
    }

    fn holds(&self, other: &ClaimPlace, number: u64) -> bool {
        self.held_claim().is_some_and(|(place, epoch)| place == other && epoch == number)
    }
}

/// News before the operation was planned: it has written nothing.
pub(super) fn before_plan(header: &Header, news: &ClaimNews, now: Timestamp) -> Vec<Fact> {
    let fact = Fact::Claim { news: news.clone(), at: now };
    if let ClaimNews::EndWanted { by } = news {
        let end = ending::at_once(OperationPhase::Failed, messages::superseded(by), now);
        return std::iter::once(fact).chain(end).collect();
    }
    let Some(request) = &header.request.claim else { return Vec::new() };
    match news {
        ClaimNews::Held { place, epoch } if header.holds(place, *epoch) => Vec::new(),
        ClaimNews::Without { reason } if header.goes_on_without(reason) => Vec::new(),
        ClaimNews::Held { .. } | ClaimNews::Without { .. } => vec![fact],
        ClaimNews::Taken { holder, at_work: true } if request.if_taken == IfTaken::Refuse => {
            let end = ending::at_once(OperationPhase::Error, messages::claim_refused(header, holder), now);
            std::iter::once(fact).chain(end).collect()
        }
        ClaimNews::Taken { holder, .. } => match header.claim.as_deref() {
            // That it was looked at again, after calls that failed, is news: those do not count any more.
            Some(Claim::Taken { holder: known, .. }) if known == holder && !header.is_troubled() => {
                Vec::new()
            }
            _ => vec![fact],
        },
        // Nothing was written under it: it is taken anew.
        ClaimNews::Lost { .. } | ClaimNews::EndWanted { .. } => vec![fact],
    }
}

/// The claim could not be asked for.
pub(super) fn not_answered(header: &Header, error: &CallError, now: Timestamp) -> Vec<Fact> {
    match call_again(header, Some(&header.calls), error, true, now) {
        Some(Again { retry_at, outage }) => {
            vec![Fact::CallFailed { task: None, message: error.message.clone(), retry_at, at: now, outage }]
        }
        None => {
            let message = format!("failed to take the claim: {}", error.message);
            ending::at_once(OperationPhase::Error, message, now)
        }
    }
}

/// News about a planned operation.
pub(super) fn news(operation: &Operation, news: &ClaimNews, now: Timestamp) -> Vec<Fact> {
    let fact = Fact::Claim { news: news.clone(), at: now };
    let header = &operation.header;
    match news {
        ClaimNews::EndWanted { .. } if operation.is_ending() => Vec::new(),
        ClaimNews::EndWanted { .. } => vec![fact, follow::to_its_end(now)],
        _ if header.claims().is_none() => Vec::new(),
        ClaimNews::Held { place, epoch } if header.holds(place, *epoch) => Vec::new(),
        ClaimNews::Without { reason } if header.goes_on_without(reason) => Vec::new(),
        ClaimNews::Held { .. } | ClaimNews::Without { .. } => vec![fact],
        ClaimNews::Lost { .. } => vec![fact],
        // Only an operation that has not begun waits.
        ClaimNews::Taken { .. } => Vec::new(),
    }
}

/// What a fact makes of what is known of the claim.
pub(super) fn evolve(header: &mut Header, news: &ClaimNews, at: Timestamp) -> Option<()> {
    if matches!(news, ClaimNews::EndWanted { .. }) {
        // Whoever supersedes it in the same engine needs no claim for that.
        return Some(());
    }
    header.request.claim.as_ref()?;
    let claim = match news {
        ClaimNews::Held { place, epoch } => Claim::Held { place: place.clone(), epoch: *epoch, since: at },
        ClaimNews::Taken { holder, .. } => {
            let since = match header.claim.as_deref() {
                Some(Claim::Taken { since, .. }) => *since,
                _ => at,
            };
            Claim::Taken { holder: holder.clone(), since }
        }
        ClaimNews::Without { reason } => Claim::Without { reason: reason.clone() },
        ClaimNews::Lost { holder } => Claim::Lost { holder: holder.clone() },
        ClaimNews::EndWanted { .. } => return Some(()),
    };
    header.claim = Some(Box::new(claim));
    Some(())
}
