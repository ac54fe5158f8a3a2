//! Whose turn it is, of its Applications that others have deleted: with the set, in the foreground, Kubernetes' garbage
//! collector deletes all of them at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::ActorRef;
use tidegate_applicationset::deletion::{is_ordered, warning, was_before};
use tidegate_applicationset::ownership::{Owner, owner};
use tidegate_applicationset::status::FOREGROUND;
use tidegate_lifecycle::teardown::Progress;
use tidegate_model::Timestamp;
use tidegate_model::argo::Application;

use super::{AGAIN_AFTER, SetState};
use crate::applications::SupervisorMessage;
use crate::applications::store::AppKey;
use crate::sets::messages::SetMessage;

/// Deletions by others.
#[derive(Default)]
pub(super) struct Others {
    /// The UIDs of Applications that were asked about: whether the set goes too.
    asked: BTreeSet<String>,
    /// Those that are no part of a deletion of the set.
    apart: BTreeSet<String>,
    /// The cluster has not answered; before this it is not asked again.
    again_from: Option<Timestamp>,
    /// It was told that the set was deleted in the foreground.
    is_told: bool,
}

impl SetState {
    /// Says whose turn it is, where the set has an order.
    pub(super) fn call(&mut self, myself: &ActorRef<SetMessage>) {
        if self.is_released {
            return;
        }
        let (key, uid) = (self.key.clone(), self.set.metadata.uid.clone());
        let turns = Arc::clone(&self.shared.applications);
        if !is_ordered(&self.set, &self.shared.options) {
            return self.end_calling();
        }
        let called = self.called();
        self.ask_about_others(myself, &called);
        if turns.turns.call(&key, &uid, called.clone()) {
            self.tell_members(|one| one.is_deleting() || called.contains(&one.metadata.uid));
        }
    }

    /// Nobody waits for the set any more.
    pub(super) fn end_calling(&self) {
        if self.shared.applications.turns.end(&self.key, &self.set.metadata.uid) {
            self.tell_members(|_| true);
        }
    }

    /// Who looks at the Events of the cluster is told once that it was deleted in the foreground.
    pub(super) fn warn(&mut self) {
        if self.others.is_told || !self.shared.store.is_shared() {
            return;
        }
        let Some(message) = warning(&self.set, [], &self.shared.options) else { return };
        self.others.is_told = true;
        let name = format!("tidegate.{}.{}", self.set.metadata.uid, FOREGROUND.to_lowercase());
        let now = self.now();
        self.announce(name, (FOREGROUND, false, message), now);
    }

    /// These look whether their turn has come. That one is being deleted may be known to itself and not yet here, so what is
    /// known here does not say who need not look.
    fn tell_members(&self, are_meant: impl Fn(&Application) -> bool) {
        let meant = self.members.values().filter(|one| are_meant(one));
        let keys: BTreeSet<AppKey> = meant.map(|one| AppKey::of(one.as_ref())).collect();
        if !keys.is_empty() {
            drop(self.shared.supervisor.send_message(SupervisorMessage::Related(keys)));
        }
    }

    /// The UIDs of those whose turn has come: the teardown has deleted them or leaves them to people, or somebody else has deleted
    /// them before the set went.
    fn called(&self) -> BTreeSet<String> {
        let torn = self
            .own_teardown()
            .into_iter()
            .flat_map(|teardown| teardown.members.values().map(move |one| (one, teardown.is_watched(one))));
        // One that was skipped is let go by `delete`, with its objects, when the others are gone.
        let has_come = |progress: &Progress| {
            !matches!(progress, Progress::Waiting | Progress::Condemned | Progress::Left(_))
        };
        let torn = torn.filter(|(one, is_watched)| *is_watched || has_come(&one.progress));
        let torn = torn.map(|(one, _)| one.uid.clone());
        let going = self.members.values().filter(|one| one.is_deleting());
        let is_apart = |uid: &String| self.others.apart.contains(uid);
        let apart = going
            .filter(|one| is_apart(&one.metadata.uid) || was_before(&self.set, one))
            .map(|one| one.metadata.uid.clone());
        torn.chain(apart).collect()
    }

    /// Somebody has deleted Applications while the set stays, as far as is known here; the cluster knows better.
    fn ask_about_others(&mut self, myself: &ActorRef<SetMessage>, called: &BTreeSet<String>) {
        if self.is_deleting() {
            return;
        }
        let going = self.members.values().filter(|one| one.is_deleting());
        let going = going.filter(|one| owner(&self.set, one) == Owner::Set);
        let uids = going.map(|one| one.metadata.uid.clone());
        let new: Vec<String> =
            uids.filter(|uid| !called.contains(uid) && !self.others.asked.contains(uid)).collect();
        if new.is_empty() {
            return;
        }
        if let Some(again) = self.others.again_from.filter(|again| self.now() < *again) {
            return self.set_alarm(myself, again);
        }
        self.others.asked.extend(new.iter().cloned());
        let (shared, set, actor) = (Arc::clone(&self.shared), self.set.clone(), myself.clone());
        self.tasks.spawn(async move {
            let is_going = shared.store.is_going(&set).await.map_err(|error| error.to_string());
            drop(actor.send_message(SetMessage::Others { uids: new, is_going }));
        });
    }

    /// What the store says of the set, when these were seen to be deleted.
    pub(super) fn others(
        &mut self,
        myself: &ActorRef<SetMessage>,
        uids: Vec<String>,
        is_going: Result<bool, String>,
    ) {
        match is_going {
            Ok(false) => self.others.apart.extend(uids),
            // It will be told, and their order with it.
            Ok(true) => {}
            Err(problem) => {
                tracing::warn!(set = %self.key, problem, "it is not known whether the ApplicationSet is being deleted");
                self.others.asked.retain(|uid| !uids.contains(uid));
                let again = self.now() + AGAIN_AFTER;
                self.others.again_from = Some(again);
                self.set_alarm(myself, again);
            }
        }
        let there: BTreeSet<&String> = self.members.values().map(|one| &one.metadata.uid).collect();
        self.others.apart.retain(|uid| there.contains(uid));
        self.others.asked.retain(|uid| there.contains(uid));
    }
}
