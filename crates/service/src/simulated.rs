//! The simulated cluster of a state directory.

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::Object;
use tidegate_oplog::PrivateCopy;

use crate::error::ServiceError;
use crate::state_dir::StateDir;

/// Opens the simulated cluster. The caller holds the lock of the state directory.
pub async fn open(state_dir: &StateDir) -> Result<SimCluster, ServiceError> {
    let dir = state_dir.cluster();
    let open =
        move || SimCluster::open(&dir, SimConfig::default(), wall_clock()).map_err(ServiceError::simulated);
    tokio::task::spawn_blocking(open).await.map_err(ServiceError::simulated)?
}

/// What is in the simulated cluster, for those who may not write to it or do not have the lock.
pub async fn copied_objects(state_dir: &StateDir) -> Result<Vec<Object>, ServiceError> {
    let dir = state_dir.cluster();
    let read = move || {
        let copy = PrivateCopy::of(&dir)?;
        let cluster = SimCluster::open(copy.path(), SimConfig::default(), wall_clock());
        Ok(cluster.map_err(ServiceError::simulated)?.objects())
    };
    tokio::task::spawn_blocking(read).await.map_err(ServiceError::simulated)?
}

/// An empty cluster that leaves nothing behind.
pub fn empty() -> SimCluster {
    SimCluster::in_memory(SimConfig::default(), wall_clock())
}

fn wall_clock() -> SimClock {
    SimClock::wall(|| SystemClock.now())
}
