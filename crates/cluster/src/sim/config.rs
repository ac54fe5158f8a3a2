//! Configuration of a simulated cluster: seed, speed and faults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Faults;

/// Configuration of a simulated cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimConfig {
    /// Seed for UIDs, generated names and faults, used only when the cluster is created.
    pub seed: u64,
    /// Time until a workload becomes ready or a Job completes, unless an annotation sets another time.
    pub ready_after: Duration,
    /// Time until controllers react to a change.
    pub reaction: Duration,
    /// Time that a pod takes to terminate after it is deleted.
    pub grace: Duration,
    /// Latency of each call: half passes before the cluster does its work and half after it. Only
    /// [`SimCluster`](super::SimCluster) waits; the pure core never waits.
    pub latency: Duration,
    /// Number of changes to keep per kind for watches. A watch from an older resource version fails with
    /// Gone.
    pub history: usize,
    /// Probabilities of faults. By default, faults never happen.
    pub faults: Faults,
}

/// Default for [`SimConfig::history`]. Enough for every watch of a healthy engine, and at most a few dozen
/// megabytes with the largest objects found in practice.
const DEFAULT_HISTORY: usize = 4096;

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            ready_after: Duration::from_millis(200),
            reaction: Duration::from_millis(5),
            grace: Duration::from_millis(50),
            latency: Duration::ZERO,
            history: DEFAULT_HISTORY,
            faults: Faults::none(),
        }
    }
}

impl SimConfig {
    /// Returns a configuration without delays, for tests and benchmarks that don't depend on time.
    pub fn without_delays() -> Self {
        Self {
            ready_after: Duration::ZERO,
            reaction: Duration::ZERO,
            grace: Duration::ZERO,
            ..Self::default()
        }
    }

    /// Sets the seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the faults.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }
}
