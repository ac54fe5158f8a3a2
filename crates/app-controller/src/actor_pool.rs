//! The actors of a supervisor, one per resource, and their failures.

use std::collections::{BTreeMap, HashMap};

use ractor::{ActorCell, ActorId, ActorRef, Message};
use tidegate_application::AppKey;

/// Maximum number of restarts of an actor. After that, its resource isn't reconciled until it changes.
pub const RESTARTS_MAX: u32 = 3;

/// Actor of a resource, with data that its supervisor keeps.
pub struct PooledActor<M, D> {
    actor: Option<ActorRef<M>>,
    failures: u32,
    /// Data of the supervisor.
    pub data: D,
}

impl<M, D> PooledActor<M, D> {
    /// Returns the actor, or `None` if it has failed too often.
    pub fn actor(&self) -> Option<&ActorRef<M>> {
        self.actor.as_ref()
    }

    /// Removes the entry and returns the actor.
    pub fn into_actor(self) -> Option<ActorRef<M>> {
        self.actor
    }
}

/// Failure of an actor.
pub struct ActorFailure {
    /// Number of failures so far.
    pub failures: u32,
    /// True if the supervisor must restart the actor.
    pub may_restart: bool,
}

/// Actors by resource.
pub struct ActorPool<M, D> {
    actors: BTreeMap<AppKey, PooledActor<M, D>>,
    linked: HashMap<ActorId, AppKey>,
}

impl<M, D> Default for ActorPool<M, D> {
    fn default() -> Self {
        Self { actors: BTreeMap::new(), linked: HashMap::new() }
    }
}

impl<M: Message, D> ActorPool<M, D> {
    /// Returns a resource's entry.
    pub fn get(&self, key: &AppKey) -> Option<&PooledActor<M, D>> {
        self.actors.get(key)
    }

    /// Returns a resource's running actor and data.
    pub fn running_mut(&mut self, key: &AppKey) -> Option<(&ActorRef<M>, &mut D)> {
        let PooledActor { actor, data, .. } = self.actors.get_mut(key)?;
        Some((actor.as_ref()?, data))
    }

    /// Returns a resource's actor, or `None` if it has failed too often.
    pub fn actor(&self, key: &AppKey) -> Option<&ActorRef<M>> {
        self.actors.get(key)?.actor()
    }

    /// Returns the running actors, with their keys and data.
    pub fn running(&self) -> impl Iterator<Item = (&AppKey, &ActorRef<M>, &D)> {
        self.actors.iter().filter_map(|(key, entry)| Some((key, entry.actor()?, &entry.data)))
    }

    /// Returns all keys, including those of actors that have failed too often.
    pub fn keys(&self) -> impl Iterator<Item = &AppKey> {
        self.actors.keys()
    }

    /// Adds a started actor, or `None` if the actor couldn't start.
    pub fn insert(&mut self, key: AppKey, actor: Option<ActorRef<M>>, failures: u32, data: D) {
        if let Some(actor) = &actor {
            self.linked.insert(actor.get_id(), key.clone());
        }
        self.actors.insert(key, PooledActor { actor, failures, data });
    }

    /// Removes a resource's entry.
    pub fn remove(&mut self, key: &AppKey) -> Option<PooledActor<M, D>> {
        self.actors.remove(key)
    }

    /// Removes a resource's entry, and forgets its actor, which the caller stops.
    pub fn detach(&mut self, key: &AppKey) -> Option<ActorRef<M>> {
        let actor = self.actors.remove(key)?.actor?;
        self.linked.remove(&actor.get_id());
        Some(actor)
    }

    /// Forgets a terminated actor. Returns its resource.
    pub fn forget(&mut self, cell: &ActorCell) -> Option<AppKey> {
        self.linked.remove(&cell.get_id())
    }

    /// Records the failure of a resource's actor, unless the resource was removed.
    pub fn record_failure(&mut self, key: &AppKey) -> Option<ActorFailure> {
        let entry = self.actors.get_mut(key)?;
        entry.failures = entry.failures.saturating_add(1);
        entry.actor = None;
        Some(ActorFailure { failures: entry.failures, may_restart: entry.failures <= RESTARTS_MAX })
    }

    /// Sends a message to a resource's actor, if it is running.
    pub fn send(&self, key: &AppKey, message: M) {
        if let Some(actor) = self.actor(key) {
            drop(actor.send_message(message));
        }
    }
}
