//! An operation's claim on a cluster: one `Lease` per application. It prevents engines that don't share a log
//! from working on the same application at the same time.
//!
//! Clocks of different machines are never compared. A claim has expired once a contender has watched it for
//! the claim's whole duration, on the contender's own monotonic clock, without seeing a renewal. The holder
//! stops writing well before that.
//!
//! - `location` determines the Lease's name and namespace, and `record` defines the Lease's content.
//! - `lease_expiry` decides when the claim expires.
//! - `keeper` acquires and renews the claim. Each operation's actor runs one (`actors/operation/claim.rs`).
//! - `lease_coverage` lets writes wait until the claim covers them.
//!
//! A service's Lease uses the same record format. `leadership` decides which service is in charge of a
//! control plane. `service_lease` acquires and renews the Lease, and blocks the writes of a service that has
//! lost it.

mod keeper;
mod leadership;
mod lease_coverage;
mod lease_expiry;
mod location;
mod record;
#[cfg(test)]
mod renewal_tests;
mod service_lease;
#[cfg(test)]
mod simulation;
mod times;

pub(crate) use self::keeper::{ClaimKeeper, KeeperEnvironment, ObservationStore, release_claim};
pub use self::leadership::{LeaseHolder, ServiceIdentity};
pub(crate) use self::lease_coverage::{LeaseCoverage, Moment};
pub(crate) use self::location::ClaimLocations;
pub(crate) use self::record::{Claimant, Lease, lease_kind, required_rights};
pub use self::service_lease::{
    Fence, HeartbeatCoverage, HeldLease, LeaseError, LeaseLoss, LeaseWait, PeerCheck, ServiceLease,
};
pub(crate) use self::times::RELEASE_TIMEOUT;
pub use self::times::{
    CLAIM_DURATION, CLAIM_RENEWAL_INTERVAL, SERVICE_LEASE_DURATION, SERVICE_LEASE_RENEWAL_INTERVAL,
};
