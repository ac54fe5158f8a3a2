//! The operation log in a state directory.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidegate_executor::codecs;
use tidegate_executor::effects::cluster_identity;
use tidegate_model::SyncRequest;
use tidegate_oplog::{ApplicationInventory, Damage, LogError, LogKey, SledLog};

pub use tidegate_oplog::Log;

use crate::clock;
use crate::error::ServiceError;
use crate::notices::Notices;
use crate::state_dir::StateDir;

/// Environment variable for a log key that overrides the key in the state directory.
const LOG_KEY_VARIABLE: &str = "TIDEGATE_LOG_KEY";
/// Maximum wait for the lock on the state directory. Read-only commands hold it only briefly.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(25);

/// Function that returns true if a process is listening on a control socket. If none is, only a short-lived
/// command can hold the lock.
pub type ProcessQuery = for<'a> fn(&'a Path) -> BoxFuture<'a, Result<bool, ServiceError>>;

/// Opens the log. Waits briefly for a read-only command that holds the lock, but fails at once if
/// `is_process_running` finds a long-running process.
pub async fn open_locked(
    state_dir: &StateDir,
    notices: &dyn Notices,
    is_process_running: ProcessQuery,
) -> Result<Log, ServiceError> {
    let give_up = tokio::time::Instant::now() + LOCK_TIMEOUT;
    loop {
        match open_once(state_dir, notices).await {
            Err(locked @ ServiceError::Log(LogError::Locked { .. })) => {
                let at_work = is_process_running(&state_dir.socket()).await?;
                if at_work || tokio::time::Instant::now() > give_up {
                    return Err(locked);
                }
            }
            result => return result,
        }
        tokio::time::sleep(LOCK_RETRY_DELAY).await;
    }
}

/// Opens the log in a single attempt.
pub async fn open_once(state_dir: &StateDir, notices: &dyn Notices) -> Result<Log, ServiceError> {
    tokio::task::block_in_place(|| open(state_dir, notices))
}

/// Opens the log and reports any damage.
fn open(state_dir: &StateDir, notices: &dyn Notices) -> Result<Log, ServiceError> {
    state_dir.restrict_to_owner(notices)?;
    let log = tidegate_executor::open_log(state_dir.path(), key_from_environment()?)?;
    report_damage(&log, state_dir, notices);
    clock::initialize_clock(state_dir, &log, notices)?;
    Ok(log)
}

/// Opens the current log read-only. Never writes to the state directory and doesn't need its lock.
pub fn open_read_only(state_dir: &StateDir, notices: &dyn Notices) -> Result<Log, ServiceError> {
    let log: Log = Arc::new(SledLog::open_read_only(state_dir.path(), key_from_environment()?, codecs())?);
    report_damage(&log, state_dir, notices);
    clock::initialize_clock(state_dir, &log, notices)?;
    Ok(log)
}

fn report_damage(log: &Log, state_dir: &StateDir, notices: &dyn Notices) {
    let (new, known): (Vec<Damage>, Vec<Damage>) = log.damage().into_iter().partition(|damage| damage.is_new);
    if !known.is_empty() {
        let folder = state_dir.path().join("quarantine");
        notices.note(&format!(
            "the operation log was damaged earlier; the damaged data is in {}",
            folder.display()
        ));
    }
    for damage in new {
        let stream = damage.stream.map(|id| format!("{id}: ")).unwrap_or_default();
        let copy = damage.quarantine.map(|path| format!("; the damaged bytes are in {}", path.display()));
        notices.warn(&format!(
            "the operation log was damaged: {stream}{}{}",
            damage.reason,
            copy.unwrap_or_default()
        ));
    }
}

/// Returns the key from the environment, if set. Otherwise, the log uses the key in its state directory.
pub fn key_from_environment() -> Result<Option<LogKey>, ServiceError> {
    let Some(text) = std::env::var_os(LOG_KEY_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let key = text
        .into_string()
        .map_err(|_| "it is not UTF-8 text".to_owned())
        .and_then(|text| LogKey::parse(&text));
    key.map(Some).map_err(|reason| ServiceError::LogKey { reason })
}

/// Returns the inventory from a sync of this Application in the log, if any. Unless the log is already open,
/// reads a copy, so a running process neither delays the call nor is blocked by it.
pub fn find_inventory(
    state_dir: &StateDir,
    open: Option<&Log>,
    request: &SyncRequest,
) -> Option<ApplicationInventory> {
    let cluster = cluster_identity(&request.destination)?;
    let read = || -> Result<Option<ApplicationInventory>, ServiceError> {
        let log: Log = match open {
            Some(log) => Arc::clone(log),
            None if state_dir.has_log()? => {
                Arc::new(SledLog::open_read_only(state_dir.path(), key_from_environment()?, codecs())?)
            }
            None => return Ok(None),
        };
        Ok(log.inventory(&cluster, &request.application)?)
    };
    // Without an inventory, search the cluster, as for an Application that never had one.
    tokio::task::block_in_place(read).unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to read the inventory; searching the cluster instead");
        None
    })
}
