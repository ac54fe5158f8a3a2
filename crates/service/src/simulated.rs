//! The simulated cluster of a state directory.

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig, is_kept};
use tidegate_cluster::{Cluster, DeleteRequest};
use tidegate_executor::{Clock as _, SystemClock, operations};
use tidegate_model::{Destination, GroupKind, Gvk, Object, ResourceSelector};
use tidegate_oplog::{Log, Lookup, PrivateCopy};

use crate::error::ServiceError;
use crate::log;
use crate::notices::Notices;
use crate::state_dir::StateDir;

/// Opens the simulated cluster, which begins empty where there is none: where operations ran on one, that is told. The
/// caller holds the lock of the state directory, whose log this is.
pub async fn open(
    state_dir: &StateDir,
    log: &Log,
    notices: &dyn Notices,
) -> Result<SimCluster, ServiceError> {
    tell_missing(state_dir, log, notices)?;
    begin(state_dir).await
}

/// Opens the simulated cluster, however it began. The caller holds the lock of the state directory.
pub async fn begin(state_dir: &StateDir) -> Result<SimCluster, ServiceError> {
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

/// Says so when operations ran on the simulated cluster and nothing of it is there. One that was reset is there.
pub fn tell_missing(state_dir: &StateDir, log: &Log, notices: &dyn Notices) -> Result<(), ServiceError> {
    let dir = state_dir.cluster();
    if is_kept(&dir).map_err(ServiceError::simulated)? {
        return Ok(());
    }
    let here = Destination::Simulated.to_string();
    let mut ran = operations(log, Lookup::all())?.into_iter().filter(|ran| ran.destination == here);
    // In the order of the log.
    if let Some(newest) = ran.next_back() {
        notices.warn(&format!(
            "the simulated cluster is missing from {}, and operations ran on it, the newest of them {}: it begins \
             empty, without what they put there",
            dir.display(),
            newest.operation
        ));
    }
    Ok(())
}

/// As [`tell_missing`], for those who do not have the log open. One that cannot be read has nothing to say.
pub fn tell_missing_beside(state_dir: &StateDir, notices: &dyn Notices) -> Result<(), ServiceError> {
    if !state_dir.has_log()? || is_kept(&state_dir.cluster()).map_err(ServiceError::simulated)? {
        return Ok(());
    }
    match tokio::task::block_in_place(|| log::open_to_read(state_dir, notices)) {
        Ok(log) => tell_missing(state_dir, &log, notices),
        Err(error) => {
            tracing::warn!(%error, "whether operations ran on the simulated cluster cannot be told");
            Ok(())
        }
    }
}

/// Deletes an object, as somebody else would.
pub async fn delete(cluster: &dyn Cluster, object: &ResourceSelector) -> Result<(), ServiceError> {
    let ResourceSelector { group, kind, namespace, name } = object;
    let none =
        || ServiceError::refused(format!("there is no {kind} {namespace}/{name} in the simulated cluster"));
    let discovery = cluster.discover().await.map_err(ServiceError::simulated)?;
    let known = discovery.get(&GroupKind::new(group, kind)).and_then(|info| info.versions.first());
    let gvk = Gvk::new(group, known.ok_or_else(none)?, kind);
    let found =
        cluster.get(&gvk, namespace, name).await.map_err(ServiceError::simulated)?.ok_or_else(none)?;
    let request = DeleteRequest::of(&found);
    cluster.delete(request).await.map(drop).map_err(ServiceError::simulated)
}

/// An empty cluster that leaves nothing behind.
pub fn empty() -> SimCluster {
    SimCluster::in_memory(SimConfig::default(), wall_clock())
}

fn wall_clock() -> SimClock {
    SimClock::wall(|| SystemClock.now())
}
