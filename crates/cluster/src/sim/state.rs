//! The state of the simulated world, and the few ways in which it may change.
//!
//! Everything that changes an object goes through [`SimState::insert`], [`SimState::update`] or [`SimState::erase`]:
//! they alone give out resource versions, keep the indices true, feed the watches and wake the controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{GroupKind, Object, ObjectKey, Timestamp};

use super::SimConfig;
use super::audit::{Audit, AuditEntry};
use super::controllers;
use super::faults::Injector;
use super::history::{Change, History};
use super::index::Index;
use super::json::{field, has_owner, is_deleting, rfc3339};
use super::kinds::{Kinds, is_definition};
use super::objects::{Objects, Stored};
use super::rng::Rng;
use super::timers::Timers;

/// A simulated Kubernetes: a deterministic state machine without clock, I/O or threads.
///
/// Every entry point takes the present time. Before it does anything else it runs all controller steps that are due,
/// each at its own due time; so the state depends on the writes and their times only, not on who looked when.
#[derive(Clone, Debug)]
pub struct SimState {
    pub(crate) config: SimConfig,
    /// The newest moment this cluster has seen. It never goes back, whatever the clock does.
    pub(crate) now: Timestamp,
    pub(crate) revision: u64,
    pub(crate) rng: Rng,
    pub(crate) objects: Objects,
    pub(crate) timers: Timers,
    /// How often objects that ask for `fail-times` were created.
    pub(crate) creations: BTreeMap<String, u32>,
    pub(crate) audit: Audit,
    pub(crate) index: Index,
    pub(crate) kinds: Kinds,
    pub(crate) history: History,
    pub(crate) injector: Injector,
}

impl SimState {
    /// A new cluster with the namespaces `default` and `kube-system`, and nothing else.
    pub fn new(config: SimConfig, now: Timestamp) -> Self {
        let injector = Injector::new(config.faults.clone(), config.seed, 0);
        let mut state = Self {
            now,
            revision: 0,
            rng: Rng::new(config.seed),
            objects: Objects::default(),
            timers: Timers::default(),
            creations: BTreeMap::new(),
            audit: Audit::default(),
            index: Index::default(),
            kinds: Kinds::default(),
            history: History::new(config.history, 0),
            injector,
            config,
        };
        for name in ["default", "kube-system"] {
            state.create_namespace(name);
        }
        state
    }

    /// The configuration in use, with the seed that the cluster was begun with.
    pub fn config(&self) -> &SimConfig {
        &self.config
    }

    /// Changes the configuration. The seed stays what it was.
    pub fn configure(&mut self, config: SimConfig) {
        let config = SimConfig { seed: self.config.seed, ..config };
        self.injector = Injector::new(config.faults.clone(), config.seed, self.audit.last());
        self.config = config;
    }

    /// Every write received since this state was made or opened, in order.
    pub fn audit(&self) -> &[AuditEntry] {
        self.audit.entries()
    }

