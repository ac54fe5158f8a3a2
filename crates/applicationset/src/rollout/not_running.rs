//! Errors for user requests to an ApplicationSet that isn't running a rollout or deletion.

use tidegate_lifecycle::rollout::{End, Member, Progress, Rollout};
use tidegate_model::argo::ApplicationSet;

use super::qualified_name;
use crate::sync_policy::{AppSetRuleOptions, is_progressive};

/// Error returned when the ApplicationSet isn't running a progressive sync or an ordered deletion.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{appset}: nothing to {verb}: {situation}")]
pub struct NoRunningMachine {
    /// Name of the ApplicationSet.
    pub appset: String,
    /// Verb of the request, such as `pause`.
    pub verb: String,
    /// The ApplicationSet's state, and what to do next.
    pub situation: String,
}

impl NoRunningMachine {
    /// Creates the error for an ApplicationSet.
    pub fn new(set: &ApplicationSet, verb: &str, how: String) -> Self {
        Self {
            appset: format!("ApplicationSet {}", qualified_name(set)),
            verb: verb.to_owned(),
            situation: how,
        }
    }
}

/// Describes the state of an ApplicationSet that isn't running a rollout or deletion, and what to do next.
/// `last` is its newest progressive sync, which has finished.
pub fn describe_situation(
    set: &ApplicationSet,
    last: Option<&Rollout>,
    options: &AppSetRuleOptions,
) -> String {
    let name = qualified_name(set);
    if set.metadata.deletion_timestamp.is_some() {
        return format!(
            "it is being deleted without an ordered deletion; `tidegate appset explain {name}` shows what it \
             is waiting for"
        );
    }
    if !is_progressive(set, options) {
        return "it has no progressive sync (strategy RollingSync with steps): each Application is synced according to its own policy, and `tidegate app sync NAME` syncs a single Application".to_owned();
    }
    let Some(last) = last else {
        return format!(
            "it has not had a progressive sync yet; a progressive sync starts when an Application is not at \
             its target, and `tidegate appset explain {name}` shows its state"
        );
    };
    let message = last.outcome.as_ref().map(|outcome| outcome.message.as_str()).unwrap_or_default();
    let then = retry_command(set, last).unwrap_or_else(|| {
        "another progressive sync starts automatically when the targets change, and `tidegate app sync \
         NAME` syncs a single Application"
            .to_owned()
    });
    format!("its last progressive sync has ended ({message}); {then}")
}

/// Returns the command that restarts a finished progressive sync, or `None` if all Applications have reached
/// their targets.
pub fn retry_command(set: &ApplicationSet, last: &Rollout) -> Option<String> {
    let name = qualified_name(set);
    let how =
        || format!("`tidegate appset retry {name}` (without --app and --step) restarts the progressive sync");
    has_remaining_members(last).then(how)
}

/// Checks that a finished progressive sync can be restarted: some Applications haven't reached their targets.
/// `last` is `None` if no progressive sync has run yet.
///
/// # Errors
///
/// Fails if the progressive sync can't be restarted.
pub fn check_retry(
    set: &ApplicationSet,
    last: Option<&Rollout>,
    options: &AppSetRuleOptions,
) -> Result<(), NoRunningMachine> {
    let is_wanted = is_progressive(set, options) && set.metadata.deletion_timestamp.is_none();
    let is_due = is_wanted && last.is_some_and(has_remaining_members);
    if is_due {
        Ok(())
    } else {
        Err(NoRunningMachine::new(set, "retry", describe_situation(set, last, options)))
    }
}

fn has_remaining_members(rollout: &Rollout) -> bool {
    let is_at_target = |member: &Member| matches!(member.progress, Progress::Healthy { .. } | Progress::Gone);
    let mut selected = rollout.members.values().filter(|member| member.place.step.is_some());
    let is_cut = rollout.outcome.as_ref().is_none_or(|outcome| outcome.end != End::Completed);
    is_cut || !selected.all(is_at_target)
}
