//! Distribution of the shards among the replicas that share the work.
//!
//! Each shard prefers one replica: the one with the highest hash of replica and shard. A join or a departure therefore
//! moves only the shards that it must move. The owner in the shard's row is the fact, and the preference only says who
//! may change it. A replica takes a free shard that prefers it. It asks the owner for a shard that another live
//! replica owns, and the owner hands the shard over once it has stopped working on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Maximum number of shards that move between live replicas at the same time.
const MOVES_MAX: usize = 16;
/// Time after which any replica may take a free shard, although the shard prefers another one.
const PREFERENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// Part of a log, with at most one writer at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(u8);

impl Shard {
    /// Returns all shards.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map(Self)
    }

    /// Returns the shard of an ApplicationSet or an Application without one, by its key in the log. An ApplicationSet
    /// and its Applications share a shard.
    pub fn of_key(key: impl AsRef<[u8]>) -> Self {
        let [first, ..]: [u8; 32] = Sha256::digest(key).into();
        Self(first)
    }

    /// Returns the shard with this number in the database.
    pub(super) fn from_row(number: i16) -> Option<Self> {
        u8::try_from(number).ok().map(Self)
    }

    /// Returns the number in the database.
    pub(super) fn number(self) -> i16 {
        self.0.into()
    }

    /// Returns how strongly the shard prefers a replica. All replicas must compute the same number.
    fn weight(self, replica: Uuid) -> u64 {
        let (high, low) = replica.as_u64_pair();
        mix(mix(high) ^ mix(low) ^ u64::from(self.0))
    }
}

/// Returns a number in which every bit depends on every bit of `number`.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Live replica that shares the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) incarnation: Uuid,
    /// True if the replica joined long enough ago to get shards of other live replicas.
    pub(super) is_settled: bool,
    /// True if the replica was asked to stop, so it gets no more shards.
    pub(super) is_draining: bool,
}

/// Row of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardRow {
    pub(super) shard: Shard,
    /// Owner, unless the shard is free or its owner was declared dead.
    pub(super) owner: Option<Uuid>,
    /// Replica that has asked for the shard.
    pub(super) requested_by: Option<Uuid>,
}

/// Changes to the rows that a replica should try to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DistributionPlan {
    /// Free shards to take.
    pub(super) take: Vec<Shard>,
    /// Shards of other live replicas to ask for.
    pub(super) request: Vec<Shard>,
}

/// Free shards, and the monotonic time since which they are free.
#[derive(Debug, Default)]
pub(super) struct FreeShards(BTreeMap<Shard, Duration>);

impl FreeShards {
    /// Returns the free shards that any replica may take.
    pub(super) fn observe(&mut self, rows: &[ShardRow], now: Duration) -> BTreeSet<Shard> {
        let free: BTreeSet<Shard> =
            rows.iter().filter(|row| row.owner.is_none()).map(|row| row.shard).collect();
        self.0.retain(|shard, _| free.contains(shard));
        for shard in free {
            self.0.entry(shard).or_insert(now);
        }
        let is_overdue = |since: &Duration| now.saturating_sub(*since) >= PREFERENCE_TIMEOUT;
        self.0.iter().filter(|(_, since)| is_overdue(since)).map(|(shard, _)| *shard).collect()
    }
}

