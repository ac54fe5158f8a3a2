//! The log, as those who wait for nothing else call it: on a thread for blocking work.

use std::sync::{Arc, OnceLock};

use tidegate_lifecycle::operation::CallError;
use tidegate_model::Digest;
use tidegate_oplog::LogError;

use crate::error::EngineError;

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
    call: impl FnOnce(&Log) -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    let log = Arc::clone(log);
    match tokio::task::spawn_blocking(move || call(&log)).await {
        Ok(result) => result,
        // A panic in the log, or the runtime is going down: in both cases nothing more can be trusted to it.
        Err(_) => Err(LogError::Poisoned),
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

/// Why a value was not kept outside the log.
#[derive(Debug)]
pub(crate) enum NotKept {
    /// The log takes nothing any more; in its words.
    Final(String),
    /// This value cannot be kept, and the log goes on; with the reason.
    Refused(String),
}

impl From<NotKept> for EngineError {
    fn from(not_kept: NotKept) -> Self {
        match not_kept {
            NotKept::Final(reason) => Self::LogFailed { reason },
            NotKept::Refused(reason) => Self::Manifests { reason },
        }
    }
}

impl From<NotKept> for CallError {
    fn from(not_kept: NotKept) -> Self {
        match not_kept {
            NotKept::Final(reason) => Self::permanent(format!("the manifests cannot be kept: {reason}")),
            NotKept::Refused(reason) => Self::permanent(reason),
        }
    }
}

/// Keeps a value as JSON outside the log, unless the log has failed before. Where there is no place for it any more, the log has
/// failed as by an append: what cannot be kept is nothing that an operation has done, and is gone on with after a restart.
pub(crate) async fn keep<T: serde::Serialize>(
    log: &Log,
    failure: &LogFailure,
    value: &T,
) -> Result<Digest, NotKept> {
    if let Some(reason) = failure.get() {
        return Err(NotKept::Final(reason.clone()));
    }
    let bytes = serde_json::to_vec(value)
        .map_err(|error| NotKept::Refused(format!("the manifests cannot be written as JSON: {error}")))?;
    match blocking(log, move |log| log.put_blob(&bytes)).await {
        Ok(digest) => Ok(digest),
        Err(error) if is_refusal(&error) => {
            Err(NotKept::Refused(format!("the manifests cannot be kept: {error}")))
        }
        Err(error) => Err(NotKept::Final(failure.get_or_init(|| error.to_string()).clone())),
    }
}

/// Whether the log refused what it was given, of which then nothing is kept, and goes on. Anything else is final.
pub(crate) fn is_refusal(error: &LogError) -> bool {
    matches!(
        error,
        LogError::Damaged { .. }
            | LogError::UnknownStream { .. }
            | LogError::UnknownKind { .. }
            | LogError::OtherKind { .. }
            | LogError::NewerRecord { .. }
            | LogError::TooLarge { .. }
            | LogError::Encoding { .. }
            | LogError::Gap { .. }
            | LogError::Fenced { .. }
            | LogError::Compacted { .. }
            | LogError::BlobMissing { .. }
            | LogError::BlobDamaged { .. }
    )
}
