//! The claim of an operation: that it alone works on its application.
//!
//! The operation takes it before it plans. Whoever holds it hears what becomes of it; who it belongs to is decided by the
//! Lease in the cluster, guarded there, and not here.

use serde::{Deserialize, Serialize};
use tidegate_model::{ClaimHolder, ClaimPlace, Timestamp};

/// What is known of the claim of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    /// The operation has it.
    Held {
        /// Where it is kept.
        place: ClaimPlace,
        /// How many holders it has had, this one included.
        epoch: u64,
        /// When the operation heard that it has it.
        since: Timestamp,
    },
    /// Another operation has it.
    Taken {
        /// The other operation, as the Lease names it.
        holder: ClaimHolder,
        /// Since when this one waits for it.
        since: Timestamp,
    },
    /// None can be had here; the operation goes on without.
    Without {
        /// Such as that rights for Leases are missing, or that its namespace is being deleted.
        reason: String,
    },
    /// Another operation has taken it.
    Lost {
        /// The other operation, as the Lease names it; `None` when that one is over as well.
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
        /// The other operation, as the Lease names it.
        holder: ClaimHolder,
        /// It is at work: it was seen to renew its claim. Otherwise it may be dead, and its claim run out.
        at_work: bool,
    },
    /// None can be had here.
    Without {
        /// Such as that rights for Leases are missing, or that its namespace is being deleted.
        reason: String,
    },
    /// It ran out while nobody renewed it, and another operation has taken it.
    Lost {
        /// The other operation, as the Lease names it; `None` when that one is over as well.
        holder: Option<ClaimHolder>,
    },
    /// Another operation asks this one to end.
    EndWanted {
        /// The operation that supersedes this one.
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
pub(super) fn had(reason: &str) -> Option<ClaimPlace> {
    let (lease, _) = reason.split_once(NOT_RENEWED)?;
    let (namespace, name) = lease.strip_prefix("Lease ")?.split_once('/')?;
    Some(ClaimPlace { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// What an operation that has no claim warns of.
pub(in crate::operation) fn no_claim(reason: &str) -> String {
    let advice = if reason.starts_with(NAMESPACE_GOES) {
        "sync again when it is gone"
    } else {
        "give the rights for Leases (see docs/real-clusters.md), or switch the claim off with --no-claim"
    };
    format!(
        "the operation runs without a claim on its application, so another one may run at the same time: {reason}; {advice}"
    )
}
