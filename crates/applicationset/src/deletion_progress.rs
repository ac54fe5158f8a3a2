//! Progress of an ApplicationSet's deletion, next to its rollout and its ordered deletion.

use tidegate_model::argo::{Application, ApplicationSet};

use crate::deletion::{AppSetDeletionStep, next_deletion_step, without_ownership};
use crate::references::References;
use crate::sync_policy::AppSetRuleOptions;
use crate::teardown_steps::{NewestTeardown, is_skipped};

/// State of an ApplicationSet that is being deleted.
pub struct DeletionState<'a> {
    /// True if a progressive sync is running.
    pub is_rollout_running: bool,
    /// Newest ordered deletion.
    pub newest: NewestTeardown<'a>,
    /// Applications that exist.
    pub existing: &'a [Application],
    /// Returns true if an Application's deletion waits for the ApplicationSet.
    pub is_waiting: &'a dyn Fn(&Application) -> bool,
    /// Looks up an Application by name and UID.
    pub exists: &'a dyn Fn(&str, &str) -> bool,
}

/// Next action in the deletion of an ApplicationSet.
#[derive(Clone, Debug, PartialEq)]
pub enum DeletionAction {
    /// Ends the progressive sync.
    EndRollout,
    /// Updates these skipped Applications so that they outlive the ApplicationSet, then decides again.
    ReleaseSkipped(Vec<Application>),
    /// Waits until the ordered deletion has recorded its end.
    AwaitTeardown,
    /// Performs this step.
    Step(AppSetDeletionStep),
}

/// Separates the Applications that a user skipped from all others.
pub fn split_skipped(
    set: &ApplicationSet,
    newest: NewestTeardown<'_>,
    existing: &[Application],
) -> (Vec<Application>, Vec<Application>) {
    let own = newest.of_appset(set);
    existing.iter().cloned().partition(|one| own.is_some_and(|last| is_skipped(last, one)))
}

/// Returns the next action in the deletion of an ApplicationSet.
pub fn next_deletion_action(
    set: &ApplicationSet,
    state: &DeletionState<'_>,
    known: &dyn References,
    options: &AppSetRuleOptions,
) -> DeletionAction {
    if state.is_rollout_running {
        return DeletionAction::EndRollout;
    }
    let (skipped, others) = split_skipped(set, state.newest, state.existing);
    let outlives = |one: &&Application| !one.is_deleting() || (state.is_waiting)(one);
    let free: Vec<_> = skipped.iter().filter(outlives).map(|one| without_ownership(set, one)).collect();
    if !state.newest.is_running && !free.is_empty() {
        return DeletionAction::ReleaseSkipped(free);
    }
    match next_deletion_step(set, &others, known, options) {
        AppSetDeletionStep::Finish { .. } if state.newest.will_end(state.exists) => {
            DeletionAction::AwaitTeardown
        }
        // A paused deletion doesn't end, and Kubernetes would delete the skipped Applications.
        AppSetDeletionStep::Finish { .. } if !free.is_empty() => DeletionAction::ReleaseSkipped(free),
        step => DeletionAction::Step(step),
    }
}
