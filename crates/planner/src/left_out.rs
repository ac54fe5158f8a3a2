//! What takes no part in a sync.

use crate::findings::Subject;

/// A wanted object that takes no part in the sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The object: `Deployment shop/api`.
    pub object: String,
    /// Where it was read: `shop/api.yaml:12`.
    pub origin: String,
    /// Why it is left out.
    pub reason: String,
    pub(crate) place: usize,
}

impl LeftOut {
    pub(crate) fn new(subject: &Subject, reason: &str) -> Self {
        Self {
            object: subject.object().unwrap_or_default(),
            origin: subject.origin().unwrap_or_default(),
            reason: reason.to_owned(),
            place: subject.place,
        }
    }
}
