//! Which health rules an operation is judged by. They may change while it runs; what it has seen stays.

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, Timestamp};

/// The health rules an operation is judged by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedBy {
    /// Digest by which the engine tells one set of rules from another.
    pub digest: Digest,
    /// When they came into use for this operation.
    pub since: Timestamp,
    /// Those before, where they changed while the operation ran.
    pub before: Option<Digest>,
}

impl JudgedBy {
    /// `its health rules changed at 2026-11-21T09:30:00.000Z, from 0f3c21aa90be to 77ab01f2c3d4`; nothing where they did
    /// not.
    pub(in crate::operation) fn change(&self) -> Option<String> {
        let Self { digest, since, before } = self;
        Some(format!(
            "its health rules changed at {since}, from {} to {}",
            before.as_ref()?.short(),
            digest.short()
        ))
    }
}
