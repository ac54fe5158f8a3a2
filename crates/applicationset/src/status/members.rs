//! State of each Application in the progressive sync.

use std::collections::BTreeSet;

use tidegate_model::argo::ApplicationSetApplicationStatus;

use super::{ReconciledState, RolloutStatus};

/// Returns the entries of Applications that exist, ordered by name.
pub(super) fn member_entries(
    before: &[ApplicationSetApplicationStatus],
    seen: &ReconciledState<'_>,
) -> Vec<ApplicationSetApplicationStatus> {
    let there: BTreeSet<&str> = seen.members.iter().map(|one| one.metadata.name.as_str()).collect();
    let all = match &seen.rollout {
        RolloutStatus::Unknown => before,
        RolloutStatus::Known { members, .. } => members,
    };
    let mut all: Vec<_> =
        all.iter().filter(|one| there.contains(one.application.as_str())).cloned().collect();
    all.sort_by(|a, b| a.application.cmp(&b.application));
    all
}
