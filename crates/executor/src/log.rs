//! The log, as those who wait for nothing else call it: on a thread for blocking work.

use std::sync::{Arc, OnceLock};

use tidegate_lifecycle::operation::CallError;
use tidegate_model::Digest;

/// The log every actor shares.
pub(crate) type Log = tidegate_oplog::Log;

/// Why the log takes nothing any more. Set once, by whoever sees it first.
pub(crate) type LogFailure = Arc<OnceLock<String>>;

/// Why a batch was not written.
#[derive(Clone, Debug)]
pub(crate) enum AppendFailure {
    /// The log takes nothing any more; in its words.
    Final(String),
    /// The log refused this group and goes on; in its words.
    Refused(String),
    /// The log actor failed: the batch may be written or not.
    Lost,
}

/// The log actor has failed: whether a batch was written is not known, so its operation goes on from the log.
#[derive(Debug, thiserror::Error)]
#[error("the log actor failed before it told whether facts were written")]
pub(crate) struct LogLost;

/// Calls the log on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    log: &Log,
    call: impl FnOnce(&Log) -> Result<T, tidegate_oplog::LogError> + Send + 'static,
) -> Result<T, tidegate_oplog::LogError> {
    let log = Arc::clone(log);
    match tokio::task::spawn_blocking(move || call(&log)).await {
        Ok(result) => result,
        // A panic in the log, or the runtime is going down: in both cases nothing more can be trusted to it.
        Err(_) => Err(tidegate_oplog::LogError::Poisoned),
    }
}

/// Reads JSON that was kept outside the log. Damage there is final: asking again does not mend it.
pub(crate) async fn read<T: serde::de::DeserializeOwned + Send + 'static>(
    log: &Log,
    digest: Digest,
) -> Result<T, CallError> {
    let bytes = blocking(log, move |log| log.blob(digest)).await.map_err(|error| {
        CallError::permanent(format!("the operation's manifests cannot be read: {error}"))
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| CallError::permanent(format!("the operation's manifests are damaged: {error}")))
}

/// Keeps a value as JSON outside the log.
pub(crate) async fn keep<T: serde::Serialize>(log: &Log, value: &T) -> Result<Digest, CallError> {
    let bytes = serde_json::to_vec(value)
        .map_err(|error| CallError::permanent(format!("the manifests cannot be written as JSON: {error}")))?;
    blocking(log, move |log| log.put_blob(&bytes))
        .await
        .map_err(|error| CallError::permanent(format!("the manifests cannot be kept: {error}")))
}
