//! The actors of all applications of a process, and who is told what.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_application::refresh::Level;
use tidegate_application::{conditions, dependencies};
use tidegate_executor::{Clock as _, EngineError, SystemClock};
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::ChildNews;
use tidegate_model::OperationId;
use tidegate_model::argo::{Application, ConditionType, OperationRequest};
use tidegate_source::Address;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};

use super::actor::{AppArguments, ApplicationActor, end_in_engine};
use super::board::Deployments;
use super::depending;
use super::messages::{Answer, AppMessage, SupervisorMessage};
use super::parting;
use super::projects;
use super::projects::releasing::AGAIN_AFTER;
use super::shared::{Moved, Shared};
use super::store::{AppKey, StoreEvent, Stored};
use crate::ending::end_children;

/// So often an actor that fails is begun anew, before its application is left alone until it changes.
const FAILURES_MAX: u32 = 3;

/// Begins to supervise; and tells when all applications that are there are known.
///
/// # Errors
///
/// The engine has stopped.
pub(super) async fn supervise(
    shared: Arc<Shared>,
) -> Result<(ActorRef<SupervisorMessage>, oneshot::Receiver<()>), EngineError> {
    let (settled, is_settled) = oneshot::channel();
    let begun = Actor::spawn(None, Supervisor, (shared, settled)).await;
    let (supervisor, _) = begun.map_err(|_| EngineError::Stopped)?;
    Ok((supervisor, is_settled))
}

struct Supervisor;

struct Child {
    actor: Option<ActorRef<AppMessage>>,
    problem: Option<String>,
    failures: u32,
}

struct SupervisorState {
    shared: Arc<Shared>,
    children: BTreeMap<AppKey, Child>,
    linked: HashMap<ActorId, AppKey>,
    settled: Option<oneshot::Sender<()>>,
    /// When it is tried again to let projects go; there is one at most.
    releases_again: Option<AbortHandle>,
    /// Since which operation those of an application are its own, where another one had its name.
    own_since: BTreeMap<AppKey, OperationId>,
    /// What ends the syncs of applications that are gone; it ends with the supervisor.
    parting: JoinSet<()>,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = (Arc<Shared>, oneshot::Sender<()>);

