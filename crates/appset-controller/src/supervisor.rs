//! Supervises all ApplicationSet actors of a process, and forwards messages to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_app_controller::SupervisorMessage;
use tidegate_app_controller::actor_pool::{ActorFailure, ActorPool, PooledActor};
use tidegate_app_controller::shutdown::stop_children;
use tidegate_application::AppKey;
use tidegate_applicationset::requeue::uses_clusters;
use tidegate_applicationset::sync_policy::allowed_changes;
use tidegate_applicationset::{ownership, triggers};
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_source::allows;
use tidegate_stores::appsets::{AppSetEvent, StoredAppSet};
use tokio::sync::oneshot;

use super::actor::{ActorArguments, ApplicationSetActor};
use super::messages::{AppSetMessage, AppSetSupervisorMessage};
use super::orphaned_deletions;
use super::shared::AppSetShared;

pub struct AppSetSupervisor;

pub struct SupervisorState {
    shared: Arc<AppSetShared>,
    /// Actors, with the last state reported by the store.
    actors: ActorPool<AppSetMessage, Box<StoredAppSet>>,
    /// Owning ApplicationSet of each Application.
    owners: BTreeMap<AppKey, AppKey>,
    settled: Option<oneshot::Sender<()>>,
}

impl Actor for AppSetSupervisor {
    type Msg = AppSetSupervisorMessage;
    type State = SupervisorState;
    type Arguments = (Arc<AppSetShared>, oneshot::Sender<()>);

    async fn pre_start(
        &self,
        _: ActorRef<AppSetSupervisorMessage>,
        (shared, settled): Self::Arguments,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let (actors, owners) = (ActorPool::default(), BTreeMap::new());
        Ok(SupervisorState { shared, actors, owners, settled: Some(settled) })
    }

