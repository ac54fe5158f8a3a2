//! Supervises all Application actors, and forwards messages to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_application::AppKey;
use tidegate_application::machine::{Deployments, Input, remove_write_condition};
use tidegate_application::project::project_name;
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::{conditions, dependencies};
use tidegate_executor::{Clock as _, EngineError, SystemClock};
use tidegate_model::OperationId;
use tidegate_model::argo::{Application, ConditionType};
use tidegate_source::Address;
use tidegate_state::owned_shards::OwnedShards;
use tidegate_stores::applications::{StoreEvent, StoredApplication};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use super::actor::{ActorArguments, ApplicationActor, end_in_engine};
use super::actor_pool::{ActorFailure, ActorPool, PooledActor};
use super::messages::{AppMessage, ChangedRepositories, SupervisorMessage};
use super::orphaned_syncs;
use super::projects::project_deletion::RETRY_DELAY;
use super::shared_state::SharedState;
use crate::shutdown::stop_children;

/// Maximum number of concurrent writes during shutdown, and the time limit for all of them together.
const CONCURRENT_WRITES_MAX: usize = 16;
const FINAL_WRITES_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time that messages wait for an Application that this process is about to manage.
const HOLD_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the supervisor. The receiver is notified once all existing Applications are loaded.
///
/// # Errors
///
/// Returns an error if the engine has stopped.
pub(super) async fn start_supervisor(
    shared: Arc<SharedState>,
) -> Result<(ActorRef<SupervisorMessage>, oneshot::Receiver<()>), EngineError> {
    let (settled, is_settled) = oneshot::channel();
    let started = Actor::spawn(None, Supervisor, (shared, settled)).await;
    let (supervisor, _) = started.map_err(|_| EngineError::Stopped)?;
    Ok((supervisor, is_settled))
}

struct Supervisor;

struct SupervisorState {
    shared: Arc<SharedState>,
    /// Actors, with the problem in the specification as the store last reported it.
    actors: ActorPool<AppMessage, Option<String>>,
    settled_sender: Option<oneshot::Sender<()>>,
    /// Timer for the next attempt to release projects. At most one timer is active.
    release_timer: Option<AbortHandle>,
    /// First operation of each Application that reuses a deleted Application's name.
    first_operations: BTreeMap<AppKey, OperationId>,
    /// Messages for Applications that this process is about to manage.
    held: BTreeMap<AppKey, Vec<AppMessage>>,
    /// Tasks that stop the syncs of deleted Applications; aborted when the supervisor stops.
    cleanup_tasks: JoinSet<()>,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = (Arc<SharedState>, oneshot::Sender<()>);

