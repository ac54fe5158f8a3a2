//! An operation's manifests, stored outside the log, and values derived from them.

use std::sync::Arc;

use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Digest, Object, PackedObject, ProjectPolicy};
use tokio::sync::{OnceCell, OwnedSemaphorePermit};

use crate::effects::{Mask, Targets};
use crate::gates::GateDefinitions;
use crate::log::{Log, read_json};

/// Manifests passed from submission to planning, so that they needn't be read again.
pub(crate) struct SubmittedManifests {
    pub targets: Targets,
    /// Permit to keep the manifests in memory. Permits are limited, because many operations may be waiting.
    pub permit: OwnedSemaphorePermit,
}

/// Manifests of an operation, just planned or read on first use. They stay in memory while the operation
/// runs, in packed form.
pub(crate) struct Bundle {
    log: Log,
    pub digest: Digest,
    manifests: OnceCell<Vec<PackedObject>>,
}

impl Bundle {
    pub fn new(log: Log, digest: Digest) -> Self {
        Self { log, digest, manifests: OnceCell::new() }
    }

    /// Creates a bundle of newly stored manifests.
    pub fn from_stored(log: Log, digest: Digest, manifests: Vec<Object>) -> Self {
        let packed = manifests.into_iter().map(PackedObject::pack).collect();
        Self { log, digest, manifests: OnceCell::new_with(Some(packed)) }
    }

    pub async fn manifests(&self) -> Result<&Vec<PackedObject>, CallError> {
        self.manifests.get_or_try_init(|| read_json(&self.log, self.digest)).await
    }
}

/// Returns the mask for an operation's Secrets, or `None` if the manifests are unreadable. Unreadable
/// manifests never reach a cluster, so no text from it can contain their values.
pub(crate) async fn read_mask(log: &Log, targets: Digest) -> Option<Arc<Mask>> {
    match read_json::<Targets>(log, targets).await {
        Ok(targets) => Some(Arc::new(targets.mask())),
        Err(error) => {
            tracing::warn!(reason = error.message, "failed to read the Secret values of an operation");
            None
        }
    }
}

/// Returns the project policy of an operation.
pub(crate) async fn read_policy(log: &Log, targets: Digest) -> Result<Option<ProjectPolicy>, CallError> {
    #[derive(serde::Deserialize)]
    struct StoredTargets {
        #[serde(default)]
        mandate: Option<ProjectPolicy>,
    }
    Ok(read_json::<StoredTargets>(log, targets).await?.mandate)
}

/// Returns the gate definitions of an operation. The flag is true if a user started the operation.
pub(crate) async fn read_gates(log: &Log, targets: Digest) -> Result<(GateDefinitions, bool), CallError> {
    #[derive(serde::Deserialize)]
    struct StoredTargets {
        #[serde(default)]
        definitions: GateDefinitions,
        #[serde(default)]
        mandate: Option<ProjectPolicy>,
    }
    let StoredTargets { definitions, mandate } = read_json(log, targets).await?;
    Ok((definitions, mandate.is_none_or(|mandate| !mandate.is_automated)))
}