    /// The newest resource version.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// All objects as they are now, in order of their keys. Nothing happens by looking.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter().map(|stored| &*stored.object)
    }

    /// When the next controller step is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// Runs all controller steps due up to `now`. Returns the time that counts as now.
    pub fn advance(&mut self, now: Timestamp) -> Timestamp {
        let now = now.max(self.now);
        while let Some((at, key)) = self.timers.pop(now) {
            self.now = self.now.max(at);
            if let Some(again) = controllers::step(self, &key) {
                self.timers.schedule(&key, again.max(self.now));
            }
        }
        self.now = now;
        now
    }

    pub(crate) fn find(&self, key: &ObjectKey) -> Option<&Stored> {
        self.objects.get(key)
    }

    /// The objects that this UID owns, in order of their keys.
    pub(crate) fn children(&self, uid: &str) -> impl Iterator<Item = (&ObjectKey, &Stored)> {
        self.index.children(uid).filter_map(|key| self.objects.get(key)).map(|stored| (&stored.key, stored))
    }

    /// The stored objects of a kind, in order of their namespaces and names.
    pub(crate) fn of_kind(&self, kind: &GroupKind) -> impl Iterator<Item = (&ObjectKey, &Stored)> + use<'_> {
        self.objects.of_kind(kind).map(|stored| (&stored.key, stored))
    }

    /// Puts a new object into the world; it must carry everything but its resource version.
    pub(crate) fn insert(&mut self, key: ObjectKey, mut object: Object, fails: bool) -> Arc<Object> {
        self.stamp(&mut object);
        let object = Arc::new(object);
        self.index.add(&key, &object);
        self.tell(&key, &object, None, false);
        self.wake(&key, &object);
        let now = self.now;
        let stored =
            Stored { key, object: object.clone(), created_at: now, changed_at: now, fails, held_until: None };
        let previous = self.objects.insert(stored);
        assert!(previous.is_none(), "an object is inserted only where none is");
        object
    }

    /// Replaces an object by its next version. `own` wakes its own controller as well as its owners'.
    pub(crate) fn update(&mut self, key: &ObjectKey, mut object: Object, own: bool) -> Option<Arc<Object>> {
        let before = self.objects.get(key)?.object.clone();
        self.stamp(&mut object);
        let object = Arc::new(object);
        self.index.change(key, &before, &object);
        self.tell(key, &object, Some(before.clone()), false);
        if own {
            self.wake(key, &object);
        } else {
            self.wake_owners(&object);
        }
        let now = self.now;
        let stored = self.objects.get_mut(key)?;
        if generation(&before) != generation(&object) {
            stored.changed_at = now;
        }
        stored.object = object.clone();
        if is_definition(key) {
            self.kinds.learn(&object);
        }
        Some(object)
    }

    /// Takes an object out of the world at once.
    pub(crate) fn erase(&mut self, key: &ObjectKey) {
        let Some(stored) = self.objects.remove(key) else { return };
        let mut last = (*stored.object).clone();
        self.stamp(&mut last);
        let last = Arc::new(last);
        self.index.remove(key, &stored.object);
        self.tell(key, &last, Some(stored.object.clone()), true);
        self.wake_owners(&last);
        self.wake_after_erase(key, &last);
        self.kinds.forget(key);
    }

    /// Who waits for an object to be gone: what it owned, its namespace, its definition.
    fn wake_after_erase(&mut self, key: &ObjectKey, last: &Object) {
        let at = self.now + self.config.reaction;
        let children: Vec<ObjectKey> = self.index.children(last.uid()).cloned().collect();
        children.iter().for_each(|child| self.timers.schedule(child, at));
        // A Deployment that recreates its pods waits for those of its ReplicaSets.
        for owner in self.owners(last) {
            let above = self.find(&owner.key).map(|stored| self.owners(&stored.object)).unwrap_or_default();
            above.iter().for_each(|above| self.timers.schedule(&above.key, at));
        }
        if !key.namespace.is_empty() && self.index.population(&key.namespace) == 0 {
            self.timers.schedule(&ObjectKey::new("", "Namespace", "", &key.namespace), at);
        }
        if let Some(definition) = self.kinds.definition(&key.group_kind()) {
            self.timers.schedule(&definition, at);
        }
    }

    /// Has an object's controller, and its owners', look at it soon.
    fn wake(&mut self, key: &ObjectKey, object: &Object) {
        if controllers::has_one(key) || has_owner(object) || is_deleting(object) {
            self.timers.schedule(key, self.now + self.config.reaction);
        }
        self.wake_owners(object);
    }

    fn wake_owners(&mut self, object: &Object) {
        if has_owner(object) {
            let at = self.now + self.config.reaction;
            for owner in self.owners(object) {
                self.timers.schedule(&owner.key, at);
            }
        }
    }

    fn stamp(&mut self, object: &mut Object) {
        self.revision += 1;
        object.metadata_mut().insert("resourceVersion".to_owned(), self.revision.to_string().into());
    }

    fn tell(&mut self, key: &ObjectKey, object: &Arc<Object>, before: Option<Arc<Object>>, deleted: bool) {
        let change = Change { revision: self.revision, deleted, object: object.clone(), before };
        self.history.push(key, change);
    }

    /// The present as Kubernetes writes it: in whole seconds.
    pub(crate) fn timestamp(&self) -> String {
        rfc3339(self.now)
    }
}

fn generation(object: &Object) -> Option<&Value> {
    field(object, &["metadata", "generation"])
}
