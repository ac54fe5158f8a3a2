//! State of the simulated cluster, and the few functions that change it.
//!
//! Every change to an object goes through [`SimState::insert`], [`SimState::update`] or
//! [`SimState::remove_object`]. Only these functions assign resource versions, maintain the indexes, record
//! changes for watches and wake the controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{GroupKind, Gvk, Object, ObjectKey, Timestamp};

use super::audit::{Audit, AuditEntry};
use super::controllers::controller::Controller;
use super::faults::FaultInjector;
use super::history::{Change, History};
use super::index::Index;
use super::json::{field, has_owner, is_deleting, rfc3339};
use super::kinds::{Kinds, is_definition};
use super::objects::{Objects, StoredObject};
use super::rng::Rng;
use super::timers::Timers;
use super::{SimConfig, api_error};
use crate::ClusterError;

/// A simulated Kubernetes: a deterministic state machine without a clock, I/O or threads.
///
/// Every entry point takes the current time and first runs all controller steps that are due, each at its own
/// time. The state thus depends only on the writes and their times, and not on reads.
#[derive(Clone, Debug)]
pub struct SimState {
    pub(crate) config: SimConfig,
    /// Latest time passed by a caller. Never decreases, even if the clock is set back.
    pub(crate) now: Timestamp,
    pub(crate) revision: u64,
    pub(crate) rng: Rng,
    pub(crate) objects: Objects,
    pub(crate) timers: Timers,
    /// Number of creations of each object with the `fail-times` annotation.
    pub(crate) creations: BTreeMap<String, u32>,
    pub(crate) audit: Audit,
    pub(crate) index: Index,
    pub(crate) kinds: Kinds,
    pub(crate) history: History,
    pub(crate) injector: FaultInjector,
}

impl SimState {
    /// Creates a cluster that contains only the namespaces `default` and `kube-system`.
    pub fn new(config: SimConfig, now: Timestamp) -> Self {
        let injector = FaultInjector::new(config.faults.clone(), config.seed, 0);
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

    /// Returns the current configuration. The seed is always the cluster's original seed.
    pub fn config(&self) -> &SimConfig {
        &self.config
    }

    /// Changes the configuration except for the seed.
    pub fn configure(&mut self, config: SimConfig) {
        let config = SimConfig { seed: self.config.seed, ..config };
        self.injector = FaultInjector::new(config.faults.clone(), config.seed, self.audit.last_sequence());
        self.config = config;
    }

    /// Returns every write since this state was created or opened, in order.
    pub fn audit(&self) -> &[AuditEntry] {
        self.audit.entries()
    }

    /// Returns the newest resource version.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns all current objects, sorted by key. Doesn't run controller steps.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter().map(|stored| &*stored.object)
    }

