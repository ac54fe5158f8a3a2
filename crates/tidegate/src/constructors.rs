//! Functions that create or open logs and simulated clusters.

use std::path::Path;
use std::sync::Arc;

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig, SimError};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_oplog::{Log, LogError, MemoryLog};

/// Creates a log in memory. The log is lost when the process ends.
pub fn memory_log() -> Log {
    Arc::new(MemoryLog::new())
}

/// Opens the log in a folder and creates the folder if necessary. Encrypted data uses a key in the same folder. `tidegate
/// --state-dir` can read the operations.
///
/// # Errors
///
/// Returns an error if another process has opened the log, the folder isn't accessible, or a newer version has written
/// to it.
pub fn open_log(directory: &Path) -> Result<Log, LogError> {
    tidegate_executor::open_log(directory, None)
}

/// Creates an empty simulated cluster in memory that uses the system clock.
pub fn simulated_cluster() -> Arc<SimCluster> {
    Arc::new(SimCluster::in_memory(SimConfig::default(), system_clock()))
}

/// Opens a simulated cluster that stores its objects in a folder and creates the folder if necessary.
///
/// # Errors
///
/// Returns an error if the folder is not accessible or does not contain a simulated cluster.
pub fn open_simulated_cluster(directory: &Path) -> Result<Arc<SimCluster>, SimError> {
    SimCluster::open(directory, SimConfig::default(), system_clock()).map(Arc::new)
}

fn system_clock() -> SimClock {
    SimClock::wall(|| SystemClock.now())
}