/// Returns the changes that the replica `me` should try to make.
pub(super) fn plan_distribution(
    me: Uuid,
    candidates: &[Candidate],
    rows: &[ShardRow],
    overdue: &BTreeSet<Shard>,
) -> DistributionPlan {
    let available: Vec<&Candidate> = candidates.iter().filter(|one| !one.is_draining).collect();
    let Some(own) = available.iter().find(|one| one.incarnation == me) else {
        return DistributionPlan::default();
    };
    let prefers_me = |shard: Shard| {
        available.iter().map(|one| one.incarnation).max_by_key(|replica| shard.weight(*replica)) == Some(me)
    };
    let mut plan = DistributionPlan::default();
    let moves = rows.iter().filter(|row| row.owner.is_some() && row.requested_by.is_some()).count();
    for row in rows {
        match row.owner {
            None if overdue.contains(&row.shard) || prefers_me(row.shard) => plan.take.push(row.shard),
            Some(owner)
                if own.is_settled
                    && owner != me
                    && row.requested_by.is_none()
                    && moves.saturating_add(plan.request.len()) < MOVES_MAX
                    // Other owners are not sharing, so they would never hand over.
                    && candidates.iter().any(|one| one.incarnation == owner)
                    && prefers_me(row.shard) =>
            {
                plan.request.push(row.shard);
            }
            _ => {}
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Time between two steps of a replica.
    const STEP: Duration = Duration::from_secs(1);
    /// Number of steps after which a replica is settled.
    const SETTLED_STEPS: u32 = 10;

    struct Member {
        candidate: Candidate,
        steps: u32,
        /// False if it no longer makes steps although it is considered alive.
        is_working: bool,
        free: FreeShards,
    }

    /// A database with the rows, and the replicas.
    struct Cluster {
        rows: BTreeMap<Shard, (Option<Uuid>, Option<Uuid>)>,
        members: Vec<Member>,
        next: u128,
        now: Duration,
        moves: usize,
    }

    impl Cluster {
        fn new() -> Self {
            let rows = Shard::all().map(|shard| (shard, (None, None))).collect();
            Self { rows, members: Vec::new(), next: 0, now: Duration::ZERO, moves: 0 }
        }

        fn join(&mut self) {
            self.next += 1;
            let incarnation = Uuid::from_u128(self.next.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let candidate = Candidate { incarnation, is_settled: false, is_draining: false };
            self.members.push(Member { candidate, steps: 0, is_working: true, free: FreeShards::default() });
        }

        fn remove(&mut self, index: usize) {
            let dead = self.members.remove(index).candidate.incarnation;
            for (owner, requested_by) in self.rows.values_mut() {
                *owner = owner.filter(|owner| *owner != dead);
                *requested_by = requested_by.filter(|one| *one != dead && owner.is_some());
            }
        }

        fn step(&mut self, index: usize) {
            let candidates: Vec<Candidate> = self.members.iter().map(|member| member.candidate).collect();
            let rows: Vec<ShardRow> = self
                .rows
                .iter()
                .map(|(&shard, &(owner, requested_by))| ShardRow { shard, owner, requested_by })
                .collect();
            let member = &mut self.members[index];
            if !member.is_working {
                return;
            }
            member.steps += 1;
            member.candidate.is_settled = member.steps >= SETTLED_STEPS;
            let me = member.candidate.incarnation;
            let overdue = member.free.observe(&rows, self.now);
            let plan = plan_distribution(me, &candidates, &rows, &overdue);
            for shard in plan.take {
                assert_eq!(
                    self.rows.insert(shard, (Some(me), None)).unwrap().0,
                    None,
                    "taken from a live owner"
                );
            }
            for shard in plan.request {
                self.rows.get_mut(&shard).unwrap().1 = Some(me);
            }
            assert!(self.rows.values().filter(|row| row.1.is_some()).count() <= MOVES_MAX);
            for (owner, requested_by) in self.rows.values_mut() {
                *requested_by = requested_by
                    .filter(|by| candidates.iter().any(|one| one.incarnation == *by && !one.is_draining));
                if *owner == Some(me) && requested_by.is_some() {
                    (*owner, *requested_by) = (*requested_by, None);
                    self.moves += 1;
                }
            }
        }

        fn run(&mut self, seconds: u32) {
            for _ in 0..seconds {
                (0..self.members.len()).for_each(|index| self.step(index));
                self.now += STEP;
            }
        }

        /// Returns the number of shards of each replica.
        fn counts(&self) -> Vec<usize> {
            let owned = |member: &Member| {
                let me = Some(member.candidate.incarnation);
                self.rows.values().filter(|(owner, _)| *owner == me).count()
            };
            self.members.iter().map(owned).collect()
        }
    }

    #[test]
    fn a_join_moves_a_fair_part_slowly_and_a_death_moves_only_the_shards_of_the_dead() {
        let mut cluster = Cluster::new();
        cluster.join();
        cluster.run(1);
        assert_eq!(cluster.counts(), [256]);
        (0..2).for_each(|_| cluster.join());
        cluster.run(SETTLED_STEPS - 1);
        assert_eq!(cluster.counts(), [256, 0, 0], "nothing moves to a replica that has just joined");
        cluster.run(60);
        let counts = cluster.counts();
        assert!(counts.iter().all(|count| (65..=105).contains(count)), "{counts:?}");
        let (before, moves) = (cluster.rows.clone(), cluster.moves);
        assert_eq!(moves, 256 - counts[0]);
        let dead = cluster.members[1].candidate.incarnation;
        cluster.remove(1);
        cluster.run(1);
        assert!(cluster.rows.values().all(|(owner, _)| owner.is_some()), "free shards are taken at once");
        cluster.run(60);
        for (shard, (owner, _)) in &cluster.rows {
            assert!(before[shard].0 == *owner || before[shard].0 == Some(dead), "shard {shard} moved");
        }
        assert_eq!(cluster.moves, moves, "a death moves no shard between live replicas");
    }

    #[test]
    fn shards_are_taken_although_the_preferred_replica_does_not() {
        let mut cluster = Cluster::new();
        (0..2).for_each(|_| cluster.join());
        cluster.members[1].is_working = false;
        cluster.run(2);
        let counts = cluster.counts();
        assert!(counts[0] < 256 && counts[1] == 0, "{counts:?}");
        cluster.run(10);
        assert_eq!(cluster.counts(), [256, 0]);
    }

    #[test]
    fn a_replica_that_does_not_share_is_never_asked_and_a_draining_one_gets_nothing() {
        let (me, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let candidate = |incarnation, is_draining| Candidate { incarnation, is_settled: true, is_draining };
        let owned_by = |owner| {
            let row = |shard| ShardRow { shard, owner, requested_by: None };
            Shard::all().map(row).collect::<Vec<_>>()
        };
        let none = BTreeSet::new();
        let plan =
            |candidates: &[Candidate], owner| plan_distribution(me, candidates, &owned_by(owner), &none);
        assert_eq!(plan(&[candidate(me, false)], Some(other)), DistributionPlan::default());
        let both = [candidate(me, false), candidate(other, false)];
        assert_eq!(plan(&both, Some(other)).request.len(), MOVES_MAX);
        let draining = [candidate(me, true), candidate(other, false)];
        assert_eq!(plan(&draining, None), DistributionPlan::default());
        let successor = [candidate(me, false), candidate(other, true)];
        assert_eq!(plan(&successor, None).take.len(), 256);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// After any sequence of joins, deaths and drains, every shard has an owner, no shard is on its way, and each
        /// owner is the preferred one.
        #[test]
        fn every_shard_ends_with_the_replica_that_it_prefers(
            changes in prop::collection::vec((0_u8..4, any::<prop::sample::Index>(), 0_u32..15), 1..12),
        ) {
            let mut cluster = Cluster::new();
            cluster.join();
            for (change, which, seconds) in changes {
                match change {
                    0 | 1 => cluster.join(),
                    2 if cluster.members.len() > 1 => cluster.remove(which.index(cluster.members.len())),
                    3 if cluster.members.iter().filter(|one| !one.candidate.is_draining).count() > 1 => {
                        let index = which.index(cluster.members.len());
                        cluster.members[index].candidate.is_draining = true;
                    }
                    _ => {}
                }
                cluster.run(seconds);
            }
            let draining: Vec<usize> = (0..cluster.members.len())
                .rev()
                .filter(|index| cluster.members[*index].candidate.is_draining)
                .collect();
            draining.into_iter().for_each(|index| cluster.remove(index));
            prop_assume!(!cluster.members.is_empty());
            cluster.run(SETTLED_STEPS + 30);
            let members: Vec<Uuid> = cluster.members.iter().map(|one| one.candidate.incarnation).collect();
            for (shard, (owner, requested_by)) in &cluster.rows {
                let preferred = members.iter().copied().max_by_key(|replica| shard.weight(*replica));
                prop_assert_eq!((*owner, *requested_by), (preferred, None), "shard {}", shard);
            }
            let moves = cluster.moves;
            cluster.run(20);
            prop_assert_eq!(cluster.moves, moves, "shards keep moving");
        }
    }
}
