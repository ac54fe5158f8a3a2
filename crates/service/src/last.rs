//! The last sync of an application, as the log keeps it: what a deletion needs to know where nobody says it anew. What was
//! deleted since has its hooks behind it.

use std::sync::Arc;

use tidegate_executor::effects::cluster_of;
use tidegate_executor::{EngineError, Targets};
use tidegate_lifecycle::operation::Driver;
use tidegate_model::{Cascade, Destination, OperationId, OperationPhase, SyncRequest};
use tidegate_oplog::{Log, Lookup, TypedLog as _};

use crate::error::ServiceError;
use crate::log;
use crate::notices::Notices;
use crate::operations::listed;
use crate::state_dir::StateDir;

/// An operation of an application that was more than a trial, with its manifests.
pub struct LastSync {
    /// Which.
    pub operation: OperationId,
    /// What was asked.
    pub request: SyncRequest,
    /// Its manifests.
    pub targets: Targets,
    /// It has deleted the application, and its hooks have run: there is no sync since.
    pub is_deletion: bool,
}

/// The last one of an application on a cluster, or the deletion after it; `None` where the log has none whole. `open` is the log, where it is open
/// already; else it is read from a copy.
///
/// # Errors
///
/// The log cannot be read.
pub fn last_sync(
    state_dir: &StateDir,
    open: Option<&Log>,
    (destination, application): (&Destination, &str),
    notices: &dyn Notices,
) -> Result<Option<LastSync>, ServiceError> {
    tokio::task::block_in_place(|| {
        let log = match open {
            Some(log) => Arc::clone(log),
            None if state_dir.has_log()? => log::open_to_read(state_dir, notices)?,
            None => return Ok(None),
        };
        find(&log, destination, application)
    })
}

/// The same, of a log that is open, on a thread that may wait.
///
/// # Errors
///
/// The log cannot be read.
pub fn find(
    log: &Log,
    destination: &Destination,
    application: &str,
) -> Result<Option<LastSync>, ServiceError> {
    let cluster = cluster_of(destination);
    for known in listed(log, &Lookup::of_application(application))?.into_iter().rev() {
        match read(log, known.operation) {
            Ok(Some(last)) if !last.request.options.dry_run => {
                if cluster_of(&last.request.destination) != cluster {
                    continue;
                }
                let has_succeeded =
                    known.summary.is_some_and(|summary| summary.phase == OperationPhase::Succeeded);
                let deletes = last.request.deletion.is_some_and(Cascade::deletes);
                return Ok(Some(LastSync { is_deletion: has_succeeded && deletes, ..last }));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(operation = %known.operation, %error, "an operation cannot be read; the one before it counts");
            }
        }
    }
    Ok(None)
}

/// One operation; `None` where only a line is left of it.
fn read(log: &Log, operation: OperationId) -> Result<Option<LastSync>, ServiceError> {
    let loaded = log.load_as(operation)?;
    let driver = Driver::recover(loaded.snapshot, loaded.facts).map_err(EngineError::from)?;
    let Some(header) = driver.state().header() else { return Ok(None) };
    let bytes = log.blob(header.targets)?;
    let damaged = |error: serde_json::Error| EngineError::Manifests { reason: error.to_string() };
    let mut targets: Targets = serde_json::from_slice(&bytes).map_err(damaged)?;
    // A plan is carried out once, by the operation that has taken it.
    targets.pinned = None;
    Ok(Some(LastSync { operation, request: header.request.clone(), targets, is_deletion: false }))
}
