//! Errors in an ApplicationSet's strategy that don't depend on its Applications.

use tidegate_model::argo::ApplicationSet;

use crate::deletion_limit::max_deletions;
use crate::deletion_order::deletion_order;
use crate::rollout::check_steps;
use crate::sync_policy::{AppSetRuleOptions, is_progressive};

/// Returns the errors in the progressive sync's steps, the deletion order, and the limit on simultaneous
/// deletions. Each of them stops syncs or deletions until it is fixed.
pub fn strategy_problems(set: &ApplicationSet, options: &AppSetRuleOptions) -> Vec<String> {
    let rollout = is_progressive(set, options).then(|| check_steps(set)).and_then(Result::err);
    let problems = [
        rollout.map(|problem| problem.to_string()),
        deletion_order(set).err().map(|problem| problem.to_string()),
        max_deletions(set).err().map(|problem| problem.to_string()),
    ];
    problems.into_iter().flatten().collect()
}
