//! Health rules of an operation. They may change while it is running, but earlier verdicts remain valid.

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, Timestamp};

/// Health rules that apply to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveHealthRules {
    /// Digest that identifies the health rules.
    pub digest: Digest,
    /// Time from which the rules apply to this operation.
    pub since: Timestamp,
    /// Previous rules, if the rules changed while the operation was running.
    pub before: Option<Digest>,
}

impl ActiveHealthRules {
    /// Formats a change, such as `the operation's health rules changed at 2026-11-21T09:30:00.000Z, from 0f3c21aa90be to
    /// 77ab01f2c3d4`. Returns `None` if the rules didn't change.
    pub(in crate::operation) fn describe_change(&self) -> Option<String> {
        let Self { digest, since, before } = self;
        Some(format!(
            "the operation's health rules changed at {since}, from {} to {}",
            before.as_ref()?.short(),
            digest.short()
        ))
    }
}
