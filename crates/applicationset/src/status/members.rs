//! How each Application stands in the progressive sync.

use std::collections::BTreeSet;

use tidegate_model::argo::ApplicationSetApplicationStatus;

use super::{Rollout, Seen};

/// Those of the Applications that are there, by their names.
pub(super) fn members(
    before: &[ApplicationSetApplicationStatus],
    seen: &Seen<'_>,
) -> Vec<ApplicationSetApplicationStatus> {
    let there: BTreeSet<&str> = seen.members.iter().map(|one| one.metadata.name.as_str()).collect();
    let all = match &seen.rollout {
        Rollout::Unknown => before,
        Rollout::Known { members, .. } => members,
    };
    let mut all: Vec<_> =
        all.iter().filter(|one| there.contains(one.application.as_str())).cloned().collect();
    all.sort_by(|a, b| a.application.cmp(&b.application));
    all
}
