//! Detection of dead replicas from their heartbeats.
//!
//! A replica is dead once its heartbeat count has not changed for [`DEAD_AFTER`], measured by the observer's own
//! monotonic clock. No time of another machine is compared. If the observer itself was suspended or could not
//! read the database, it starts over, so that an outage of the database doesn't make every replica look dead.
//!
//! Counts only rise. A lower count than before proves that the database has lost transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use uuid::Uuid;

/// Time without a heartbeat after which a replica is dead.
pub(super) const DEAD_AFTER: Duration = Duration::from_secs(8);
/// Time between two observations after which the observer starts over.
pub(super) const MAX_GAP: Duration = Duration::from_secs(3);

/// Heartbeat counts of the other replicas, and the time of their last change.
#[derive(Debug, Default)]
pub(super) struct ReplicaWatch {
    seen: BTreeMap<Uuid, (i64, Duration)>,
    /// Replicas with a heartbeat since they were first observed.
    alive: BTreeSet<Uuid>,
    observed_at: Option<Duration>,
    /// Last count of each replica, even if the observer has started over since.
    last_counts: BTreeMap<Uuid, i64>,
    /// Number of heartbeats that the database has lost since the last call of `take_lost_heartbeats`.
    lost: i64,
}

impl ReplicaWatch {
    /// Records the heartbeat counts that were read between the monotonic times `before` and `after`, and returns
    /// the dead replicas with their last count.
    pub(super) fn observe(
        &mut self,
        beats: &BTreeMap<Uuid, i64>,
        before: Duration,
        after: Duration,
    ) -> Vec<(Uuid, i64)> {
        if self.observed_at.is_none_or(|last| before.saturating_sub(last) > MAX_GAP) {
            self.seen.clear();
        }
        self.observed_at = Some(after);
        self.last_counts.retain(|replica, _| beats.contains_key(replica));
        for (&replica, &beat) in beats {
            let last = self.last_counts.insert(replica, beat).unwrap_or(beat);
            self.lost = self.lost.max(last.saturating_sub(beat));
        }
        self.seen.retain(|replica, _| beats.contains_key(replica));
        let mut dead = Vec::new();
        for (&replica, &beat) in beats {
            let (count, since) = self.seen.entry(replica).or_insert((beat, after));
            if *count != beat {
                (*count, *since) = (beat, after);
                self.alive.insert(replica);
            } else if before.saturating_sub(*since) >= DEAD_AFTER {
                dead.push((replica, beat));
            }
        }
        self.alive
            .retain(|replica| beats.contains_key(replica) && !dead.iter().any(|(one, _)| one == replica));
        dead
    }

    /// Returns the number of heartbeats that the database has lost since the last call. A replica sends about one per second.
    pub(super) fn take_lost_heartbeats(&mut self) -> i64 {
        std::mem::take(&mut self.lost)
    }

    /// Returns true if a heartbeat of this replica was observed.
    pub(super) fn has_seen_heartbeat(&self, replica: Uuid) -> bool {
        self.alive.contains(&replica)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_replica_without_heartbeats_is_dead_after_eight_seconds() {
        let mut watch = ReplicaWatch::default();
        for second in 0..8 {
            let beats = BTreeMap::from([(A, 5), (B, i64::try_from(second).unwrap())]);
            assert_eq!(watch.observe(&beats, secs(second), secs(second)), [], "after {second} s");
        }
        assert_eq!(watch.observe(&BTreeMap::from([(A, 5), (B, 8)]), secs(8), secs(8)), [(A, 5)]);
        assert_eq!(
            watch.observe(&BTreeMap::from([(A, 6), (B, 9)]), secs(9), secs(9)),
            [],
            "a heartbeat revives it"
        );
    }

    #[test]
    fn an_observer_that_was_suspended_starts_over() {
        let mut watch = ReplicaWatch::default();
        let beats = BTreeMap::from([(A, 5)]);
        for at in [0, 2, 5, 60, 62, 65, 67] {
            assert_eq!(watch.observe(&beats, secs(at), secs(at)), [], "at {at} s");
        }
        assert_eq!(watch.observe(&beats, secs(68), secs(68)), [(A, 5)]);
    }

    #[test]
    fn a_count_that_falls_shows_how_many_heartbeats_are_lost() {
        let mut watch = ReplicaWatch::default();
        // The observer starts over during the failover of the database.
        for (second, beat, lost) in [(0, 40, 0), (1, 41, 0), (20, 37, 4), (21, 38, 0), (22, 39, 0)] {
            watch.observe(&BTreeMap::from([(A, beat), (B, 7)]), secs(second), secs(second));
            assert_eq!(watch.take_lost_heartbeats(), lost, "at {second} s");
        }
    }

    proptest! {
        /// Whatever the observer's schedule, a replica that beats at least every 3 s is never declared dead.
        #[test]
        fn a_live_replica_is_never_dead(gaps in prop::collection::vec(0_u64..10_000, 1..60)) {
            let (mut watch, mut now) = (ReplicaWatch::default(), 0);
            for gap in gaps {
                now += gap;
                let beat = i64::try_from(now / 3_000).unwrap();
                let dead = watch.observe(&BTreeMap::from([(A, beat)]), Duration::from_millis(now), Duration::from_millis(now));
                prop_assert_eq!(dead, []);
            }
        }
    }
}
