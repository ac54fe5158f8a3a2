//! All sets of a process: their actors, and who is told what.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_applicationset::policy::allowed;
use tidegate_applicationset::requeue::asks_for_clusters;
use tidegate_applicationset::{ownership, wake};
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_source::allows;
use tokio::sync::oneshot;

use super::actor::{ApplicationSetActor, SetArguments};
use super::key_of;
use super::left;
use super::messages::{SetMessage, SetSupervisorMessage};
use super::shared::SetShared;
use super::store::{SetEvent, StoredSet};
use crate::applications::SupervisorMessage;
use crate::applications::store::AppKey;
use crate::ending::end_children;

/// So often an actor that fails is begun anew, before its set is left alone until it changes.
const FAILURES_MAX: u32 = 3;

pub(crate) struct SetSupervisor;

struct Child {
    actor: Option<ActorRef<SetMessage>>,
    failures: u32,
    /// As the store had it last.
    stored: Box<StoredSet>,
}

pub(crate) struct SupervisorState {
    shared: Arc<SetShared>,
    children: BTreeMap<AppKey, Child>,
    linked: HashMap<ActorId, AppKey>,
    /// Whose each Application is, of those that are some set's.
    owners: BTreeMap<AppKey, AppKey>,
    settled: Option<oneshot::Sender<()>>,
}

impl Actor for SetSupervisor {
    type Msg = SetSupervisorMessage;
    type State = SupervisorState;
    type Arguments = (Arc<SetShared>, oneshot::Sender<()>);

    async fn pre_start(
        &self,
        _: ActorRef<SetSupervisorMessage>,
        (shared, settled): Self::Arguments,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let (children, linked, owners) = (BTreeMap::new(), HashMap::new(), BTreeMap::new());
        Ok(SupervisorState { shared, children, linked, owners, settled: Some(settled) })
    }

