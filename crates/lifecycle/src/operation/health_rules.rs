//! Which health rules an operation is judged by. They may change while it runs; what it has seen stays.

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, Timestamp};

use super::fact::Fact;
use super::state::{Header, State};

/// The health rules an operation is judged by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedBy {
    /// Which.
    pub digest: Digest,
    /// Since when.
    pub since: Timestamp,
    /// Those before, where they changed while the operation ran.
    pub before: Option<Digest>,
}

/// Objects are judged by these rules from now on.
pub(super) fn known(header: &Header, digest: Digest, now: Timestamp) -> Vec<Fact> {
    let is_recorded = header.health_rules.as_ref().is_some_and(|known| known.digest == digest);
    if is_recorded { Vec::new() } else { vec![Fact::HealthRulesKnown { digest, at: now }] }
}

pub(super) fn evolve(header: &mut Header, digest: Digest, at: Timestamp) {
    let before = header.health_rules.take().map(|known| known.digest);
    header.health_rules = Some(Box::new(JudgedBy { digest, since: at, before }));
}

impl State {
    /// Whether the operation judges objects, and not by these rules as far as is recorded.
    pub fn lacks_health_rules(&self, digest: Digest) -> bool {
        let Self::Running(operation) = self else { return false };
        operation.header.health_rules.as_ref().is_none_or(|known| known.digest != digest)
    }
}

/// `its health rules changed at 2026-11-21T09:30:00.000Z, from 0f3c21aa90be to 77ab01f2c3d4`; nothing where they did not.
pub(super) fn changed(header: &Header) -> Option<String> {
    let JudgedBy { digest, since, before } = header.health_rules.as_deref()?;
    Some(format!(
        "its health rules changed at {since}, from {} to {}",
        before.as_ref()?.short(),
        digest.short()
    ))
}
