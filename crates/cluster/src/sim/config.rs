//! What a simulated cluster is like: its seed, its speed, its faults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Faults;

/// What a simulated cluster is like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimConfig {
    /// UIDs, generated names and faults follow from it. Read when the cluster is made, not afterwards.
    pub seed: u64,
    /// How long a workload takes to become ready (a Job: to complete) where no annotation says otherwise.
    pub ready_after: Duration,
    /// How long a controller takes to react to a change.
    pub reaction: Duration,
    /// How long a pod takes to end after it was deleted.
    pub grace: Duration,
    /// How long each call takes, half of it before the cluster does its work. Only [`SimCluster`](super::SimCluster)
    /// waits; the pure core has no time of its own.
    pub latency: Duration,
    /// How many changes of each kind are kept for watches; an older resource version is Gone.
    pub history: usize,
    /// What goes wrong, and how often; nothing by default.
    pub faults: Faults,
}

/// Enough for every watch of a healthy engine, and at most a few dozen megabytes for the largest objects in use.
const HISTORY: usize = 4096;

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            ready_after: Duration::from_millis(200),
            reaction: Duration::from_millis(5),
            grace: Duration::from_millis(50),
            latency: Duration::ZERO,
            history: HISTORY,
            faults: Faults::none(),
        }
    }
}

impl SimConfig {
    /// Everything happens at once: for tests and benchmarks that are not about waiting.
    pub fn instant() -> Self {
        Self {
            ready_after: Duration::ZERO,
            reaction: Duration::ZERO,
            grace: Duration::ZERO,
            ..Self::default()
        }
    }

    /// The same cluster with another seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same cluster with other faults.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }
}
