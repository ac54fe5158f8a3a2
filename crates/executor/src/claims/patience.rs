//! When the claim of another operation has run out, judged without its clock.

use std::time::Duration;

use super::record::Lease;
use super::times::LOOK_GAP;

/// Watches one Lease. Moments are counted on a clock of our own that only goes forward.
#[derive(Debug, Default)]
pub(super) struct Patience {
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    renewal: (String, String, u64),
    /// Since when it has not been renewed.
    since: Duration,
    /// When it was looked at last.
    last: Duration,
    /// It was seen to be renewed.
    at_work: bool,
}

/// How the holder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was not watched for long enough.
    Unknown,
    /// It renews its claim.
    AtWork,
    /// It has not renewed its claim for as long as that lasts.
    RunOut,
}

impl Patience {
    /// Takes in what the Lease looks like at a moment.
    pub fn look(&mut self, lease: &Lease, at: Duration) -> Verdict {
        let renewal = lease.renewal();
        let fresh = |at_work| Seen { renewal: renewal.clone(), since: at, last: at, at_work };
        let seen = match self.seen.take() {
            Some(seen) if seen.renewal == renewal => {
                // While nobody could renew it, or we did not look, it did not run out.
                let is_gap = at.saturating_sub(seen.last) > LOOK_GAP;
                Seen { since: if is_gap { at } else { seen.since }, last: at, ..seen }
            }
            Some(seen) if seen.renewal.0 == renewal.0 && seen.renewal.2 == renewal.2 => fresh(true),
            _ => fresh(false),
        };
        let verdict = if at.saturating_sub(seen.since) >= lease.lasts() {
            Verdict::RunOut
        } else if seen.at_work {
            Verdict::AtWork
        } else {
            Verdict::Unknown
        };
        self.seen = Some(seen);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_model::ClaimPlace;

    use super::super::record::blank;
    use super::*;

    fn lease(holder: &str, renewed: &str) -> Lease {
        let mut lease = blank(&ClaimPlace { namespace: "n".into(), name: "c".into() }).unwrap();
        let spec = json!({"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 30});
        lease.0.fields_mut().insert("spec".into(), spec);
        lease
    }

    #[test]
    fn a_claim_runs_out_when_it_was_watched_for_as_long_as_it_lasts() {
        use Verdict::{AtWork, RunOut, Unknown};
        // Seconds, holder, what it wrote.
        type Look = (u64, &'static str, &'static str, Verdict);
        let rows: [(&str, &[Look]); 6] = [
            (
                "dead",
                &[
                    (0, "a", "1", Unknown),
                    (9, "a", "1", Unknown),
                    (18, "a", "1", Unknown),
                    (27, "a", "1", Unknown),
                    (30, "a", "1", RunOut),
                ],
            ),
            ("alive", &[(0, "a", "1", Unknown), (9, "a", "2", AtWork), (18, "a", "2", AtWork)]),
            (
                "dies",
                &[
                    (0, "a", "1", Unknown),
                    (5, "a", "2", AtWork),
                    (14, "a", "2", AtWork),
                    (23, "a", "2", AtWork),
                    (32, "a", "2", AtWork),
                    (35, "a", "2", RunOut),
                ],
            ),
            ("another comes", &[(0, "a", "1", Unknown), (9, "b", "2", Unknown), (18, "b", "3", AtWork)]),
            ("we were away", &[(0, "a", "1", Unknown), (100, "a", "1", Unknown), (109, "a", "1", Unknown)]),
            ("its clock went back", &[(0, "a", "9", Unknown), (9, "a", "1", AtWork)]),
        ];
        for (name, looks) in rows {
            let mut patience = Patience::default();
            for (at, holder, renewed, verdict) in looks {
                let found = patience.look(&lease(holder, renewed), Duration::from_secs(*at));
                assert_eq!(found, *verdict, "{name} at {at} s");
            }
        }
    }

    /// Whatever the times between looks: a claim that is renewed as often as it should be never runs out.
    #[test]
    fn a_claim_that_is_renewed_never_runs_out() {
        for period in 1..=29_u64 {
            for step in 1..=40_u64 {
                let mut patience = Patience::default();
                for look in 0..200_u64 {
                    let at = look * step;
                    let renewed = (at / period).to_string();
                    let verdict = patience.look(&lease("a", &renewed), Duration::from_secs(at));
                    assert_ne!(verdict, Verdict::RunOut, "renewed every {period} s, seen every {step} s");
                }
            }
        }
    }
}
