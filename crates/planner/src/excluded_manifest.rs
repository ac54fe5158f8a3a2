//! Manifests that a sync skips.

use crate::findings::FindingSubject;

/// Object that a sync skips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludedManifest {
    /// Kind and name of the object, such as `Deployment shop/api`.
    pub object: String,
    /// Location of the manifest, such as `shop/api.yaml:12`.
    pub origin: String,
    /// Reason for skipping the object.
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
