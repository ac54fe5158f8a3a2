//! What an engine works with: a log, and a cluster to try things out on.

use std::path::Path;
use std::sync::Arc;

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig, SimError};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_oplog::{Log, LogError, MemoryLog};

/// A log that ends with the program.
pub fn memory_log() -> Log {
    Arc::new(MemoryLog::new())
}

/// Opens the log in a folder, which is made when it is not there. What is sealed beside the log is sealed with a key that
/// lies in the folder too; `tidegate --state-dir` finds operations there.
///
/// # Errors
///
/// Another process has it open, the folder cannot be used, or a newer program has written to it.
pub fn open_log(directory: &Path) -> Result<Log, LogError> {
    tidegate_executor::open_log(directory, None)
}

/// A simulated cluster in memory, empty, on the machine's clock.
pub fn simulated_cluster() -> Arc<SimCluster> {
    Arc::new(SimCluster::in_memory(SimConfig::default(), wall_clock()))
}

/// A simulated cluster whose objects are kept in a folder, which is made when it is not there.
///
/// # Errors
///
/// The folder cannot be used, or what lies in it is no simulated cluster.
pub fn open_simulated_cluster(directory: &Path) -> Result<Arc<SimCluster>, SimError> {
    SimCluster::open(directory, SimConfig::default(), wall_clock()).map(Arc::new)
}

fn wall_clock() -> SimClock {
    SimClock::wall(|| SystemClock.now())
}
