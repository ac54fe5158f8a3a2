//! What is told of a rollout or an ordered deletion that was ended before it was done: by whom, what is left, and how to go on.

use tidegate_applicationset::ownership::{Owner, owner};
use tidegate_applicationset::retry::Retry;
use tidegate_applicationset::rollout::full_name;
use tidegate_lifecycle::fleet::{Explanation, enumerate};
use tidegate_lifecycle::teardown::{End, State};
use tidegate_model::argo::Application;

use super::SetState;
use crate::sets::wishes::AskedRetry;

impl From<&Retry> for AskedRetry {
    fn from(retry: &Retry) -> Self {
        let asker = retry.asker();
        Self { by: asker.by.to_owned(), reason: asker.why(), at: retry.at() }
    }
}

impl SetState {
    /// The last ordered deletion, where it has ended before all were gone and that is what is to be told: Applications of it are
    /// there still, and nothing has been begun since.
    pub(in crate::sets::actor) fn told_cut(&self) -> Option<&State> {
        let is_newest = self.rollouts.id < self.teardowns.id;
        let is_told = self.is_deleting() || is_newest && self.rollouts.running.is_none();
        (is_told && self.is_cut() && self.left_behind().next().is_some()).then_some(())?;
        self.teardowns.last.as_ref()
    }

    fn is_cut(&self) -> bool {
        let outcome = self.own_teardown().and_then(|teardown| teardown.outcome.as_ref());
        outcome.is_some_and(|outcome| outcome.end != End::Completed)
    }

    /// Its Applications that the last ordered deletion has left.
    fn left_behind(&self) -> impl Iterator<Item = &Application> {
        let own = self.members.values().map(AsRef::as_ref).filter(|one| owner(&self.set, one) == Owner::Set);
        own.filter(|one| self.is_left_behind(&one.metadata.name, &one.metadata.uid))
    }

    /// Why the set is there still though it is being deleted, where its ordered deletion was ended.
    pub(in crate::sets::actor) fn cut_short(&self) -> Option<String> {
        let outcome = self.own_teardown().filter(|_| self.is_cut())?.outcome.as_ref()?;
        Some(format!(
            "its ordered deletion has ended before all of its Applications were gone ({}); {}",
            outcome.message,
            self.how_to_go_on()
        ))
    }

    /// Of an ordered deletion that has ended before all were gone: who of them is there now, and how it is begun again.
    pub(super) fn say_what_stays(&self, state: &State, explanation: &mut Explanation) {
        let Some(teardown) = state.teardown().filter(|_| state.is_finished()) else { return };
        explanation.position = format!("its ordered deletion has ended ({})", explanation.position);
        if let Some(said) = &teardown.terminated {
            explanation.progress = format!("terminated by {}", said.words());
        }
        let (going, there): (Vec<_>, Vec<_>) = self.left_behind().partition(|one| one.is_deleting());
        for (what, all) in [("still being deleted", going), ("not deleted", there)] {
            let names: Vec<&str> = all.iter().map(|one| one.metadata.name.as_str()).collect();
            if !names.is_empty() {
                explanation.warnings.push(format!("{what}: {}", enumerate(&names)));
            }
        }
        explanation.next = Some(self.how_to_go_on());
    }

    fn how_to_go_on(&self) -> String {
        let name = full_name(&self.set);
        self.next_attempt().unwrap_or_else(|| format!("`tidegate appset retry {name}` begins it again"))
    }

    /// That somebody has asked for what has ended to be begun again, and what that waits for.
    pub(super) fn next_attempt(&self) -> Option<String> {
        let asked = self.asked.as_ref()?;
        let until = match self.unresolved_since {
            Some(_) => ", once it is known which revisions its Applications are brought to",
            None => "",
        };
        Some(format!("it is begun again{until}, as {} has asked at {}", asked.asker().who(), asked.at()))
    }
}
