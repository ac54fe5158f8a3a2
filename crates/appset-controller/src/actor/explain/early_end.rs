//! Explains a rollout or ordered deletion that was terminated early: who terminated it, what remains, and how
//! to continue.

use tidegate_applicationset::ownership::{Owner, owner_of};
use tidegate_applicationset::rollout::qualified_name;
use tidegate_lifecycle::fleet::{Explanation, join_names};
use tidegate_lifecycle::teardown::{End, State};
use tidegate_model::argo::Application;

use super::ActorState;

impl ActorState {
    /// Returns the last ordered deletion if it was terminated early and still matters: some of its
    /// Applications exist, and no other run has started since.
    pub(in crate::actor) fn incomplete_deletion(&self) -> Option<&State> {
        let is_newest = self.rollouts.id < self.teardowns.id;
        let is_relevant = self.is_deleting() || is_newest && self.rollouts.running.is_none();
        (is_relevant && self.is_deletion_incomplete() && self.remaining_applications().next().is_some())
            .then_some(())?;
        self.teardowns.last.as_ref()
    }

    fn is_deletion_incomplete(&self) -> bool {
        let outcome = self.own_teardown().and_then(|teardown| teardown.outcome.as_ref());
        outcome.is_some_and(|outcome| outcome.end != End::Completed)
    }

    /// Returns the Applications that the last ordered deletion kept.
    fn remaining_applications(&self) -> impl Iterator<Item = &Application> {
        let own =
            self.members.values().map(AsRef::as_ref).filter(|one| owner_of(&self.set, one) == Owner::AppSet);
        own.filter(|one| self.was_skipped(&one.metadata.name, &one.metadata.uid))
    }

    /// Explains why an ApplicationSet still exists after an incomplete ordered deletion.
    pub(in crate::actor) fn describe_incomplete_deletion(&self) -> Option<String> {
        let outcome = self.own_teardown().filter(|_| self.is_deletion_incomplete())?.outcome.as_ref()?;
        Some(format!(
            "the ordered deletion ended before all of the Applications were removed ({}); {}",
            outcome.message,
            self.restart_hint()
        ))
    }

    /// Adds the Applications that remain after an incomplete ordered deletion, and how to restart it.
    pub(super) fn add_remaining_applications(&self, state: &State, explanation: &mut Explanation) {
        let Some(teardown) = state.teardown().filter(|_| state.is_finished()) else { return };
        explanation.position = format!("the ordered deletion has ended ({})", explanation.position);
        if let Some(termination) = &teardown.terminated {
            explanation.progress = format!("terminated by {}", termination.display());
        }
        let (going, there): (Vec<_>, Vec<_>) =
            self.remaining_applications().partition(|one| one.is_deleting());
        for (what, all) in [("still being deleted", going), ("not deleted", there)] {
            let names: Vec<&str> = all.iter().map(|one| one.metadata.name.as_str()).collect();
            if !names.is_empty() {
                explanation.warnings.push(format!("{what}: {}", join_names(&names)));
            }
        }
        explanation.next = Some(self.restart_hint());
        explanation.action = self.restart_action(true);
    }

    fn restart_hint(&self) -> String {
        let name = qualified_name(&self.set);
        self.describe_restart()
            .unwrap_or_else(|| format!("`tidegate appset retry {name}` restarts the deletion"))
    }

    /// Describes a requested restart and what it is waiting for.
    pub(super) fn describe_restart(&self) -> Option<String> {
        let retry = self.requested_retry.as_ref()?;
        let until = match self.schedule.has_unresolved_targets() {
            true => ", once the target revisions of its Applications are known",
            false => "",
        };
        Some(format!(
            "a new run starts{until}, as requested by {} at {}",
            retry.requester().display(),
            retry.requested_at()
        ))
    }
}