    async fn pre_start(
        &self,
        _: ActorRef<SupervisorMessage>,
        (shared, settled): Self::Arguments,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let settled_sender = Some(settled);
        Ok(SupervisorState {
            shared,
            actors: ActorPool::default(),
            settled_sender,
            release_timer: None,
            first_operations: BTreeMap::new(),
            held: BTreeMap::new(),
            cleanup_tasks: JoinSet::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::Store(event) => state.handle_event(&myself, event).await,
            SupervisorMessage::RelatedChanged(keys) => state.notify_related(&keys),
            SupervisorMessage::RepositoriesChanged(moved) => state.compare_changed(&moved),
            SupervisorMessage::ClustersChanged => state.compare_declared_clusters(),
            SupervisorMessage::ReleaseProjects => state.release_projects(&myself),
            SupervisorMessage::ProjectRepositoriesChanged(projects) => state.compare_projects(&projects),
            SupervisorMessage::GlobalProjectsChanged(update) => {
                state.compare_projects(&state.shared.projects.set_globals(update));
            }
            SupervisorMessage::Forward(key, message) => state.forward(&myself, &key, message),
            SupervisorMessage::RejectHeld(key) => state.reject_held(&key),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<SupervisorMessage>,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        stop_children(myself.get_cell()).await;
        persist_remaining(&state.shared).await;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(cell, error) => {
                if let Some(key) = state.actors.forget(&cell) {
                    state.handle_failure(&myself, &key, &error.to_string()).await;
                }
            }
            SupervisionEvent::ActorTerminated(cell, _, _) => drop(state.actors.forget(&cell)),
            _ => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    /// Forwards a message to an Application's actor, or rejects it.
    fn forward(&mut self, myself: &ActorRef<SupervisorMessage>, key: &AppKey, message: AppMessage) {
        match self.actors.get(key).map(PooledActor::actor) {
            Some(Some(actor)) => drop(actor.send_message(message)),
            None if self.is_starting(key) => {
                let held = self.held.entry(key.clone()).or_default();
                if held.is_empty() {
                    let key = key.clone();
                    myself.send_after(HOLD_TIMEOUT, move || SupervisorMessage::RejectHeld(key));
                }
                held.push(message);
            }
            missing => {
                if let AppMessage::StopChild { operation, by, reply } = message {
                    // The operation may be running although its Application no longer exists.
                    drop(tokio::spawn(end_in_engine(Arc::clone(&self.shared), operation, by, reply)));
                } else {
                    message.reject(match missing {
                        Some(_) => format!(
                            "application {key} is not managed because of an internal error; see the \
                             application's conditions"
                        ),
                        None if self.shared.application_cache.get(key).is_some() => {
                            format!("another replica manages application {key}")
                        }
                        None => format!("application {key} does not exist"),
                    });
                }
            }
        }
    }

    /// Returns true if this process is about to manage an Application. It reads the Application first, and waits until other
    /// replicas have finished the operations that were started in their shards.
    fn is_starting(&self, key: &AppKey) -> bool {
        let is_shared = *self.shared.owned_shards.borrow() != OwnedShards::All;
        is_shared
            && self.shared.engine.manages(&key.instance_name())
            && self.shared.application_cache.get(key).is_some()
    }

    fn reject_held(&mut self, key: &AppKey) {
        for message in self.held.remove(key).into_iter().flatten() {
            message.reject(format!("another replica is still working on application {key}; retry later"));
        }
    }

    fn notify_related(&self, keys: &BTreeSet<AppKey>) {
        keys.iter().for_each(|key| self.actors.send(key, AppMessage::Input(Input::Step)));
    }

    async fn handle_event(&mut self, myself: &ActorRef<SupervisorMessage>, event: StoreEvent) {
        match event {
            StoreEvent::Applied(stored) => {
                let key = AppKey::of(&stored.application);
                match self.actors.running_mut(&key) {
                    Some((actor, problem)) => {
                        problem.clone_from(&stored.problem);
                        drop(actor.send_message(AppMessage::Changed(stored)));
                    }
                    None => self.start_actor(myself, stored, 0).await,
                }
            }
            StoreEvent::Overwritten { key, termination } => {
                self.actors.send(&key, AppMessage::StateOverwritten(termination));
            }
            StoreEvent::OtherReplica(application) => self.leave_to_other_replica(*application).await,
            StoreEvent::OwnedShards(owned) => {
                self.shared.owned_shards.send_replace(owned);
                if self.settled_sender.is_none() {
                    self.end_other_syncs().await;
                }
            }
            StoreEvent::Gone(key) => {
                let is_managed = self.shared.is_managed(&key);
                self.stop_managing(&key).await;
                self.reject_held(&key);
                // A replica runs the syncs that were started in its shards, even if it doesn't manage the Application.
                self.end_syncs(&key).await;
                self.shared.application_cache.remove(&key);
                self.notify_related(&self.shared.dependencies.related(&key));
                self.shared.dependencies.set_dependencies(&key, BTreeSet::new());
                self.release_projects(myself);
                if !is_managed {
                    return;
                }
                if let Err(error) = self.shared.store.delete_state(&key).await {
                    tracing::warn!(application = %key, %error, "failed to remove the stored status of a deleted application");
                }
            }
            StoreEvent::Projects(set) => {
                let were_coming = self.shared.projects.has_pending_projects();
                let changed = self.shared.projects.set_projects(set);
                match were_coming == self.shared.projects.has_pending_projects() {
                    true => self.compare_projects(&changed),
                    // The names of the pending projects aren't known, so compare all Applications.
                    false => self.compare_all(),
                }
                self.release_projects(myself);
            }
            StoreEvent::Problems(problems) => self.shared.application_cache.set_problems(problems),
            StoreEvent::ReadDone(number) => drop(self.shared.store_reads.send_replace(number)),
            StoreEvent::Settled => {
                let Some(settled) = self.settled_sender.take() else { return };
                self.record_dependencies();
                self.end_other_syncs().await;
                // Do this last: the caller is waiting until all Applications are loaded, and shouldn't also
                // have to wait for the first work of thousands of actors.
                for (_, actor, _) in self.actors.running() {
                    drop(actor.send_message(AppMessage::Input(Input::Step)));
                }
                let _ = settled.send(());
                self.release_projects(myself);
            }
        }
    }

    /// Stops an Application's actor and watches.
    async fn stop_managing(&mut self, key: &AppKey) {
        if let Some(actor) = self.actors.detach(key) {
            let _ = actor.stop_and_wait(None, None).await;
        }
        self.shared.watches.remove_application(key);
        self.shared.unpersisted.remove(key);
    }

    /// Stops managing an Application, and publishes its stored state. Another replica manages the Application.
    async fn leave_to_other_replica(&mut self, application: Application) {
        let key = AppKey::of(&application);
        self.stop_managing(&key).await;
        self.first_operations.remove(&key);
        if !self.is_starting(&key) {
            self.reject_held(&key);
        }
        let shared = &self.shared;
        let mut related = shared.dependencies.related(&key);
        related
            .extend(shared.dependencies.set_dependencies(&key, dependencies::dependencies_of(&application)));
        shared.application_cache.publish(&key, Arc::new(application), Deployments::default());
        self.notify_related(&related);
    }

    /// Stops a deleted Application's syncs, so that a new Application of the same name doesn't take them
    /// over.
    async fn end_syncs(&mut self, key: &AppKey) {
        if !self.shared.store.is_authoritative(key) {
            return;
        }
        let Ok(next) = self.shared.engine.next_id().await else { return };
        self.first_operations.insert(key.clone(), next);
        while self.cleanup_tasks.try_join_next().is_some() {}
        self.cleanup_tasks.spawn(orphaned_syncs::end_orphaned_syncs(
            Arc::clone(&self.shared),
            key.clone(),
            next,
        ));
    }

    /// Stops the syncs of Applications that were deleted while the service was stopped.
    async fn end_other_syncs(&mut self) {
        let Ok(next) = self.shared.engine.next_id().await else { return };
        let known = self.actors.keys().cloned();
        let published = self.shared.application_cache.all().into_iter().map(|(key, _)| key);
        let known = known.chain(published).map(|key| key.instance_name()).collect();
        self.cleanup_tasks.spawn(orphaned_syncs::end_other_orphaned_syncs(
            Arc::clone(&self.shared),
            known,
            next,
        ));
    }

    /// Records all dependencies before the first actor starts, because an Application's deletion waits for
    /// its dependents.
    fn record_dependencies(&self) {
        for (key, application) in self.shared.application_cache.all() {
            let dependencies = dependencies::dependencies_of(&application);
            self.shared.dependencies.set_dependencies(&key, dependencies);
        }
        self.shared.dependencies.mark_complete();
    }

    async fn start_actor(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        stored: Box<StoredApplication>,
        failures: u32,
    ) {
        let (key, problem) = (AppKey::of(&stored.application), stored.problem.clone());
        let (shared, is_own_state) = (Arc::clone(&self.shared), failures > 0);
        let first_operation = self.first_operations.get(&key).copied();
        let arguments =
            ActorArguments { shared, stored, is_own_state, first_operation, supervisor: myself.clone() };
        let started = Actor::spawn_linked(None, ApplicationActor, arguments, myself.get_cell()).await;
        let actor = match started {
            Ok((actor, _)) => {
                if self.settled_sender.is_none() {
                    drop(actor.send_message(AppMessage::Input(Input::Step)));
                }
                for message in self.held.remove(&key).into_iter().flatten() {
                    drop(actor.send_message(message));
                }
                Some(actor)
            }
            Err(error) => {
                tracing::error!(application = %key, %error, "failed to start the actor that manages an application");
                None
            }
        };
        self.actors.insert(key, actor, failures, problem);
    }

    /// Restarts a failed actor from its published state, up to the maximum number of restarts.
    async fn handle_failure(&mut self, myself: &ActorRef<SupervisorMessage>, key: &AppKey, error: &str) {
        let Some(ActorFailure { failures, may_restart }) = self.actors.record_failure(key) else { return };
        tracing::error!(application = %key, %error, failures, "the actor that manages an application failed");
        let Some(application) = self.shared.application_cache.get(key) else { return };
        let mut application = application.as_ref().clone();
        if may_restart {
            let problem = self.actors.get(key).and_then(|entry| entry.data.clone());
            let stored = StoredApplication { application, problem, lost_state: None };
            return self.start_actor(myself, Box::new(stored), failures).await;
        }
        let message = format!(
            "the actor that manages the application failed {failures} times with an internal error; the \
             application will not be managed until it changes: {error}"
        );
        let found = [(ConditionType::UnknownError, message)];
        let kinds = [ConditionType::UnknownError];
        conditions::set_conditions(&mut application.status.conditions, &kinds, found, SystemClock.now());
        self.shared.application_cache.publish(key, Arc::new(application), Deployments::default());
    }

    /// Compares the Applications whose destination is a declared cluster.
    fn compare_declared_clusters(&self) {
        for (key, actor, _) in self.actors.running() {
            let application = self.shared.application_cache.get(key);
            let elsewhere =
                application.filter(|one| self.shared.destinations.is_other_cluster(&one.spec.destination));
            if let Some(application) = elsewhere {
                // A forced refresh retries a deletion that couldn't start.
                let level =
                    if application.is_deleting() { RefreshLevel::Forced } else { RefreshLevel::Latest };
                drop(actor.send_message(AppMessage::Input(Input::Compare(level))));
            }
        }
    }

    /// Releases deleted projects that no Application uses anymore. Does nothing until all Applications are
    /// loaded.
    fn release_projects(&mut self, myself: &ActorRef<SupervisorMessage>) {
        if self.settled_sender.is_some() {
            return;
        }
        let named = || {
            let all = self.shared.application_cache.all().into_iter();
            all.map(|(_, application)| project_name(&application).to_owned()).collect()
        };
        let released = self.shared.projects.releasable(named);
        if let Some(before) = self.release_timer.take() {
            before.abort();
        }
        if !released.is_empty() {
            let again = myself.send_after(RETRY_DELAY, || SupervisorMessage::ReleaseProjects);
            self.release_timer = Some(again.abort_handle());
        }
        for project in released {
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                if let Err(error) = shared.store.release_project(&project).await {
                    let project = &project.metadata.name;
                    tracing::warn!(project, %error, "failed to remove the finalizer of an unused project; retrying");
                }
            });
        }
    }

    /// Compares all Applications.
    fn compare_all(&self) {
        for (_, actor, _) in self.actors.running() {
            drop(actor.send_message(AppMessage::Input(Input::Compare(RefreshLevel::Latest))));
        }
    }

    /// Compares the Applications in changed projects.
    fn compare_projects(&self, changed: &BTreeSet<String>) {
        for (key, actor, _) in self.actors.running() {
            let is_of = |application: Arc<Application>| changed.contains(project_name(&application));
            if self.shared.application_cache.get(key).is_some_and(is_of) {
                drop(actor.send_message(AppMessage::Input(Input::Compare(RefreshLevel::Latest))));
            }
        }
    }

    fn compare_changed(&self, ChangedRepositories { addresses, except }: &ChangedRepositories) {
        let addresses: BTreeSet<&Address> = addresses.iter().collect();
        for (key, actor, _) in self.actors.running() {
            let uses_changed = || {
                let application = self.shared.application_cache.get(key)?;
                let manifests = &self.shared.manifests;
                let is_changed = |address: Address| addresses.contains(&address);
                let (sources, project) = (application.sources().iter(), project_name(&application));
                let mut used = sources.filter_map(|source| manifests.address(source, project));
                let beside = || manifests.dependencies_of(key).into_iter().map(|used| used.address);
                (used.any(is_changed) || beside().any(is_changed)).then_some(())
            };
            if except.as_ref() != Some(key) && uses_changed().is_some() {
                drop(actor.send_message(AppMessage::Input(Input::Compare(RefreshLevel::Latest))));
            }
        }
    }
}

/// Persists the remaining published state after all actors have stopped. Anything not written before the
/// timeout is restored from the log at the next start.
async fn persist_remaining(shared: &SharedState) {
    shared.store.await_writes().await;
    let left = shared.unpersisted.take();
    let write = |key: AppKey| async move {
        let Some(shown) = shared.application_cache.get(&key) else { return };
        let mut application = Application::clone(&shown);
        remove_write_condition(&mut application);
        if let Err(error) = shared.store.persist(&application).await {
            tracing::debug!(application = %key, %error, "failed to save the last application status");
        }
    };
    let writing = futures_util::stream::iter(left).for_each_concurrent(CONCURRENT_WRITES_MAX, write);
    if tokio::time::timeout(FINAL_WRITES_TIMEOUT, writing).await.is_err() {
        tracing::info!("timed out while saving application statuses");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
