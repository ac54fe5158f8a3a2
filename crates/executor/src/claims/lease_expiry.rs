//! Expiry of another operation's claim, determined without that operation's clock.

use std::time::Duration;

use super::record::{Lease, Renewal};
use super::times::OBSERVATION_GAP_MAX;

/// Observations of one Lease, with times on this process's monotonic clock.
#[derive(Debug, Default)]
pub(super) struct LeaseExpiry {
    last_seen: Option<SeenRenewal>,
}

#[derive(Debug)]
struct SeenRenewal {
    renewal: Renewal,
    /// Time of the first observation of the current renewal.
    since: Duration,
    /// Time of the last observation of the Lease.
    last: Duration,
    /// True if the holder was seen renewing the Lease.
    is_renewing: bool,
}

/// Status of a claim's holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderStatus {
    /// The observation has been too short to tell.
    Unknown,
    /// The holder is renewing its claim.
    Renewing,
    /// The holder hasn't renewed its claim for the claim's whole duration.
    Expired,
}

impl LeaseExpiry {
    /// Records an observation of the Lease at `at`.
    pub fn observe(&mut self, lease: &Lease, at: Duration) -> HolderStatus {
        self.observe_for(lease, lease.duration(), at)
    }

    /// Records an observation of a Lease that expires after `lasts` without a renewal.
    pub fn observe_for(&mut self, lease: &Lease, lasts: Duration, at: Duration) -> HolderStatus {
        let renewal = lease.renewal();
        let fresh = |is_renewing| SeenRenewal { renewal: renewal.clone(), since: at, last: at, is_renewing };
        let seen = match self.last_seen.take() {
            Some(seen) if seen.renewal == renewal => {
                // Don't count a gap between observations: the holder may have been unable to renew the Lease
                // too.
                let is_gap = at.saturating_sub(seen.last) > OBSERVATION_GAP_MAX;
                SeenRenewal { since: if is_gap { at } else { seen.since }, last: at, ..seen }
            }
            Some(seen) if seen.renewal.holder == renewal.holder && seen.renewal.epoch == renewal.epoch => {
                fresh(true)
            }
            _ => fresh(false),
        };
        let verdict = if at.saturating_sub(seen.since) >= lasts {
            HolderStatus::Expired
        } else if seen.is_renewing {
            HolderStatus::Renewing
        } else {
            HolderStatus::Unknown
        };
        self.last_seen = Some(seen);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_model::ClaimLocation;

    use super::super::record::new_lease;
    use super::*;

    fn lease(holder: &str, renewed: &str) -> Lease {
        let mut lease = new_lease(&ClaimLocation { namespace: "n".into(), name: "c".into() }).unwrap();
        let spec = json!({"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 30});
        lease.0.fields_mut().insert("spec".into(), spec);
        lease
    }

    #[test]
    fn a_claim_expires_after_being_observed_for_its_whole_duration() {
        use HolderStatus::{Expired, Renewing, Unknown};
        // Columns: time in seconds, holder, renewal time, expected status.
        type TimedObservation = (u64, &'static str, &'static str, HolderStatus);
        let rows: [(&str, &[TimedObservation]); 6] = [
            (
                "dead",
                &[
                    (0, "a", "1", Unknown),
                    (9, "a", "1", Unknown),
                    (18, "a", "1", Unknown),
                    (27, "a", "1", Unknown),
                    (30, "a", "1", Expired),
                ],
            ),
            ("alive", &[(0, "a", "1", Unknown), (9, "a", "2", Renewing), (18, "a", "2", Renewing)]),
            (
                "dies",
                &[
                    (0, "a", "1", Unknown),
                    (5, "a", "2", Renewing),
                    (14, "a", "2", Renewing),
                    (23, "a", "2", Renewing),
                    (32, "a", "2", Renewing),
                    (35, "a", "2", Expired),
                ],
            ),
            ("another comes", &[(0, "a", "1", Unknown), (9, "b", "2", Unknown), (18, "b", "3", Renewing)]),
            ("we were away", &[(0, "a", "1", Unknown), (100, "a", "1", Unknown), (109, "a", "1", Unknown)]),
            ("its clock went back", &[(0, "a", "9", Unknown), (9, "a", "1", Renewing)]),
        ];
        for (name, looks) in rows {
            let mut expiry = LeaseExpiry::default();
            for (at, holder, renewed, verdict) in looks {
                let found = expiry.observe(&lease(holder, renewed), Duration::from_secs(*at));
                assert_eq!(found, *verdict, "{name} at {at} s");
            }
        }
    }

    /// A claim renewed on time never expires, whatever the interval between observations.
    #[test]
    fn a_claim_that_is_renewed_never_expires() {
        for period in 1..=29_u64 {
            for step in 1..=40_u64 {
                let mut expiry = LeaseExpiry::default();
                for look in 0..200_u64 {
                    let at = look * step;
                    let renewed = (at / period).to_string();
                    let verdict = expiry.observe(&lease("a", &renewed), Duration::from_secs(at));
                    assert_ne!(
                        verdict,
                        HolderStatus::Expired,
                        "renewed every {period} s, seen every {step} s"
                    );
                }
            }
        }
    }
}