    async fn pre_start(
        &self,
        _: ActorRef<SupervisorMessage>,
        (shared, settled): Self::Arguments,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let settled = Some(settled);
        Ok(SupervisorState {
            shared,
            children: BTreeMap::new(),
            linked: HashMap::new(),
            settled,
            releases_again: None,
            own_since: BTreeMap::new(),
            parting: JoinSet::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::Store(event) => state.happened(&myself, event).await,
            SupervisorMessage::Stirred(key) => state.tell(&key, AppMessage::Stirred),
            SupervisorMessage::Related(keys) => state.tell_related(&keys),
            SupervisorMessage::Moved(moved) => state.moved(&moved),
            SupervisorMessage::Places => state.places_are(),
            SupervisorMessage::ProjectLeft => state.release_projects(&myself),
            SupervisorMessage::OwnRepositories(projects) => state.look_at_projects(&projects),
            SupervisorMessage::Globals(told) => {
                state.look_at_projects(&state.shared.projects.set_globals(told));
            }
            SupervisorMessage::Compare { key, level } => state.tell(&key, AppMessage::Compare(level)),
            SupervisorMessage::Show { key, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Show { reply });
            }
            SupervisorMessage::Refresh { key, level, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Refresh { level, reply });
            }
            SupervisorMessage::Sync { key, asked, plan, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Sync { asked, plan, reply });
            }
            SupervisorMessage::Approve { key, hash, given, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Approve { hash, given, reply });
            }
            SupervisorMessage::Doubt { key } => state.tell(&key, AppMessage::Doubt),
            SupervisorMessage::Terminate { key, operation, by, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Terminate { operation, by, reply });
            }
            SupervisorMessage::Delete { key, cascade, by, reason, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Delete { cascade, by, reason, reply });
            }
            SupervisorMessage::Rollback { key, id, prune, asker, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Rollback { id, prune, asker, reply });
            }
            SupervisorMessage::Run { key, operation, asked, tell } => {
                state.run(&key, operation, asked, tell);
            }
            SupervisorMessage::TakeBack { key, operation } => {
                state.tell(&key, AppMessage::TakeBack { operation });
            }
            SupervisorMessage::StopRun { key, operation, by, reply } => {
                state.stop_run(&key, (operation, by), reply);
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<SupervisorMessage>,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        end_children(myself.get_cell()).await;
        state.shared.write_what_is_left().await;
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
                if let Some(key) = state.linked.remove(&cell.get_id()) {
                    state.failed(&myself, &key, &error.to_string()).await;
                }
            }
            SupervisionEvent::ActorTerminated(cell, _, _) => drop(state.linked.remove(&cell.get_id())),
            _ => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    fn actor(&self, key: &AppKey) -> Option<&ActorRef<AppMessage>> {
        self.children.get(key)?.actor.as_ref()
    }

    /// Passes on what somebody waits for the answer of.
    fn pass_on(&self, key: &AppKey, reply: Answer, message: impl FnOnce(Answer) -> AppMessage) {
        match self.actor(key) {
            Some(actor) => drop(actor.send_message(message(reply))),
            None => drop(
                reply.send(Err(format!("application {key} is left alone after a fault; see its conditions"))),
            ),
        }
    }

    /// Passes on which operation a progressive sync wants.
    fn run(
        &self,
        key: &AppKey,
        operation: OperationId,
        asked: Box<OperationRequest>,
        tell: UnboundedSender<ChildNews>,
    ) {
        let problem = match self.children.get(key) {
            Some(Child { actor: Some(actor), .. }) => {
                return drop(actor.send_message(AppMessage::Run { operation, asked, tell }));
            }
            Some(_) => format!("application {key} is left alone after a fault; see its conditions"),
            None => format!("application {key} is not there"),
        };
        // It may come, or change.
        let _ = tell.send(ChildNews::Failed(CallError::transient(problem)));
    }

    /// Passes on which operation is to be over. Its application may be gone.
    fn stop_run(&self, key: &AppKey, (operation, by): (OperationId, String), reply: Answer) {
        match self.actor(key) {
            Some(actor) => drop(actor.send_message(AppMessage::StopRun { operation, by, reply })),
            None => drop(tokio::spawn(end_in_engine(Arc::clone(&self.shared), (operation, by), reply))),
        }
    }

    fn tell_related(&self, keys: &BTreeSet<AppKey>) {
        keys.iter().for_each(|key| self.tell(key, AppMessage::Related));
    }

    fn tell(&self, key: &AppKey, message: AppMessage) {
        if let Some(actor) = self.actor(key) {
            drop(actor.send_message(message));
        }
    }

    async fn happened(&mut self, myself: &ActorRef<SupervisorMessage>, event: StoreEvent) {
        match event {
            StoreEvent::Applied(stored) => {
                let key = AppKey::of(&stored.application);
                match self.children.get_mut(&key) {
                    Some(Child { actor: Some(actor), problem, .. }) => {
                        problem.clone_from(&stored.problem);
                        drop(actor.send_message(AppMessage::Changed(stored)));
                    }
                    _ => self.begin(myself, stored, 0).await,
                }
            }
            StoreEvent::Overwritten { key, ended } => self.tell(&key, AppMessage::Overwritten(ended)),
            StoreEvent::Gone(key) => {
                if let Some(actor) = self.children.remove(&key).and_then(|child| child.actor) {
                    let _ = actor.stop_and_wait(None, None).await;
                }
                self.part_from(&key).await;
                self.shared.watching.forget(&key);
                self.shared.board.remove(&key);
                self.shared.unwritten.remove(&key);
                self.tell_related(&self.shared.depending.related(&key));
                self.shared.depending.set(&key, BTreeSet::new());
                self.release_projects(myself);
                if let Err(error) = self.shared.store.forget(&key).await {
                    tracing::warn!(application = %key, %error, "an application that is gone is still known");
                }
            }
            StoreEvent::Projects(set) => {
                let were_coming = self.shared.projects.are_coming();
                let changed = self.shared.projects.set(set);
                match were_coming == self.shared.projects.are_coming() {
                    true => self.look_at_projects(&changed),
                    // Nobody knows the names of those that are awaited.
                    false => self.look_at_all(),
                }
                self.release_projects(myself);
            }
            StoreEvent::Problems(problems) => self.shared.board.set_problems(problems),
            StoreEvent::Looked(number) => drop(self.shared.looked.send_replace(number)),
            StoreEvent::Settled => {
                let Some(settled) = self.settled.take() else { return };
                self.note_dependencies();
                self.part_from_others().await;
                // Not before: whoever asks for thousands would wait until the first of them have been worked on.
                for actor in self.children.values().filter_map(|child| child.actor.as_ref()) {
                    drop(actor.send_message(AppMessage::Begin));
                }
                let _ = settled.send(());
                self.release_projects(myself);
            }
        }
    }

    /// What was begun for an application ends with it, and is nothing to one that is made again under its name.
    async fn part_from(&mut self, key: &AppKey) {
        if !self.shared.store.speaks_for(key) {
            return;
        }
        let Ok(next) = self.shared.engine.next_id().await else { return };
        self.own_since.insert(key.clone(), next);
        while self.parting.try_join_next().is_some() {}
        self.parting.spawn(parting::end_syncs(Arc::clone(&self.shared), key.clone(), next));
    }

    /// The same of applications that have gone while nobody was at work.
    async fn part_from_others(&mut self) {
        let Ok(next) = self.shared.engine.next_id().await else { return };
        let known = self.children.keys().map(AppKey::instance).collect();
        self.parting.spawn(parting::end_syncs_of_others(Arc::clone(&self.shared), known, next));
    }

    /// Who depends on whom is known before any of them begins: one that is being deleted waits for those that depend on it.
    fn note_dependencies(&self) {
        for (key, application) in self.shared.board.all() {
            let wanted = dependencies::of(&application).iter().map(depending::key).collect();
            self.shared.depending.set(&key, wanted);
        }
        self.shared.depending.set_whole();
    }

    async fn begin(&mut self, myself: &ActorRef<SupervisorMessage>, stored: Box<Stored>, failures: u32) {
        let (key, problem) = (AppKey::of(&stored.application), stored.problem.clone());
        let (shared, is_own) = (Arc::clone(&self.shared), failures > 0);
        let own_since = self.own_since.get(&key).copied();
        let arguments = AppArguments { shared, stored, is_own, own_since, supervisor: myself.clone() };
        let begun = Actor::spawn_linked(None, ApplicationActor, arguments, myself.get_cell()).await;
        let actor = match begun {
            Ok((actor, _)) => {
                if self.settled.is_none() {
                    drop(actor.send_message(AppMessage::Begin));
                }
                self.linked.insert(actor.get_id(), key.clone());
                Some(actor)
            }
            Err(error) => {
                tracing::error!(application = %key, %error, "the actor of an application cannot begin");
                None
            }
        };
        self.children.insert(key, Child { actor, problem, failures });
    }

    /// Begins an actor anew, from what it had kept; not for ever.
    async fn failed(&mut self, myself: &ActorRef<SupervisorMessage>, key: &AppKey, error: &str) {
        let Some(child) = self.children.get_mut(key) else { return };
        child.failures = child.failures.saturating_add(1);
        let (failures, problem) = (child.failures, child.problem.clone());
        tracing::error!(application = %key, %error, failures, "the actor of an application has failed");
        let Some(application) = self.shared.board.get(key) else { return };
        let mut application = application.as_ref().clone();
        if failures <= FAILURES_MAX {
            return self.begin(myself, Box::new(Stored { application, problem, lost: None }), failures).await;
        }
        child.actor = None;
        let message = format!("it met a fault {failures} times and is left alone until it changes: {error}");
        let found = [(ConditionType::UnknownError, message)];
        let kinds = [ConditionType::UnknownError];
        conditions::set(&mut application.status.conditions, &kinds, found, SystemClock.now());
        self.shared.board.post(key, Arc::new(application), Deployments::default());
    }

    /// Applications of other clusters are looked at again.
    fn places_are(&self) {
        for (key, child) in &self.children {
            let application = self.shared.board.get(key);
            let elsewhere = application.filter(|one| self.shared.places.is_elsewhere(&one.spec.destination));
            if let (Some(actor), Some(application)) = (&child.actor, elsewhere) {
                // A deletion that could not begin is tried again.
                let level = if application.is_deleting() { Level::Forced } else { Level::Latest };
                drop(actor.send_message(AppMessage::Compare(level)));
            }
        }
    }

    /// Lets the projects go that are being deleted and that no application names any more. Not before all applications are known.
    fn release_projects(&mut self, myself: &ActorRef<SupervisorMessage>) {
        if self.settled.is_some() {
            return;
        }
        let named = || {
            let all = self.shared.board.all().into_iter();
            all.map(|(_, application)| projects::name_of(&application).to_owned()).collect()
        };
        let released = self.shared.projects.to_release(named);
        if let Some(before) = self.releases_again.take() {
            before.abort();
        }
        if !released.is_empty() {
            let again = myself.send_after(AGAIN_AFTER, || SupervisorMessage::ProjectLeft);
            self.releases_again = Some(again.abort_handle());
        }
        for project in released {
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                if let Err(error) = shared.store.release_project(&project).await {
                    let project = &project.metadata.name;
                    tracing::warn!(project, %error, "a project that no application names stays, as its finalizer cannot be taken off; it is tried again");
                }
            });
        }
    }

    /// All applications are looked at again.
    fn look_at_all(&self) {
        for actor in self.children.values().filter_map(|child| child.actor.as_ref()) {
            drop(actor.send_message(AppMessage::Compare(Level::Latest)));
        }
    }

    /// Applications are looked at again whose projects say something else now.
    fn look_at_projects(&self, changed: &BTreeSet<String>) {
        for (key, child) in &self.children {
            let is_of = |application: &Arc<Application>| changed.contains(projects::name_of(application));
            if let Some(actor) =
                child.actor.as_ref().filter(|_| self.shared.board.get(key).as_ref().is_some_and(is_of))
            {
                drop(actor.send_message(AppMessage::Compare(Level::Latest)));
            }
        }
    }

    fn moved(&self, Moved { addresses, but }: &Moved) {
        let addresses: BTreeSet<&Address> = addresses.iter().collect();
        for (key, child) in &self.children {
            let uses_one = || {
                let application = self.shared.board.get(key)?;
                let manifests = &self.shared.manifests;
                let is_one = |address: Address| addresses.contains(&address);
                let (sources, project) = (application.sources().iter(), projects::name_of(&application));
                let mut used = sources.filter_map(|source| manifests.address(source, project));
                let beside = || manifests.fetched_for(key).into_iter().map(|used| used.address);
                (used.any(is_one) || beside().any(is_one)).then_some(())
            };
            if but.as_ref() != Some(key)
                && let Some(actor) = &child.actor
                && uses_one().is_some()
            {
                drop(actor.send_message(AppMessage::Compare(Level::Latest)));
            }
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
