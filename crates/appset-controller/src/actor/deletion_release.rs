//! Releases Applications that other clients have deleted. If an ApplicationSet is deleted in the foreground,
//! the Kubernetes garbage collector deletes all of its Applications at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::ActorRef;
use tidegate_app_controller::SupervisorMessage;
use tidegate_application::AppKey;
use tidegate_applicationset::deletion::controls_deletion;
use tidegate_applicationset::foreign_deletions::DeletionQuery;
use tidegate_applicationset::status::FOREGROUND_DELETION_REASON;
use tidegate_model::argo::Application;

use super::ActorState;
use crate::messages::AppSetMessage;

impl ActorState {
    /// Releases the Applications that may be deleted now, if the ApplicationSet has a deletion order.
    pub(super) fn release_members(&mut self, myself: &ActorRef<AppSetMessage>) {
        if self.status.is_ended() {
            return;
        }
        let (key, uid) = (self.key.clone(), self.set.metadata.uid.clone());
        let turns = Arc::clone(&self.shared.applications);
        if !controls_deletion(&self.set, &self.shared.options) {
            return self.end_waiting();
        }
        let called = self.teardowns.foreign.released_uids(
            &self.set,
            self.members.values().map(Arc::as_ref),
            self.own_teardown(),
        );
        self.check_foreign_deletions(myself, &called);
        if turns.deletion_queue.set_released(&key, &uid, called.clone()) {
            self.notify_members(|one| one.is_deleting() || called.contains(&one.metadata.uid));
        }
    }

    /// Stops all Applications from waiting for this ApplicationSet.
    pub(super) fn end_waiting(&self) {
        if self.shared.applications.deletion_queue.remove_appset(&self.key, &self.set.metadata.uid) {
            self.notify_members(|_| true);
        }
    }

    /// Emits a single Kubernetes Event if the ApplicationSet was deleted in the foreground.
    pub(super) fn warn_foreground_deletion(&mut self) {
        if !self.shared.store.is_shared() {
            return;
        }
        let warning = self.teardowns.foreign.take_warning(&self.set, &self.shared.options);
        let Some(message) = warning else { return };
        let name =
            format!("tidegate.{}.{}", self.set.metadata.uid, FOREGROUND_DELETION_REASON.to_lowercase());
        let now = self.now();
        self.emit_event(name, FOREGROUND_DELETION_REASON, false, message, now);
    }

    /// Tells Applications to check whether they have been released. An Application may notice its deletion
    /// before this actor does, so the cache can't rule out any of them.
    fn notify_members(&self, are_meant: impl Fn(&Application) -> bool) {
        let meant = self.members.values().filter(|one| are_meant(one));
        let keys: BTreeSet<AppKey> = meant.map(|one| AppKey::of(one.as_ref())).collect();
        if !keys.is_empty() {
            drop(self.shared.supervisor.send_message(SupervisorMessage::RelatedChanged(keys)));
        }
    }

    /// Asks the store whether the ApplicationSet is being deleted, if its Applications are.
    fn check_foreign_deletions(&mut self, myself: &ActorRef<AppSetMessage>, called: &BTreeSet<String>) {
        let (now, members) = (self.now(), self.members.values().map(Arc::as_ref));
        let uids = match self.teardowns.foreign.start_query(&self.set, members, called, now) {
            DeletionQuery::Unneeded => return,
            DeletionQuery::Wait(until) => return self.set_alarm(myself, until),
            DeletionQuery::Ask(uids) => uids,
        };
        let (shared, set, actor) = (Arc::clone(&self.shared), self.set.clone(), myself.clone());
        self.tasks.running.spawn(async move {
            let is_deleting = shared.store.is_being_deleted(&set).await.map_err(|error| error.to_string());
            drop(actor.send_message(AppSetMessage::ForeignDeletions { uids, is_deleting }));
        });
    }

    /// Handles the store's response to [`Self::check_foreign_deletions`].
    pub(super) fn handle_foreign_deletions(
        &mut self,
        myself: &ActorRef<AppSetMessage>,
        uids: Vec<String>,
        is_deleting: Result<bool, String>,
    ) {
        if let Err(problem) = &is_deleting {
            tracing::warn!(set = %self.key, problem, "failed to check whether the ApplicationSet is being deleted");
        }
        let (now, members) = (self.now(), self.members.values().map(Arc::as_ref));
        if let Some(again) = self.teardowns.foreign.finish_query(uids, &is_deleting, members, now) {
            self.set_alarm(myself, again);
        }
    }
}
