//! Functions that create or open logs and simulated clusters.

use std::path::Path;
use std::sync::Arc;

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig, SimError};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_oplog::{Log, LogError, MemoryLog};

/// Creates a log in memory. It is lost when the process exits.
pub fn memory_log() -> Log {
    Arc::new(MemoryLog::new())
}

/// Opens the log in a folder, creating the folder if necessary. Encrypted data uses a key in the same folder.
/// Its operations can be read with `tidegate --state-dir`.
///
/// # Errors
///
/// Fails if another process has the log open, the folder isn't accessible, or a newer version has written to
/// it.
pub fn open_log(directory: &Path) -> Result<Log, LogError> {
    tidegate_executor::open_log(directory, None)
}

/// Creates an empty simulated cluster in memory, running on the system clock.
pub fn simulated_cluster() -> Arc<SimCluster> {
    Arc::new(SimCluster::in_memory(SimConfig::default(), system_clock()))
}

/// Opens a simulated cluster with its objects in a folder, creating the folder if necessary.
///
/// # Errors
///
/// Fails if the folder isn't accessible or doesn't contain a simulated cluster.
pub fn open_simulated_cluster(directory: &Path) -> Result<Arc<SimCluster>, SimError> {
    SimCluster::open(directory, SimConfig::default(), system_clock()).map(Arc::new)
}

fn system_clock() -> SimClock {
    SimClock::wall(|| SystemClock.now())
}
