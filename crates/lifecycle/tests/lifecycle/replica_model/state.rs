//! State of the model: the database, the replicas, the cluster, and the messages in flight.

use super::cluster::{Cluster, Request};
use super::machine::{LogId, NodeId};

/// Shard of the operation with the hook. The other shard has an operation with an empty plan.
pub const HOOK_SHARD: usize = 0;

/// Unique number of a process. A restarted replica gets the next number of the same parity.
pub type Incarnation = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    pub owner: Incarnation,
    pub epoch: u8,
}

/// Committed content of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Database {
    pub shards: [Shard; 2],
    /// Log of the only operation in each shard.
    pub logs: [LogId; 2],
    /// Evicted incarnations, one bit each.
    pub evicted: u16,
}

impl Database {
    pub fn is_evicted(&self, incarnation: Incarnation) -> bool {
        self.evicted & 1 << incarnation != 0
    }

    pub fn is_owner(&self, incarnation: Incarnation) -> bool {
        self.shards.iter().any(|shard| shard.owner == incarnation)
    }
}

/// Transaction that appends to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Append {
    pub shard: usize,
    pub incarnation: Incarnation,
    pub epoch: u8,
    /// Expected log.
    pub parent: LogId,
    /// Log after the append.
    pub child: LogId,
    /// True if the writer has found that the append was not written, and never would be.
    pub is_settled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppendStatus {
    Idle,
    /// The transaction has not reached the database.
    InFlight,
    /// The connection failed, so the outcome is unknown.
    Doubtful,
}

/// Running operation of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub node: NodeId,
    /// Epoch of the replica's tenure in the shard.
    pub epoch: u8,
    pub append: AppendStatus,
}

/// Verdict that another incarnation is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Suspect {
    pub incarnation: Incarnation,
    /// True if the incarnation has counted a heartbeat since the verdict.
    pub has_beaten: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    pub incarnation: Incarnation,
    pub is_up: bool,
    /// True if a recent heartbeat covers writes to the cluster.
    pub is_covered: bool,
    pub suspect: Option<Suspect>,
    pub runs: [Option<Run>; 2],
    /// Request to the cluster in flight.
    pub call: Option<Request>,
}

impl Replica {
    pub fn start(incarnation: Incarnation) -> Self {
        Self { incarnation, is_up: true, is_covered: true, suspect: None, runs: [None; 2], call: None }
    }

    pub fn stop(&mut self) {
        *self = Self { is_up: false, is_covered: false, ..Self::start(self.incarnation) };
    }
}

/// Maximum number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Replicas that crash.
    pub crashes: u8,
    /// Replicas that are paused until their coverage has lapsed, and then continue.
    pub pauses: u8,
    /// Requests to the cluster that time out, and arrive later or never.
    pub timeouts: u8,
    /// Appends whose connection fails, and that arrive later or never.
    pub losses: u8,
    /// Failovers of the database that lose its last transaction.
    pub failovers: u8,
    /// Shards that a replica hands over to the other one.
    pub handovers: u8,
}

/// Small sorted multiset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bag<T>([Option<T>; 6]);

impl<T> Default for Bag<T> {
    fn default() -> Self {
        Self([const { None }; 6])
    }
}

impl<T: Copy + Ord> Bag<T> {
    pub fn insert(&mut self, item: T) {
        let free = self.0.iter_mut().find(|place| place.is_none()).expect("the bag must not be full");
        *free = Some(item);
        self.0.sort_unstable_by(|a, b| b.cmp(a));
    }

    pub fn remove(&mut self, item: T) {
        if let Some(place) = self.0.iter_mut().find(|place| **place == Some(item)) {
            *place = None;
        }
        self.0.sort_unstable_by(|a, b| b.cmp(a));
    }

    pub fn retain(&mut self, keep: impl Fn(T) -> bool) {
        if self.0.iter().flatten().any(|item| !keep(*item)) {
            self.0 = self.0.map(|item| item.filter(|item| keep(*item)));
            self.0.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Returns the distinct items.
    pub fn items(&self) -> impl Iterator<Item = T> + '_ {
        let is_first = |(index, item): &(usize, &Option<T>)| *index == 0 || self.0[index - 1] != **item;
        self.0.iter().enumerate().filter(is_first).filter_map(|(_, item)| *item)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub database: Database,
    /// Database before its last transaction, if a failover may still lose this transaction.
    pub previous: Option<Database>,
    /// Last epoch in which each shard was written, and the writer.
    pub writers: [(u8, Incarnation); 2],
    pub replicas: [Replica; 2],
    pub cluster: Cluster,
    /// Requests to the cluster that have lost their sender.
    pub late_requests: Bag<Request>,
    /// Appends that have lost their sender.
    pub late_appends: Bag<Append>,
    /// Faults that may still occur.
    pub faults: Faults,
}
