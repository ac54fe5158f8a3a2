//! Calls to the log on blocking threads, for callers that don't need group commit.

use std::sync::{Arc, OnceLock};

use tidegate_lifecycle::operation::CallError;
use tidegate_model::Digest;
use tidegate_oplog::LogError;

use crate::error::EngineError;

/// The log shared by all actors.
pub(crate) type Log = tidegate_oplog::Log;

/// Reason why the log rejects all records, set by the first caller to get the log's error.
pub(crate) type LogFailure = Arc<OnceLock<String>>;

/// Reason for failing to write a batch.
#[derive(Clone, Debug)]
pub(crate) enum AppendFailure {
    /// The log rejects all later records. Contains the log's message.
    Final(String),
    /// The log rejected this group but still accepts other records. Contains the log's message.
    Rejected(String),
    /// The log actor failed, so the batch may or may not have been written.
    Lost,
}

/// Error for a failed log actor. The outcome of a batch is then unknown, so its operation continues from the
/// log.
#[derive(Debug, thiserror::Error)]
#[error("the log actor failed before confirming whether events were written")]
pub(crate) struct LogActorFailed;

/// Calls the log on a blocking thread.
pub(crate) async fn run_blocking<T: Send + 'static>(
    log: &Log,
    call: impl FnOnce(&Log) -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    let log = Arc::clone(log);
    match tokio::task::spawn_blocking(move || call(&log)).await {
        Ok(result) => result,
        // The log has panicked, or the runtime is shutting down. Either way, the log can't be relied on.
        Err(_) => Err(LogError::Poisoned),
    }
}

/// Returns the error of a call that could not read from the log. Only an outage of the log is temporary.
pub(crate) fn read_error(what: &str, error: &LogError) -> CallError {
    let message = format!("{what} cannot be read: {error}");
    if error.is_outage() { CallError::outage(message) } else { CallError::permanent(message) }
}

/// Reads JSON stored outside the log. Damage is permanent, so retries are pointless.
pub(crate) async fn read_json<T: serde::de::DeserializeOwned + Send + 'static>(
    log: &Log,
    digest: Digest,
) -> Result<T, CallError> {
    let bytes = run_blocking(log, move |log| log.blob(digest))
        .await
        .map_err(|error| read_error("the operation's manifests", &error))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| CallError::permanent(format!("the operation's manifests are damaged: {error}")))
}

/// Reason for failing to store a value outside the log.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// The log rejects all later records. Contains the log's message.
    Final(String),
    /// The log can't store this value but still accepts others. Contains the reason.
    Rejected(String),
}

impl From<StoreError> for EngineError {
    fn from(not_kept: StoreError) -> Self {
        match not_kept {
            StoreError::Final(reason) => Self::LogFailed { reason },
            StoreError::Rejected(reason) => Self::Manifests { reason },
        }
    }
}

impl From<StoreError> for CallError {
    fn from(not_kept: StoreError) -> Self {
        match not_kept {
            StoreError::Final(reason) => Self::permanent(format!("the manifests cannot be stored: {reason}")),
            StoreError::Rejected(reason) => Self::permanent(reason),
        }
    }
}

/// Stores a value as JSON outside the log, unless the log has already failed. A full disk fails the log, as
/// for an append. No event refers to the value yet, so the operation can continue after a restart.
pub(crate) async fn store_json<T: serde::Serialize>(
    log: &Log,
    failure: &LogFailure,
    value: &T,
) -> Result<Digest, StoreError> {
    if let Some(reason) = failure.get() {
        return Err(StoreError::Final(reason.clone()));
    }
    let bytes = serde_json::to_vec(value)
        .map_err(|error| StoreError::Rejected(format!("the manifests cannot be encoded as JSON: {error}")))?;
    match run_blocking(log, move |log| log.put_blob(&bytes)).await {
        Ok(digest) => Ok(digest),
        Err(error) if is_rejection(&error) => {
            Err(StoreError::Rejected(format!("the manifests cannot be stored: {error}")))
        }
        Err(error) => Err(StoreError::Final(failure.get_or_init(|| error.to_string()).clone())),
    }
}

/// Returns true if the log rejected its input without storing anything, and still accepts other records. All
/// other errors are final.
pub(crate) fn is_rejection(error: &LogError) -> bool {
    matches!(
        error,
        LogError::Damaged { .. }
            | LogError::UnknownStream { .. }
            | LogError::UnknownKind { .. }
            | LogError::KindMismatch { .. }
            | LogError::NewerRecord { .. }
            | LogError::TooLarge { .. }
            | LogError::Encoding { .. }
            | LogError::Gap { .. }
            | LogError::Fenced { .. }
            | LogError::NotOwner
            | LogError::OtherReplica { .. }
            | LogError::Compacted { .. }
            | LogError::BlobMissing { .. }
            | LogError::BlobDamaged { .. }
    )
}
