//! The operation log of a state directory.

use std::sync::Arc;
use std::time::Duration;

use tidegate_executor::codecs;
use tidegate_executor::effects::cluster_of;
use tidegate_model::SyncRequest;
use tidegate_oplog::{Damage, Known, LogError, LogKey, SledLog};

pub use tidegate_oplog::Log;

use crate::clock;
use crate::control::client::{Asked, ask};
use crate::control::protocol::Request;
use crate::error::ServiceError;
use crate::notices::Notices;
use crate::state_dir::StateDir;

/// The key of the log, instead of the one in the state directory.
const LOG_KEY: &str = "TIDEGATE_LOG_KEY";
/// How long the lock of the state directory is tried for. Commands that only look hold it for a moment.
const LOCK_WITHIN: Duration = Duration::from_secs(3);
const LOCK_AGAIN_AFTER: Duration = Duration::from_millis(25);

/// Opens the log. While a command that only looks has it, waits a moment; a process at work is not waited for.
pub async fn lock(state_dir: &StateDir, notices: &dyn Notices) -> Result<Log, ServiceError> {
    let give_up = tokio::time::Instant::now() + LOCK_WITHIN;
    loop {
        match open_once(state_dir, notices).await {
            Err(locked @ ServiceError::Log(LogError::Locked { .. })) => {
                let asked = ask(&state_dir.socket(), &Request::open()).await?;
                let at_work = !matches!(asked, Asked::Nobody);
                if at_work || tokio::time::Instant::now() > give_up {
                    return Err(locked);
                }
            }
            result => return result,
        }
        tokio::time::sleep(LOCK_AGAIN_AFTER).await;
    }
}

/// Opens the log, once.
pub async fn open_once(state_dir: &StateDir, notices: &dyn Notices) -> Result<Log, ServiceError> {
    tokio::task::block_in_place(|| open(state_dir, notices))
}

/// Opens the log, and says what was found damaged.
fn open(state_dir: &StateDir, notices: &dyn Notices) -> Result<Log, ServiceError> {
    state_dir.close_to_others(notices)?;
    let log = tidegate_executor::open_log(state_dir.path(), given_key()?)?;
    tell_damage(&log, state_dir, notices);
    clock::settle(state_dir, &log, notices)?;
    Ok(log)
}

/// Opens the log as it is now, to read it and no more: nothing is written to the state directory, and whoever has its
/// lock keeps it.
pub fn open_to_read(state_dir: &StateDir, notices: &dyn Notices) -> Result<Log, ServiceError> {
    let log: Log = Arc::new(SledLog::open_to_read(state_dir.path(), given_key()?, codecs())?);
    tell_damage(&log, state_dir, notices);
    clock::settle(state_dir, &log, notices)?;
    Ok(log)
}

fn tell_damage(log: &Log, state_dir: &StateDir, notices: &dyn Notices) {
    let (new, known): (Vec<Damage>, Vec<Damage>) = log.damage().into_iter().partition(|damage| damage.is_new);
    if !known.is_empty() {
        let folder = state_dir.path().join("quarantine");
        notices.note(&format!(
            "the operation log was damaged before; what was found is in {}",
            folder.display()
        ));
    }
    for damage in new {
        let stream = damage.stream.map(|id| format!("{id}: ")).unwrap_or_default();
        let copy = damage.quarantine.map(|path| format!("; the bytes are kept in {}", path.display()));
        notices.warn(&format!(
            "the operation log was damaged: {stream}{}{}",
            damage.reason,
            copy.unwrap_or_default()
        ));
    }
}

/// The key from the environment; without one the log uses its own, in the state directory.
pub(crate) fn given_key() -> Result<Option<LogKey>, ServiceError> {
    let Some(text) = std::env::var_os(LOG_KEY).filter(|text| !text.is_empty()) else { return Ok(None) };
    let key =
        text.into_string().map_err(|_| "it is not text".to_owned()).and_then(|text| LogKey::parse(&text));
    key.map(Some).map_err(|reason| ServiceError::LogKey { reason })
}

/// What a sync of this application would know of its objects: the inventory in the log, if there is one. It is read
/// from a copy unless the log is open already, so that looking neither waits for a process at work nor stops one.
pub fn inventory(state_dir: &StateDir, open: Option<&Log>, request: &SyncRequest) -> Option<Known> {
    let cluster = cluster_of(&request.destination)?;
    let read = || -> Result<Option<Known>, ServiceError> {
        let log: Log = match open {
            Some(log) => Arc::clone(log),
            None if state_dir.has_log()? => {
                Arc::new(SledLog::open_to_read(state_dir.path(), given_key()?, codecs())?)
            }
            None => return Ok(None),
        };
        Ok(log.inventory(&cluster, &request.application)?)
    };
    // Without it the cluster is searched, as it is where there never was one.
    tokio::task::block_in_place(read).unwrap_or_else(|error| {
        tracing::warn!(%error, "the inventory cannot be read; the cluster is searched instead");
        None
    })
}
