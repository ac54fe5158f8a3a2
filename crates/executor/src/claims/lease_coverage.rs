//! Lease coverage of writes. A write waits until the operation is certain to hold its claim.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tokio::sync::watch;
use tokio::time::Instant;

use super::times::{CLAIM_COVERAGE, COVERAGE_WAIT_MAX};
use crate::clock::suspended_time;

/// Coverage by a claim, shared by the task that renews the claim and the callers that write.
pub(crate) struct LeaseCoverage {
    state: watch::Sender<CoverageState>,
    /// Time that a renewal covers writes, from the start of the renewal.
    duration: Duration,
}

/// A point in time on the monotonic clock, with the machine's total suspended time so far. The monotonic
/// clock stops during suspensions, but claims still expire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    at: Instant,
    suspended: Duration,
}

impl Moment {
    pub fn now() -> Self {
        Self { at: Instant::now(), suspended: suspended_time() }
    }

    pub fn elapsed(self) -> Duration {
        self.at.elapsed().saturating_add(suspended_time().saturating_sub(self.suspended))
    }
}

#[derive(Clone, Copy, Debug)]
enum CoverageState {
    /// No renewal has succeeded; writes wait.
    Unknown,
    /// A renewal that began at this moment succeeded.
    Renewed(Moment),
    /// No claim is needed.
    NotNeeded,
}

impl LeaseCoverage {
    pub fn new() -> Arc<Self> {
        Self::with_duration(CLAIM_COVERAGE)
    }

    /// Creates a coverage with renewals that cover writes for `duration` from their start.
    pub fn with_duration(duration: Duration) -> Arc<Self> {
        Arc::new(Self { state: watch::Sender::new(CoverageState::Unknown), duration })
    }

    /// Records a successful renewal that began at `moment`.
    pub fn record_renewal(&self, moment: Moment) {
        self.state.send_replace(CoverageState::Renewed(moment));
    }

    /// Ends the coverage, so that later writes wait.
    pub fn revoke(&self) {
        self.state.send_replace(CoverageState::Unknown);
    }

    /// Allows the operation to continue without a claim.
    pub fn allow_without_claim(&self) {
        self.state.send_replace(CoverageState::NotNeeded);
    }

    fn is_covered(&self, state: CoverageState) -> bool {
        match state {
            CoverageState::Unknown => false,
            CoverageState::Renewed(moment) => moment.elapsed() < self.duration,
            CoverageState::NotNeeded => true,
        }
    }

    /// Returns an error with `reason` unless a write is covered at this moment.
    pub fn check_now(&self, reason: &str) -> Result<(), ClusterError> {
        match self.is_covered(*self.state.borrow()) {
            true => Ok(()),
            false => Err(ClusterError::new(ErrorKind::Timeout, reason)),
        }
    }

    /// Waits until a write is covered. After too long, fails with `reason`, as if the cluster didn't respond.
    pub async fn ensure_covered(&self, reason: &str) -> Result<(), ClusterError> {
        tokio::time::timeout(COVERAGE_WAIT_MAX, self.wait_until_covered())
            .await
            .map_err(|_| ClusterError::new(ErrorKind::Timeout, reason))
    }

    /// Waits until writes are covered, without a time limit.
    pub async fn wait_until_covered(&self) {
        let mut changes = self.state.subscribe();
        loop {
            let state = *changes.borrow_and_update();
            if self.is_covered(state) || changes.changed().await.is_err() {
                return;
            }
        }
    }
}