    async fn handle(
        &self,
        myself: ActorRef<SetSupervisorMessage>,
        message: SetSupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SetSupervisorMessage::Store(event) => state.happened(&myself, event).await,
            SetSupervisorMessage::Member(key) => state.member(&key),
            SetSupervisorMessage::Missed => state.missed(),
            SetSupervisorMessage::Clusters => state.moved(asks_for_clusters),
            SetSupervisorMessage::Told(told) => state.moved(|set| wake::is_told(set, &told, &allows)),
            SetSupervisorMessage::To(key, message) => match state.children.get(&key) {
                Some(Child { actor: Some(actor), .. }) => drop(actor.send_message(message)),
                None => message.refuse(format!("ApplicationSet {key} is gone")),
                Some(_) => message.refuse(format!(
                    "ApplicationSet {key} is left alone after a fault; the log of this process says which"
                )),
            },
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<SetSupervisorMessage>,
        _: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        end_children(myself.get_cell()).await;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SetSupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(cell, error) => {
                if let Some(key) = state.linked.remove(&cell.get_id()) {
                    state.failed(&myself, &key, &error.to_string()).await;
                    state.clear(&key);
                }
            }
            SupervisionEvent::ActorTerminated(cell, _, _) => {
                if let Some(key) = state.linked.remove(&cell.get_id()) {
                    state.clear(&key);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    /// Those are generated anew whose generators ask for something that has changed.
    fn moved(&self, is_about: impl Fn(&ApplicationSet) -> bool) {
        for child in self.children.values().filter(|child| is_about(&child.stored.set)) {
            if let Some(actor) = &child.actor {
                drop(actor.send_message(SetMessage::Moved));
            }
        }
    }

    async fn happened(&mut self, myself: &ActorRef<SetSupervisorMessage>, event: SetEvent) {
        match event {
            SetEvent::Applied(stored) => {
                let key = key_of(&stored.set);
                match self.children.get_mut(&key) {
                    Some(Child { actor: Some(actor), stored: before, .. }) => {
                        before.clone_from(&stored);
                        drop(actor.send_message(SetMessage::Changed(stored)));
                    }
                    _ => self.begin(myself, key, stored, 0).await,
                }
            }
            SetEvent::Gone(key) => {
                let child = self.children.remove(&key);
                child.iter().for_each(|child| self.end_turns(&key, &child.stored));
                if let Some(actor) = child.and_then(|child| child.actor) {
                    self.end(actor);
                }
                self.shared.board.remove(&key);
                if let Err(error) = self.shared.store.forget(&key).await {
                    tracing::warn!(set = %key, %error, "an ApplicationSet that is gone is still known");
                }
            }
            SetEvent::Problems(problems) => self.shared.board.set_problems(problems),
            SetEvent::Settled => {
                let is_told = |key: &AppKey, uid: &str| {
                    self.children.get(key).is_some_and(|child| child.stored.set.metadata.uid == uid)
                };
                left::go_on(&self.shared, is_told).await;
                if let Some(settled) = self.settled.take() {
                    let _ = settled.send(());
                }
            }
        }
    }

    /// Applications of a set wait for it no more when they are deleted.
    fn end_turns(&self, key: &AppKey, stored: &StoredSet) {
        let applications = &self.shared.applications;
        if !applications.turns.end(key, &stored.set.metadata.uid) {
            return;
        }
        let is_of_it = |(one, application): &(AppKey, Arc<Application>)| {
            one.namespace == key.namespace && ownership::set_of(application) == Some(key.name.as_str())
        };
        let own = applications.board.all().into_iter().filter(is_of_it).map(|(key, _)| key).collect();
        drop(self.shared.supervisor.send_message(SupervisorMessage::Related(own)));
    }

    /// What is at work for a set that is gone ends, and then its actor.
    fn end(&self, actor: ActorRef<SetMessage>) {
        tokio::spawn(async move {
            let (reply, ended) = oneshot::channel();
            if actor.send_message(SetMessage::Gone { reply: reply.into() }).is_ok() {
                let _ = ended.await;
            }
            actor.stop(None);
        });
    }

    /// Whatever the actor of a set that is gone has posted last is not there any more. Not where there is one of its name
    /// again.
    fn clear(&self, key: &AppKey) {
        if !self.children.contains_key(key) {
            self.shared.board.remove(key);
        }
    }

    async fn begin(
        &mut self,
        myself: &ActorRef<SetSupervisorMessage>,
        key: AppKey,
        stored: Box<StoredSet>,
        failures: u32,
    ) {
        let (shared, supervisor) = (Arc::clone(&self.shared), myself.clone());
        let arguments = SetArguments { shared, stored: stored.clone(), supervisor };
        let begun = Actor::spawn_linked(None, ApplicationSetActor, arguments, myself.get_cell()).await;
        let actor = match begun {
            Ok((actor, _)) => {
                self.linked.insert(actor.get_id(), key.clone());
                Some(actor)
            }
            Err(error) => {
                tracing::error!(set = %key, %error, "the actor of an ApplicationSet cannot begin");
                self.left_alone(&key, &stored);
                None
            }
        };
        self.children.insert(key, Child { actor, failures, stored });
    }

    /// Begins an actor anew; not for ever.
    async fn failed(&mut self, myself: &ActorRef<SetSupervisorMessage>, key: &AppKey, error: &str) {
        let Some(child) = self.children.get_mut(key) else { return };
        child.failures = child.failures.saturating_add(1);
        let (failures, stored) = (child.failures, child.stored.clone());
        tracing::error!(set = %key, %error, failures, "the actor of an ApplicationSet has failed");
        child.actor = None;
        if failures <= FAILURES_MAX {
            self.begin(myself, key.clone(), stored, failures).await;
        } else {
            self.left_alone(key, &stored);
        }
    }

    /// Nobody calls the Applications of a set any more, so they wait for no turn. But where its policy keeps their objects,
    /// these are not deleted because of a fault.
    fn left_alone(&self, key: &AppKey, stored: &StoredSet) {
        if allowed(&stored.set, &self.shared.options).delete {
            self.end_turns(key, stored);
        } else {
            let uid = &stored.set.metadata.uid;
            self.shared.applications.turns.call(key, uid, BTreeSet::new());
        }
    }

    /// An Application has changed: its set is told, and so is the one it was of.
    fn member(&mut self, key: &AppKey) {
        let application = self.shared.applications.board.get(key);
        let owner = application.as_ref().and_then(|one| ownership::set_of(one));
        let owner = owner.map(|name| AppKey { namespace: key.namespace.clone(), name: name.to_owned() });
        let before = match &owner {
            Some(owner) => self.owners.insert(key.clone(), owner.clone()),
            None => self.owners.remove(key),
        };
        let is_told = |set: &AppKey| match &owner {
            Some(owner) => owner == set || before.as_ref() == Some(set),
            // Nobody's, or gone: any set beside it may generate its name.
            None => set.namespace == key.namespace,
        };
        for (_, child) in self.children.iter().filter(|(set, _)| is_told(set)) {
            if let Some(actor) = &child.actor {
                drop(actor.send_message(SetMessage::Member(key.clone())));
            }
        }
    }

    /// Changes were too many to be told one by one: every set looks at all there is.
    fn missed(&mut self) {
        for (key, _) in self.shared.applications.board.all() {
            self.member(&key);
        }
        // Those that are gone meanwhile.
        let gone: Vec<AppKey> = self
            .owners
            .keys()
            .filter(|key| self.shared.applications.board.get(key).is_none())
            .cloned()
            .collect();
        gone.iter().for_each(|key| self.member(key));
    }
}
