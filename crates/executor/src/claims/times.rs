//! Durations of claims and of the service's Lease.

use std::time::Duration;

/// Duration after which a claim expires without a renewal.
pub const CLAIM_DURATION: Duration = Duration::from_secs(30);
/// Interval between renewals of a claim.
pub const CLAIM_RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
/// Time from the start of the last successful renewal until the holder stops writing. The rest of the claim's
/// duration lets calls in flight complete.
pub(super) const CLAIM_COVERAGE: Duration = Duration::from_secs(20);
/// Delay before retrying a failed renewal.
pub(super) const RENEWAL_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Interval between reads of another operation's claim.
pub(super) const OBSERVATION_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum gap between two reads that still counts as continuous observation. In a longer gap, the cluster or
/// this process was unavailable.
pub(super) const OBSERVATION_GAP_MAX: Duration = Duration::from_secs(10);
/// Delay before rereading a claim after a write conflict.
pub(super) const CONFLICT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Maximum time that a finishing operation waits for the release of its claim. After that, the claim expires
/// on its own.
pub(crate) const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// Duration of a service's Lease.
pub const SERVICE_LEASE_DURATION: Duration = Duration::from_secs(15);
/// Time without a renewal after which the Lease of a service that was replaced in a shared log can be taken. Longer
/// than the interval between renewals.
pub(super) const REPLACED_LEASE_DURATION: Duration = Duration::from_secs(4);
/// Interval between renewals of a service's Lease.
pub const SERVICE_LEASE_RENEWAL_INTERVAL: Duration = Duration::from_secs(3);
/// Time from the start of the last successful renewal until the service stops writing. The rest of the
/// Lease's duration lets calls in flight complete.
pub(super) const SERVICE_LEASE_COVERAGE: Duration = Duration::from_secs(10);
/// Maximum time that a write waits for a claim renewal.
pub(super) const COVERAGE_WAIT_MAX: Duration = Duration::from_secs(10);
