//! The manifests of an operation, kept outside the log, and what is known from them.

use std::sync::Arc;

use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Digest, Mandate, Object, PackedObject};
use tokio::sync::{OnceCell, OwnedSemaphorePermit};

use crate::effects::{Mask, Targets};
use crate::gates::GateDefinitions;
use crate::log::{Log, read};

/// Manifests on their way from a submit to the planning, which need not read them again.
pub(crate) struct HandedOver {
    pub targets: Targets,
    /// One of a few: a crowd of operations must not wait with all their manifests in memory.
    pub place: OwnedSemaphorePermit,
}

/// The manifests of an operation: those just planned, or read when the first of them is needed. They are held for as long
/// as the operation works, so they are packed.
pub(crate) struct Bundle {
    log: Log,
    pub digest: Digest,
    manifests: OnceCell<Vec<PackedObject>>,
}

impl Bundle {
    pub fn new(log: Log, digest: Digest) -> Self {
        Self { log, digest, manifests: OnceCell::new() }
    }

    /// The manifests that have just been kept.
    pub fn kept(log: Log, digest: Digest, manifests: Vec<Object>) -> Self {
        let packed = manifests.into_iter().map(PackedObject::pack).collect();
        Self { log, digest, manifests: OnceCell::new_with(Some(packed)) }
    }

    pub async fn manifests(&self) -> Result<&Vec<PackedObject>, CallError> {
        self.manifests.get_or_try_init(|| read(&self.log, self.digest)).await
    }
}

/// What must not show of an operation's Secrets. Without its manifests nothing of them reaches a cluster, so nothing of
/// them comes back.
pub(crate) async fn mask(log: &Log, targets: Digest) -> Option<Arc<Mask>> {
    match read::<Targets>(log, targets).await {
        Ok(targets) => Some(Arc::new(targets.mask())),
        Err(error) => {
            tracing::warn!(reason = error.message, "the values of an operation's Secrets are not known");
            None
        }
    }
}

/// What an operation was begun for.
pub(crate) async fn mandate(log: &Log, targets: Digest) -> Result<Option<Mandate>, CallError> {
    #[derive(serde::Deserialize)]
    struct Kept {
        #[serde(default)]
        mandate: Option<Mandate>,
    }
    Ok(read::<Kept>(log, targets).await?.mandate)
}

/// What the names of an operation's gates stand for, and whether a person began it.
pub(crate) async fn gates(log: &Log, targets: Digest) -> Result<(GateDefinitions, bool), CallError> {
    #[derive(serde::Deserialize)]
    struct Kept {
        #[serde(default)]
        definitions: GateDefinitions,
        #[serde(default)]
        mandate: Option<Mandate>,
    }
    let Kept { definitions, mandate } = read(log, targets).await?;
    Ok((definitions, mandate.is_none_or(|mandate| !mandate.is_automated)))
}