    /// Returns the time of the next controller step.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.next_due()
    }

    /// Returns true if objects of the kind are namespaced.
    pub(crate) fn is_namespaced(&self, gvk: &Gvk) -> Result<bool, ClusterError> {
        self.kinds.is_namespaced(gvk).ok_or_else(|| api_error::unknown_kind(gvk))
    }

    /// Returns the storage key of the object with this kind, namespace and name.
    pub(crate) fn object_key(
        &self,
        gvk: &Gvk,
        namespace: &str,
        name: &str,
    ) -> Result<ObjectKey, ClusterError> {
        let namespace = if self.is_namespaced(gvk)? { namespace } else { "" };
        Ok(ObjectKey::new(&gvk.group, &gvk.kind, namespace, name))
    }

    pub(crate) fn find(&self, key: &ObjectKey) -> Option<&StoredObject> {
        self.objects.get(key)
    }

    /// Returns the objects owned by the object with the given UID, sorted by key.
    pub(crate) fn children(&self, uid: &str) -> impl Iterator<Item = (&ObjectKey, &StoredObject)> {
        self.index.children(uid).filter_map(|key| self.objects.get(key)).map(|stored| (&stored.key, stored))
    }

    /// Returns the stored objects of a kind, sorted by namespace and name.
    pub(crate) fn objects_of_kind(
        &self,
        kind: &GroupKind,
    ) -> impl Iterator<Item = (&ObjectKey, &StoredObject)> + use<'_> {
        self.objects.of_kind(kind).map(|stored| (&stored.key, stored))
    }

    /// Adds a new object, which must be complete except for its resource version.
    pub(crate) fn insert(&mut self, key: ObjectKey, mut object: Object, fails: bool) -> Arc<Object> {
        self.stamp_revision(&mut object);
        let object = Arc::new(object);
        self.index.add(&key, &object);
        self.record_change(&key, &object, None, false);
        self.wake(&key, &object);
        let now = self.now;
        let stored = StoredObject {
            key,
            object: object.clone(),
            created_at: now,
            changed_at: now,
            fails,
            held_until: None,
        };
        let previous = self.objects.insert(stored);
        assert!(previous.is_none(), "the object to insert already exists");
        object
    }

    /// Replaces an object with its next version. Wakes the controllers of its owners and, if `own` is set,
    /// its own controller.
    pub(crate) fn update(&mut self, key: &ObjectKey, mut object: Object, own: bool) -> Option<Arc<Object>> {
        let before = self.objects.get(key)?.object.clone();
        self.stamp_revision(&mut object);
        let object = Arc::new(object);
        self.index.update(key, &before, &object);
        self.record_change(key, &object, Some(before.clone()), false);
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
            self.kinds.register(&object);
        }
        Some(object)
    }

    /// Removes an object immediately.
    pub(crate) fn remove_object(&mut self, key: &ObjectKey) {
        let Some(stored) = self.objects.remove(key) else { return };
        let mut last = (*stored.object).clone();
        self.stamp_revision(&mut last);
        let last = Arc::new(last);
        self.index.remove(key, &stored.object);
        self.record_change(key, &last, Some(stored.object.clone()), true);
        self.wake_owners(&last);
        self.wake_after_removal(key, &last);
        self.kinds.unregister(key);
    }

    /// Wakes the objects that wait for this removal: dependents, the namespace and the definition.
    fn wake_after_removal(&mut self, key: &ObjectKey, last: &Object) {
        let at = self.now + self.config.reaction;
        let children: Vec<ObjectKey> = self.index.children(last.uid()).cloned().collect();
        children.iter().for_each(|child| self.timers.schedule(child, at));
        // Wake the owner's owners as well. A Deployment that recreates its pods waits until the pods of its
        // ReplicaSets are deleted.
        for owner in self.owners(last) {
            let above = self.find(&owner.key).map(|stored| self.owners(&stored.object)).unwrap_or_default();
            above.iter().for_each(|above| self.timers.schedule(&above.key, at));
        }
        if !key.namespace.is_empty() && self.index.object_count(&key.namespace) == 0 {
            self.timers.schedule(&ObjectKey::new("", "Namespace", "", &key.namespace), at);
        }
        if let Some(definition) = self.kinds.definition(&key.group_kind()) {
            self.timers.schedule(&definition, at);
        }
    }

    /// Schedules the controllers of an object and of its owners.
    fn wake(&mut self, key: &ObjectKey, object: &Object) {
        if Controller::for_kind(key).is_some() || has_owner(object) || is_deleting(object) {
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

    fn stamp_revision(&mut self, object: &mut Object) {
        self.revision += 1;
        object.metadata_mut().insert("resourceVersion".to_owned(), self.revision.to_string().into());
    }

    fn record_change(
        &mut self,
        key: &ObjectKey,
        object: &Arc<Object>,
        previous: Option<Arc<Object>>,
        is_deleted: bool,
    ) {
        let change = Change { revision: self.revision, is_deleted, object: object.clone(), previous };
        self.history.push(key, change);
    }

    /// Returns the current time in whole seconds, as in Kubernetes.
    pub(crate) fn timestamp(&self) -> String {
        rfc3339(self.now)
    }
}

fn generation(object: &Object) -> Option<&Value> {
    field(object, &["metadata", "generation"])
}
