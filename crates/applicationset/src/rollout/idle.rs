//! What is asked of a set for which nothing is under way: what is there instead, and what to do.

use tidegate_lifecycle::rollout::{End, Member, Progress, Rollout};
use tidegate_model::argo::ApplicationSet;

use super::full_name;
use crate::policy::{Options, is_progressive};

/// Why something cannot be asked of a set: no progressive sync and no ordered deletion of it is under way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{set}: there is nothing to {verb}: {how}")]
pub struct Idle {
    /// The set.
    pub set: String,
    /// What was asked for.
    pub verb: String,
    /// What there is, and what to do.
    pub how: String,
}

impl Idle {
    /// About a set.
    pub fn new(set: &ApplicationSet, verb: &str, how: String) -> Self {
        Self { set: format!("ApplicationSet {}", full_name(set)), verb: verb.to_owned(), how }
    }
}

/// How a set stands for which nothing is under way, and what to do. `last`: its newest progressive sync, which is over.
pub fn how(set: &ApplicationSet, last: Option<&Rollout>, options: &Options) -> String {
    let name = full_name(set);
    if set.metadata.deletion_timestamp.is_some() {
        return format!(
            "it is being deleted, and no ordered deletion is under way; `tidegate appset explain {name}` says what it waits for"
        );
    }
    if !is_progressive(set, options) {
        return "it has no progressive sync (strategy RollingSync with steps): each Application is synced by its own policy, and `tidegate app sync NAME` syncs one".to_owned();
    }
    let Some(last) = last else {
        return format!(
            "it has had no progressive sync yet; one begins when an Application is not at its target, and `tidegate appset explain {name}` says how it stands"
        );
    };
    let message = last.outcome.as_ref().map(|outcome| outcome.message.as_str()).unwrap_or_default();
    let then = again(set, last).unwrap_or_else(|| "another one begins by itself when there are other targets, and `tidegate app sync NAME` deploys one of its Applications once more".to_owned());
    format!("its last progressive sync is over ({message}); {then}")
}

/// How a progressive sync that has ended is begun again; `None`, where it has brought all to their targets.
pub fn again(set: &ApplicationSet, last: &Rollout) -> Option<String> {
    let name = full_name(set);
    let how = || format!("`tidegate appset retry {name}`, without --app and --step, begins it again");
    is_left_to_do(last).then(how)
}

/// Whether a progressive sync that has ended can be begun again: it has not brought all to their targets. `None`, where there
/// was none, is nothing to be begun again.
pub fn why_not_again(set: &ApplicationSet, last: Option<&Rollout>, options: &Options) -> Result<(), Idle> {
    let is_wanted = is_progressive(set, options) && set.metadata.deletion_timestamp.is_none();
    let is_due = is_wanted && last.is_some_and(is_left_to_do);
    if is_due { Ok(()) } else { Err(Idle::new(set, "retry", how(set, last, options))) }
}

fn is_left_to_do(rollout: &Rollout) -> bool {
    let is_at_target = |member: &Member| matches!(member.progress, Progress::Healthy { .. } | Progress::Gone);
    let mut selected = rollout.members.values().filter(|member| member.place.step.is_some());
    let is_cut = rollout.outcome.as_ref().is_none_or(|outcome| outcome.end != End::Completed);
    is_cut || !selected.all(is_at_target)
}
