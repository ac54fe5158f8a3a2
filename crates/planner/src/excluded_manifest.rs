//! Manifests that a sync skips.

use crate::findings::FindingSubject;

/// Manifest object that a sync skips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludedManifest {
    /// The object: `Deployment shop/api`.
    pub object: String,
    /// Source: `shop/api.yaml:12`.
    pub origin: String,
    /// Reason why the sync skips the object.
    pub reason: String,
    pub(crate) position: usize,
}

impl ExcludedManifest {
    pub(crate) fn new(subject: &FindingSubject, reason: &str) -> Self {
        Self {
            object: subject.object_text().unwrap_or_default(),
            origin: subject.origin_text().unwrap_or_default(),
            reason: reason.to_owned(),
            position: subject.position,
        }
    }
}
