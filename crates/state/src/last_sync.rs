//! Finds an Application's last sync in the log, for deleting the Application when its manifests aren't
//! available. A completed deletion after the sync is used instead, because its hooks have already run.

use std::sync::Arc;

use tidegate_executor::effects::cluster_identity;
use tidegate_executor::{EngineError, Targets};
use tidegate_lifecycle::operation::Driver;
use tidegate_model::{Cascade, Destination, OperationId, OperationPhase, SyncRequest};
use tidegate_oplog::{Log, Lookup, TypedLog as _};

use crate::error::ServiceError;
use crate::log;
use crate::notices::Notices;
use crate::operations::list_operations;
use crate::state_dir::StateDir;

/// Sync or deletion of an Application, with its manifests. Never a dry run.
pub struct LastSync {
    /// ID of the sync or deletion.
    pub operation: OperationId,
    /// Request that started the operation.
    pub request: SyncRequest,
    /// Manifests used by the operation.
    pub targets: Targets,
    /// True if the operation successfully deleted the Application, including its hooks.
    pub is_deletion: bool,
}

/// Returns an Application's last sync on a cluster, or the deletion that followed it. Returns `None` if the
/// log has no details of either. Without an `open` log, reads a copy.
///
/// # Errors
///
/// Returns an error if the log is unreadable.
pub fn find_last_sync(
    state_dir: &StateDir,
    open: Option<&Log>,
    destination: &Destination,
    application: &str,
    notices: &dyn Notices,
) -> Result<Option<LastSync>, ServiceError> {
    tokio::task::block_in_place(|| {
        let log = match open {
            Some(log) => Arc::clone(log),
            None if state_dir.has_log()? => log::open_read_only(state_dir, notices)?,
            None => return Ok(None),
        };
        find_in_log(&log, destination, application)
    })
}

/// Like [`find_last_sync`], but searches an open log. Blocks.
///
/// # Errors
///
/// Returns an error if the log is unreadable.
pub fn find_in_log(
    log: &Log,
    destination: &Destination,
    application: &str,
) -> Result<Option<LastSync>, ServiceError> {
    let cluster = cluster_identity(destination);
    for known in list_operations(log, &Lookup::of_application(application))?.into_iter().rev() {
        match read_sync(log, known.operation) {
            Ok(Some(last)) if !last.request.options.dry_run => {
                if cluster_identity(&last.request.destination) != cluster {
                    continue;
                }
                let has_succeeded =
                    known.summary.is_some_and(|summary| summary.phase == OperationPhase::Succeeded);
                let deletes = last.request.deletion.is_some_and(Cascade::deletes_objects);
                return Ok(Some(LastSync { is_deletion: has_succeeded && deletes, ..last }));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(operation = %known.operation, %error, "failed to read an operation; using the previous one");
            }
        }
    }
    Ok(None)
}

/// Returns an operation's sync, or `None` if only its summary is left.
pub fn read_sync(log: &Log, operation: OperationId) -> Result<Option<LastSync>, ServiceError> {
    let loaded = log.load_as(operation)?;
    let driver = Driver::recover(loaded.snapshot, loaded.events).map_err(EngineError::from)?;
    let Some(header) = driver.state().header() else { return Ok(None) };
    let bytes = log.blob(header.targets)?;
    let damaged = |error: serde_json::Error| EngineError::Manifests { reason: error.to_string() };
    let mut targets: Targets = serde_json::from_slice(&bytes).map_err(damaged)?;
    // Only the operation that claimed the plan may execute it.
    targets.pinned = None;
    Ok(Some(LastSync { operation, request: header.request.clone(), targets, is_deletion: false }))
}
