//! The simulated cluster in a state directory.

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig, has_stored_cluster};
use tidegate_cluster::{Cluster, DeleteRequest};
use tidegate_executor::{Clock as _, SystemClock, list_summaries};
use tidegate_model::{Destination, GroupKind, Gvk, Object, ResourceSelector};
use tidegate_oplog::{Log, Lookup, PrivateCopy};

use crate::error::ServiceError;
use crate::log;
use crate::notices::Notices;
use crate::state_dir::StateDir;

/// Opens the simulated cluster, or an empty one if its files are missing. Warns if operations ran on the
/// missing cluster. The caller must hold the lock on the state directory of `log`.
pub async fn open(
    state_dir: &StateDir,
    log: &Log,
    notices: &dyn Notices,
) -> Result<SimCluster, ServiceError> {
    warn_if_missing(state_dir, log, notices)?;
    open_unchecked(state_dir).await
}

/// Opens the simulated cluster without checking the log. The caller must hold the lock on the state
/// directory.
pub async fn open_unchecked(state_dir: &StateDir) -> Result<SimCluster, ServiceError> {
    let dir = state_dir.cluster();
    let open =
        move || SimCluster::open(&dir, SimConfig::default(), wall_clock()).map_err(ServiceError::simulation);
    tokio::task::spawn_blocking(open).await.map_err(ServiceError::simulation)?
}

/// Returns the objects in the simulated cluster. Needs neither write permission nor the lock.
pub async fn read_objects(state_dir: &StateDir) -> Result<Vec<Object>, ServiceError> {
    let dir = state_dir.cluster();
    let read = move || {
        let copy = PrivateCopy::create(&dir)?;
        let cluster = SimCluster::open(copy.path(), SimConfig::default(), wall_clock());
        Ok(cluster.map_err(ServiceError::simulation)?.objects())
    };
    tokio::task::spawn_blocking(read).await.map_err(ServiceError::simulation)?
}

/// Warns if operations ran on a simulated cluster with missing files, unless the cluster was reset.
pub fn warn_if_missing(state_dir: &StateDir, log: &Log, notices: &dyn Notices) -> Result<(), ServiceError> {
    let dir = state_dir.cluster();
    if has_stored_cluster(&dir).map_err(ServiceError::simulation)? {
        return Ok(());
    }
    let here = Destination::Simulated.to_string();
    let mut ran = list_summaries(log, Lookup::all())?.into_iter().filter(|ran| ran.destination == here);
    // IDs sort in log order.
    if let Some(newest) = ran.next_back() {
        notices.warn(&format!(
            "the files of the simulated cluster are missing from {}, although operations have run on it (most recently {}); the cluster starts empty, without the objects of these operations",
            dir.display(),
            newest.operation
        ));
    }
    Ok(())
}

/// Opens the log and calls [`warn_if_missing`]. Skips the warning if the log is unreadable.
pub fn warn_if_missing_without_log(state_dir: &StateDir, notices: &dyn Notices) -> Result<(), ServiceError> {
    if !state_dir.has_log()? || has_stored_cluster(&state_dir.cluster()).map_err(ServiceError::simulation)? {
        return Ok(());
    }
    match tokio::task::block_in_place(|| log::open_read_only(state_dir, notices)) {
        Ok(log) => warn_if_missing(state_dir, &log, notices),
        Err(error) => {
            tracing::warn!(%error, "failed to check for earlier operations on the simulated cluster");
            Ok(())
        }
    }
}

/// Deletes an object, acting as another client.
pub async fn delete_object(cluster: &dyn Cluster, object: &ResourceSelector) -> Result<(), ServiceError> {
    let ResourceSelector { group, kind, namespace, name } = object;
    let none =
        || ServiceError::refused(format!("{kind} {namespace}/{name} not found in the simulated cluster"));
    let discovery = cluster.discover().await.map_err(ServiceError::simulation)?;
    let known = discovery.get(&GroupKind::new(group, kind)).and_then(|info| info.versions.first());
    let gvk = Gvk::new(group, known.ok_or_else(none)?, kind);
    let found =
        cluster.get(&gvk, namespace, name).await.map_err(ServiceError::simulation)?.ok_or_else(none)?;
    let request = DeleteRequest::for_object(&found);
    cluster.delete(request).await.map(drop).map_err(ServiceError::simulation)
}

/// Creates an empty cluster that writes no files.
pub fn empty_cluster() -> SimCluster {
    SimCluster::in_memory(SimConfig::default(), wall_clock())
}

fn wall_clock() -> SimClock {
    SimClock::wall(|| SystemClock.now())
}
