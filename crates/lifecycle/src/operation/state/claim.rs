//! An operation's claim: its exclusive right to work on an application.
//!
//! The operation acquires the claim before it plans, and is notified of changes while holding it. This state
//! may be stale: only the Lease in the cluster determines the holder.

use serde::{Deserialize, Serialize};
use tidegate_model::{ClaimHolder, ClaimLocation, Timestamp};

/// Last known state of an operation's claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    /// The operation holds the claim.
    Held {
        /// Location of the claim's Lease.
        place: ClaimLocation,
        /// Number of holders so far, including this operation.
        epoch: u64,
        /// Time the operation learned that it holds the claim.
        since: Timestamp,
    },
    /// Another operation holds the claim.
    Taken {
        /// The other operation, as recorded in the Lease.
        holder: ClaimHolder,
        /// Start of the wait.
        since: Timestamp,
    },
    /// No claim is available, so the operation continues without.
    Without {
        /// Reason, such as missing permissions for Leases, or a namespace that is being deleted.
        reason: String,
    },
    /// Another operation took the claim.
    Lost {
        /// The other operation, as recorded in the Lease. `None` if that operation has also finished.
        holder: Option<ClaimHolder>,
    },
}

/// Claim event. The type is append-only, because recorded events contain it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimEvent {
    /// The operation holds the claim.
    Held {
        /// Location of the claim's Lease.
        place: ClaimLocation,
        /// Number of holders so far, including this operation.
        epoch: u64,
    },
    /// Another operation holds the claim.
    Taken {
        /// The other operation, as recorded in the Lease.
        holder: ClaimHolder,
        /// True if this operation has observed the other operation renewing its claim. Otherwise, that
        /// operation may have crashed, and its claim may have expired.
        at_work: bool,
    },
    /// No claim is available.
    Without {
        /// Reason, such as missing permissions for Leases, or a namespace that is being deleted.
        reason: String,
    },
    /// The claim expired without being renewed, and another operation acquired it.
    Lost {
        /// The other operation, as recorded in the Lease. `None` if that operation has also finished.
        holder: Option<ClaimHolder>,
    },
    /// Another operation asks this operation to end.
    EndWanted {
        /// The superseding operation.
        by: ClaimHolder,
    },
}

/// Prefix of the reason if the Lease's namespace is being deleted. More permissions wouldn't help then.
const NAMESPACE_TERMINATING: &str = "the namespace of the claim's Lease is being deleted";

/// Separator between the Lease and the cluster's message in a [`ClaimEvent::not_renewed`] reason.
const NOT_RENEWED: &str = " cannot be renewed: ";

impl ClaimEvent {
    /// Creates the event for an operation that isn't allowed to renew its claim at `place`. `message` is the
    /// cluster's message.
    pub fn not_renewed(place: &ClaimLocation, message: &str) -> Self {
        Self::Without { reason: format!("{place}{NOT_RENEWED}{message}") }
    }

    /// Creates the event for an operation that can't acquire a claim because the Lease's namespace is being
    /// deleted. `message` is the cluster's message.
    pub fn namespace_terminating(message: &str) -> Self {
        Self::Without { reason: format!("{NAMESPACE_TERMINATING}: {message}") }
    }
}

/// Parses a [`ClaimEvent::not_renewed`] reason, and returns the Lease that the operation held. Another
/// operation may have acquired this Lease in the meantime.
pub(super) fn parse_former_lease(reason: &str) -> Option<ClaimLocation> {
    let (lease, _) = reason.split_once(NOT_RENEWED)?;
    let (namespace, name) = lease.strip_prefix("Lease ")?.split_once('/')?;
    Some(ClaimLocation { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// Returns the warning for an operation that runs without a claim.
pub(in crate::operation) fn no_claim_warning(reason: &str) -> String {
    let advice = if reason.starts_with(NAMESPACE_TERMINATING) {
        "sync again when the namespace is gone"
    } else {
        "grant the rights for Leases (see docs/guides/required-permissions.md), or turn the claim off with `tidegate sync --no-claim`"
    };
    format!(
        "the operation runs without a claim on its application, so another one may run at the same \
         time: {reason}; {advice}"
    )
}
