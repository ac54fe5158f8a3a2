//! Releases Applications that other clients have deleted. If an ApplicationSet is deleted in the foreground,
//! the Kubernetes garbage collector deletes all of its Applications at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::ActorRef;
use tidegate_app_controller::SupervisorMessage;
use tidegate_application::AppKey;
use tidegate_applicationset::deletion::{controls_deletion, foreground_warning, is_deleted_earlier};
use tidegate_applicationset::ownership::{Owner, owner_of};
use tidegate_applicationset::status::FOREGROUND_DELETION_REASON;
use tidegate_lifecycle::teardown::Progress;
use tidegate_model::Timestamp;
use tidegate_model::argo::Application;

use super::{ActorState, RETRY_DELAY};
use crate::messages::AppSetMessage;

/// Deletions requested by other clients.
#[derive(Default)]
pub(super) struct ForeignDeletions {
    /// UIDs of deleted Applications that already caused a query about the ApplicationSet's deletion.
    checked: BTreeSet<String>,
    /// UIDs of Applications deleted independently of the ApplicationSet.
    independent: BTreeSet<String>,
    /// Time of the next attempt after a failed query.
    retry_at: Option<Timestamp>,
    /// True if the warning about a foreground deletion has been emitted.
    is_warned: bool,
}

impl ActorState {
    /// Releases the Applications that may be deleted now, if the ApplicationSet has a deletion order.
    pub(super) fn release_members(&mut self, myself: &ActorRef<AppSetMessage>) {
        if self.is_released {
            return;
        }
        let (key, uid) = (self.key.clone(), self.set.metadata.uid.clone());
        let turns = Arc::clone(&self.shared.applications);
        if !controls_deletion(&self.set, &self.shared.options) {
            return self.end_waiting();
        }
        let called = self.released_uids();
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
        if self.foreign_deletions.is_warned || !self.shared.store.is_shared() {
            return;
        }
        let Some(message) = foreground_warning(&self.set, [], &self.shared.options) else { return };
        self.foreign_deletions.is_warned = true;
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

    /// Returns the UIDs of released Applications: those that the teardown has deleted or left to users, and
    /// those that other clients deleted before the ApplicationSet.
    fn released_uids(&self) -> BTreeSet<String> {
        let torn = self
            .own_teardown()
            .into_iter()
            .flat_map(|teardown| teardown.members.values().map(move |one| (one, teardown.is_watched(one))));
        // `delete` releases a skipped Application and its objects after the deletion of all other
        // Applications.
        let has_come = |progress: &Progress| {
            !matches!(progress, Progress::Waiting | Progress::Condemned | Progress::Left(_))
        };
        let torn = torn.filter(|(one, is_watched)| *is_watched || has_come(&one.progress));
        let torn = torn.map(|(one, _)| one.uid.clone());
        let going = self.members.values().filter(|one| one.is_deleting());
        let is_apart = |uid: &String| self.foreign_deletions.independent.contains(uid);
        let apart = going
            .filter(|one| is_apart(&one.metadata.uid) || is_deleted_earlier(&self.set, one))
            .map(|one| one.metadata.uid.clone());
        torn.chain(apart).collect()
    }

    /// Asks the store whether the ApplicationSet is being deleted, if its Applications are. The cache may be
    /// outdated.
    fn check_foreign_deletions(&mut self, myself: &ActorRef<AppSetMessage>, called: &BTreeSet<String>) {
        if self.is_deleting() {
            return;
        }
        let going = self.members.values().filter(|one| one.is_deleting());
        let going = going.filter(|one| owner_of(&self.set, one) == Owner::AppSet);
        let uids = going.map(|one| one.metadata.uid.clone());
        let new: Vec<String> = uids
            .filter(|uid| !called.contains(uid) && !self.foreign_deletions.checked.contains(uid))
            .collect();
        if new.is_empty() {
            return;
        }
        if let Some(again) = self.foreign_deletions.retry_at.filter(|again| self.now() < *again) {
            return self.set_alarm(myself, again);
        }
        self.foreign_deletions.checked.extend(new.iter().cloned());
        let (shared, set, actor) = (Arc::clone(&self.shared), self.set.clone(), myself.clone());
        self.tasks.spawn(async move {
            let is_deleting = shared.store.is_being_deleted(&set).await.map_err(|error| error.to_string());
            drop(actor.send_message(AppSetMessage::ForeignDeletions { uids: new, is_deleting }));
        });
    }

    /// Handles the store's response to [`Self::check_foreign_deletions`].
    pub(super) fn handle_foreign_deletions(
        &mut self,
        myself: &ActorRef<AppSetMessage>,
        uids: Vec<String>,
        is_deleting: Result<bool, String>,
    ) {
        match is_deleting {
            Ok(false) => self.foreign_deletions.independent.extend(uids),
            // An event will report the ApplicationSet's deletion. Its deletion order applies from then on.
            Ok(true) => {}
            Err(problem) => {
                tracing::warn!(set = %self.key, problem, "failed to check whether the ApplicationSet is being deleted");
                self.foreign_deletions.checked.retain(|uid| !uids.contains(uid));
                let again = self.now() + RETRY_DELAY;
                self.foreign_deletions.retry_at = Some(again);
                self.set_alarm(myself, again);
            }
        }
        let there: BTreeSet<&String> = self.members.values().map(|one| &one.metadata.uid).collect();
        self.foreign_deletions.independent.retain(|uid| there.contains(uid));
        self.foreign_deletions.checked.retain(|uid| there.contains(uid));
    }
}