    async fn handle(
        &self,
        myself: ActorRef<AppSetSupervisorMessage>,
        message: AppSetSupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            AppSetSupervisorMessage::Store(event) => state.handle_event(&myself, event).await,
            AppSetSupervisorMessage::MemberChanged(key) => state.handle_member_change(&key),
            AppSetSupervisorMessage::EventsLost => state.handle_lost_events(),
            AppSetSupervisorMessage::ClustersChanged => state.notify_input_change(uses_clusters),
            AppSetSupervisorMessage::WebhookEvent(changes) => {
                state.notify_input_change(|set| triggers::is_affected_by_event(set, &changes, &allows))
            }
            AppSetSupervisorMessage::Forward(key, message) => match state
                .actors
                .get(&key)
                .map(PooledActor::actor)
            {
                Some(Some(actor)) => drop(actor.send_message(message)),
                None if state.shared.cache.get(&key).is_some() => {
                    message.reject(format!("another replica manages ApplicationSet {key}"));
                }
                None => message.reject(format!("ApplicationSet {key} no longer exists")),
                Some(_) => message.reject(format!(
                    "ApplicationSet {key} is not managed because of an internal error; see the log of this process"
                )),
            },
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<AppSetSupervisorMessage>,
        _: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        stop_children(myself.get_cell()).await;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<AppSetSupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(cell, error) => {
                if let Some(key) = state.actors.forget(&cell) {
                    state.handle_failure(&myself, &key, &error.to_string()).await;
                    state.clear_cache(&key);
                }
            }
            SupervisionEvent::ActorTerminated(cell, _, _) => {
                if let Some(key) = state.actors.forget(&cell) {
                    state.clear_cache(&key);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    /// Notifies the actors of ApplicationSets with changed generator inputs.
    fn notify_input_change(&self, is_about: impl Fn(&ApplicationSet) -> bool) {
        for (_, actor, _) in self.actors.running().filter(|(_, _, stored)| is_about(&stored.appset)) {
            drop(actor.send_message(AppSetMessage::InputsChanged));
        }
    }

    async fn handle_event(&mut self, myself: &ActorRef<AppSetSupervisorMessage>, event: AppSetEvent) {
        match event {
            AppSetEvent::Applied(stored) => {
                let key = AppKey::of_appset(&stored.appset);
                match self.actors.running_mut(&key) {
                    Some((actor, before)) => {
                        before.clone_from(&stored);
                        drop(actor.send_message(AppSetMessage::Changed(stored)));
                    }
                    None => self.start_actor(myself, key, stored, 0).await,
                }
            }
            AppSetEvent::OtherReplica(set) => self.leave_to_other_replica(*set).await,
            AppSetEvent::OwnedShards(owned) => {
                self.shared.owned_shards.send_replace(owned);
                if self.settled.is_none() {
                    self.resume_orphaned_deletions().await;
                }
            }
            AppSetEvent::Gone(key) => {
                let entry = self.actors.remove(&key);
                let is_managed = self.shared.is_managed(&key);
                entry.iter().for_each(|entry| self.release_deletions(&key, &entry.data));
                if let Some(actor) = entry.and_then(PooledActor::into_actor) {
                    self.stop_actor(actor);
                }
                self.shared.cache.remove(&key);
                if is_managed && let Err(error) = self.shared.store.remove_state(&key).await {
                    tracing::warn!(set = %key, %error, "failed to remove the stored status of a deleted ApplicationSet");
                }
            }
            AppSetEvent::Problems(problems) => self.shared.cache.set_problems(problems),
            AppSetEvent::Settled => {
                self.resume_orphaned_deletions().await;
                if let Some(settled) = self.settled.take() {
                    let _ = settled.send(());
                }
            }
        }
    }

    /// Resumes the deletions of removed ApplicationSets, except those of other replicas.
    async fn resume_orphaned_deletions(&self) {
        let must_skip = |key: &AppKey, uid: &str| {
            // An ApplicationSet that this process is about to manage has no actor yet.
            let existing = self.actors.get(key).map(|entry| entry.data.appset.metadata.uid.clone());
            let existing = existing.or_else(|| Some(self.shared.cache.get(key)?.metadata.uid.clone()));
            !self.shared.is_managed(key) || existing.is_some_and(|existing| existing == uid)
        };
        orphaned_deletions::resume_all(&self.shared, must_skip).await;
    }

    /// Stops an ApplicationSet's actor, and publishes the stored state. Another replica manages the ApplicationSet.
    async fn leave_to_other_replica(&mut self, set: ApplicationSet) {
        let key = AppKey::of_appset(&set);
        if let Some(actor) = self.actors.detach(&key) {
            let _ = actor.stop_and_wait(None, None).await;
        }
        self.shared.applications.deletion_queue.remove_appset(&key, &set.metadata.uid);
        self.shared.cache.insert(&key, Arc::new(set));
    }

    /// Releases an ApplicationSet's deleted Applications that are waiting for it.
    fn release_deletions(&self, key: &AppKey, stored: &StoredAppSet) {
        let applications = &self.shared.applications;
        if !applications.deletion_queue.remove_appset(key, &stored.appset.metadata.uid) {
            return;
        }
        let is_of_it = |(one, application): &(AppKey, Arc<Application>)| {
            one.namespace == key.namespace && ownership::owning_appset(application) == Some(key.name.as_str())
        };
        let own =
            applications.application_cache.all().into_iter().filter(is_of_it).map(|(key, _)| key).collect();
        drop(self.shared.supervisor.send_message(SupervisorMessage::RelatedChanged(own)));
    }

    /// Stops the machines of a deleted ApplicationSet, and then its actor.
    fn stop_actor(&self, actor: ActorRef<AppSetMessage>) {
        tokio::spawn(async move {
            let (reply, ended) = oneshot::channel();
            if actor.send_message(AppSetMessage::Gone { reply: reply.into() }).is_ok() {
                let _ = ended.await;
            }
            actor.stop(None);
        });
    }

    /// Removes a deleted ApplicationSet from the cache, unless a new ApplicationSet has taken its name.
    fn clear_cache(&self, key: &AppKey) {
        if self.actors.get(key).is_none() {
            self.shared.cache.remove(key);
        }
    }

    async fn start_actor(
        &mut self,
        myself: &ActorRef<AppSetSupervisorMessage>,
        key: AppKey,
        stored: Box<StoredAppSet>,
        failures: u32,
    ) {
        let (shared, supervisor) = (Arc::clone(&self.shared), myself.clone());
        let arguments = ActorArguments { shared, stored: stored.clone(), supervisor };
        let started = Actor::spawn_linked(None, ApplicationSetActor, arguments, myself.get_cell()).await;
        let actor = match started {
            Ok((actor, _)) => Some(actor),
            Err(error) => {
                tracing::error!(set = %key, %error, "failed to start the actor that manages an ApplicationSet");
                self.release_unmanaged(&key, &stored);
                None
            }
        };
        self.actors.insert(key, actor, failures, stored);
    }

    /// Restarts a failed actor, unless it has failed too often.
    async fn handle_failure(
        &mut self,
        myself: &ActorRef<AppSetSupervisorMessage>,
        key: &AppKey,
        error: &str,
    ) {
        let Some(ActorFailure { failures, may_restart }) = self.actors.record_failure(key) else { return };
        tracing::error!(set = %key, %error, failures, "the actor that manages an ApplicationSet failed");
        let Some(stored) = self.actors.get(key).map(|entry| entry.data.clone()) else { return };
        if may_restart {
            self.start_actor(myself, key.clone(), stored, failures).await;
        } else {
            self.release_unmanaged(key, &stored);
        }
    }

    /// Releases an ApplicationSet's Applications if it has no actor. They stay if its policy doesn't allow
    /// deletions, so that an internal error never causes objects to be deleted.
    fn release_unmanaged(&self, key: &AppKey, stored: &StoredAppSet) {
        if allowed_changes(&stored.appset, &self.shared.options).delete {
            self.release_deletions(key, stored);
        } else {
            let uid = &stored.appset.metadata.uid;
            self.shared.applications.deletion_queue.set_released(key, uid, BTreeSet::new());
        }
    }

    /// Notifies an Application's current and previous ApplicationSet of a change.
    fn handle_member_change(&mut self, key: &AppKey) {
        let application = self.shared.applications.application_cache.get(key);
        let owner = application.as_ref().and_then(|one| ownership::owning_appset(one));
        let owner = owner.map(|name| AppKey { namespace: key.namespace.clone(), name: name.to_owned() });
        let before = match &owner {
            Some(owner) => self.owners.insert(key.clone(), owner.clone()),
            None => self.owners.remove(key),
        };
        let is_affected = |set: &AppKey| match &owner {
            Some(owner) => owner == set || before.as_ref() == Some(set),
            // Any ApplicationSet in the namespace may generate the name of an Application that is gone or has
            // no owner.
            None => set.namespace == key.namespace,
        };
        for (_, actor, _) in self.actors.running().filter(|(set, _, _)| is_affected(set)) {
            drop(actor.send_message(AppSetMessage::MemberChanged(key.clone())));
        }
    }

    /// Handles lost change events: every ApplicationSet checks all of its Applications.
    fn handle_lost_events(&mut self) {
        for (key, _) in self.shared.applications.application_cache.all() {
            self.handle_member_change(&key);
        }
        // Applications that were deleted meanwhile aren't in the cache.
        let gone: Vec<AppKey> = self
            .owners
            .keys()
            .filter(|key| self.shared.applications.application_cache.get(key).is_none())
            .cloned()
            .collect();
        gone.iter().for_each(|key| self.handle_member_change(key));
    }
}
