//! Observed and written state of resources of a kind. Events are derived from the differences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tidegate_application::AppKey;
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::{Object, PackedObject};
use tidegate_state::owned_shards::OwnedShards;

use super::object_fields::{
    approver, client_fields, finalizers, operation, parse_version, terminating_operation, version,
};
use super::{MANAGED_LABEL, ManagedScope};

/// Managed kind of resource, with its events.
pub trait ManagedKind: Send + 'static {
    /// Type of the kind's events.
    type Event: Send + 'static;
    /// The resources' `kind`.
    const KIND: &'static str;
    /// Name of the kind in messages.
    const NOUN: &'static str;
    /// Annotation that requests a refresh.
    const REFRESH_ANNOTATION: &'static str;

    /// Returns the key of a resource in the operation log. An ApplicationSet and its Applications have the same key.
    fn log_key(object: &Object) -> String;
    /// Returns true if the controller itself adds and removes this finalizer.
    fn is_own_finalizer(finalizer: &str) -> bool;
    /// Returns the event for a resource's current state. If that is unreadable, `good` is the last readable
    /// state.
    ///
    /// # Errors
    ///
    /// Returns an error if the resource has never been readable.
    fn applied_event(
        object: &Object,
        good: Option<&Object>,
        origin: OperationOrigin,
    ) -> Result<Self::Event, String>;
    /// Returns true if work from the time when the resource was managed is still in progress.
    fn has_running_work(_: &Object) -> bool {
        false
    }
    /// Returns the event for a resource that is managed only until its work has finished.
    fn finishing_event(event: Self::Event) -> Self::Event {
        event
    }
    /// Returns the event for another client's changes to the controller's fields, if the kind has one.
    fn overwritten_event(_: AppKey, _: Overwrite) -> Option<Self::Event> {
        None
    }
    /// Returns the event for a resource that another replica manages, or `None` if the resource is unreadable.
    fn other_replica_event(object: &Object) -> Option<Self::Event>;
    /// Returns the event that follows all changes caused by a different set of shards.
    fn owned_shards_event(owned: OwnedShards) -> Self::Event;
    /// Returns the event for a deleted resource.
    fn gone_event(key: AppKey) -> Self::Event;
    /// Returns the event for unreadable resources.
    fn problems_event(problems: Vec<String>) -> Self::Event;
    /// Returns the event that follows all initial resources.
    fn settled_event() -> Self::Event;
}

/// Origin of the operation in a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationOrigin {
    /// The resource is emitted for the first time.
    Initial,
    /// Another client made a new request.
    NewRequest,
    /// The actor already has the operation.
    Known,
}

/// Another client's change to a resource's state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overwrite {
    /// Operation that now has the phase `Terminating` in the status.
    pub terminating_operation: Option<Value>,
}

/// All observed resources of a kind.
pub struct ObservedResources<K: ManagedKind> {
    pub(super) scope: ManagedScope,
    pub(super) resources: BTreeMap<AppKey, ResourceState>,
    /// Shards whose resources this process manages.
    owned: OwnedShards,
    /// Resources that other replicas manage, and candidates.
    others: BTreeMap<AppKey, OtherReplicaResource>,
    /// Resources in owned shards that this process doesn't manage yet. It must read them first, because the watch may be
    /// older than the writes of the replica that managed them so far.
    candidates: BTreeMap<AppKey, CandidateId>,
    next_candidate: CandidateId,
    /// Events to send before those of the next change.
    queued: Vec<K::Event>,
    /// Namespaces not listed so far. `None` stands for all namespaces.
    pending: BTreeSet<Option<String>>,
    is_settled: bool,
    /// Managed resources that were never readable, with their errors.
    unreadable: BTreeMap<AppKey, (String, OtherReplicaResource)>,
    /// Errors of namespaces that can't be listed. The key `None` stands for all namespaces.
    unlisted_namespaces: BTreeMap<Option<String>, String>,
}

/// ID of a candidate, which is different if this process loses the shard and gets it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CandidateId(u64);

/// Resource that another replica manages.
struct OtherReplicaResource {
    /// Last observed object, without `managedFields`.
    object: PackedObject,
    uid: String,
    version: u64,
    log_key: String,
}

/// State of a single resource.
pub(super) struct ResourceState {
    /// Last observed or written object, without `managedFields`.
    pub(super) object: Object,
    /// Other clients' fields in the most recent event.
    emitted: Object,
    /// Version in the most recent event.
    emitted_version: String,
    /// Last readable object, if the current object is unreadable.
    last_readable: Option<Object>,
    /// Client that confirmed deletions with an annotation, as of the last watch event.
    approver: Option<String>,
    /// Refresh request in the most recent event.
    emitted_refresh: Option<String>,
    /// Version in the event that reported the refresh request. The actor may still have to process it.
    refresh_version: u64,
    /// Operation in the most recent event or write.
    pub(super) known_operation: Option<Value>,
    /// Operation in the current write. The watch may report it before the response arrives.
    pub(super) operation_in_write: Option<Value>,
    /// Status in the current write.
    pub(super) status_in_write: Option<Value>,
    /// Other clients' changes to report in the next event.
    pending_overwrite: Option<Overwrite>,
}

impl<K: ManagedKind> ObservedResources<K> {
    pub(crate) fn new(scope: ManagedScope) -> Self {
        let pending = match scope.namespaces.is_empty() {
            true => BTreeSet::from([None]),
            false => scope.namespaces.iter().cloned().map(Some).collect(),
        };
        Self {
            scope,
            resources: BTreeMap::new(),
            owned: OwnedShards::All,
            others: BTreeMap::new(),
            candidates: BTreeMap::new(),
            next_candidate: CandidateId::default(),
            queued: Vec::new(),
            pending,
            is_settled: false,
            unreadable: BTreeMap::new(),
            unlisted_namespaces: BTreeMap::new(),
        }
    }

    /// Applies the list of the resources in one namespace, or in all namespaces.
    pub fn apply_list(&mut self, namespace: Option<String>, objects: Vec<Object>) -> Vec<K::Event> {
        let listed: BTreeSet<AppKey> = objects.iter().map(AppKey::of_object).collect();
        let is_meant = |key: &&AppKey| namespace.as_ref().is_none_or(|namespace| key.namespace == *namespace);
        let known = self.resources.keys().chain(self.others.keys()).chain(self.unreadable.keys());
        let gone: BTreeSet<AppKey> =
            known.filter(is_meant).filter(|key| !listed.contains(*key)).cloned().collect();
        let mut events: Vec<K::Event> = gone.into_iter().flat_map(|key| self.remove(key)).collect();
        if self.unlisted_namespaces.remove(&namespace).is_some() {
            events.push(self.problems_event());
        }
        events.extend(objects.into_iter().flat_map(|object| self.apply_object(object)));
        events.extend(self.mark_listed(&namespace));
        events
    }

    /// Records that a namespace, or all of them, can't be listed. `reason` is the error to report, or `None`
    /// if users can't fix the cause. Startup doesn't wait for this list, and earlier events remain valid.
    pub fn record_denied(&mut self, namespace: Option<String>, reason: Option<String>) -> Vec<K::Event> {
        let before = match reason {
            Some(reason) => self.unlisted_namespaces.insert(namespace.clone(), reason),
            None => self.unlisted_namespaces.remove(&namespace),
        };
        let is_news = before.as_ref() != self.unlisted_namespaces.get(&namespace);
        let mut events: Vec<K::Event> = is_news.then(|| self.problems_event()).into_iter().collect();
        events.extend(self.mark_listed(&namespace));
        events
    }

    /// Records that a namespace has been listed. Returns an event after the last one.
    fn mark_listed(&mut self, namespace: &Option<String>) -> Option<K::Event> {
        self.pending.remove(namespace);
        let is_news = self.pending.is_empty() && !self.is_settled;
        self.is_settled |= is_news;
        is_news.then(K::settled_event)
    }

    pub(crate) fn apply_object(&mut self, object: Object) -> Vec<K::Event> {
        let key = AppKey::of_object(&object);
        if self.is_outdated(&key, &object) {
            return Vec::new();
        }
        let is_ours = !self.scope.is_label_required || object.label(MANAGED_LABEL) == Some("true");
        if !is_ours && !K::has_running_work(&object) {
            return self.remove(key);
        }
        match self.is_managed(&key, &object) {
            true => self.apply_managed(key, object, is_ours),
            false => self.apply_other(key, object),
        }
    }

    /// Starts to manage a candidate in its current state, which was read after it had become a candidate under this ID.
    pub fn adopt(&mut self, object: Object, candidate: CandidateId) -> Vec<K::Event> {
        let key = AppKey::of_object(&object);
        let is_candidate = self.candidates.get(&key) == Some(&candidate) && !self.is_outdated(&key, &object);
        if !is_candidate || !self.owned.contains_key(|| K::log_key(&object)) {
            return self.apply_object(object);
        }
        let is_ours = !self.scope.is_label_required || object.label(MANAGED_LABEL) == Some("true");
        match is_ours || K::has_running_work(&object) {
            true => self.apply_managed(key, object, is_ours),
            false => self.remove(key),
        }
    }

    /// Returns the resources to read for [`ObservedResources::adopt`].
    pub fn candidates(&self) -> BTreeMap<AppKey, CandidateId> {
        self.candidates.clone()
    }

    fn add_candidate(&mut self, key: AppKey) {
        let CandidateId(next) = &mut self.next_candidate;
        *next = next.wrapping_add(1);
        self.candidates.entry(key).or_insert(self.next_candidate);
    }

    /// Returns true if a newer state of a resource is known. In a replica that shares the work, the watch may report states
    /// from before a read, even of an earlier resource with the same name.
    fn is_outdated(&self, key: &AppKey, object: &Object) -> bool {
        let is_shared = self.owned != OwnedShards::All;
        let managed = self.resources.get(key).map(|state| &state.object);
        let managed = managed.filter(|known| is_shared || known.uid() == object.uid()).map(version);
        let known = managed.or_else(|| self.others.get(key).map(|other| other.version));
        known.is_some_and(|known| known > version(object))
    }

    fn apply_managed(&mut self, key: AppKey, mut object: Object, is_ours: bool) -> Vec<K::Event> {
        self.others.remove(&key);
        self.candidates.remove(&key);
        let to_event = |event| if is_ours { event } else { K::finishing_event(event) };
        let approver = approver(&object);
        object.metadata_mut().remove("managedFields");
        let mut events = Vec::new();
        if let Some(state) = self.resources.get_mut(&key) {
            if state.object.uid() == object.uid() {
                state.approver = approver;
                state.detect_overwrite(&object);
                let changed = state.apply_object::<K>(object);
                let overwritten =
                    state.pending_overwrite.take().and_then(|what| K::overwritten_event(key, what));
                return overwritten.into_iter().chain(changed.map(to_event)).collect();
            }
            // This is a new resource with the same name.
            events = self.remove(key.clone());
        }
        match K::applied_event(&object, None, OperationOrigin::Initial) {
            Ok(event) => {
                events.extend(self.clear_error(&key));
                events.push(to_event(event));
                self.resources.insert(key, ResourceState { approver, ..ResourceState::new::<K>(object) });
            }
            Err(problem) => {
                let resource = OtherReplicaResource::new::<K>(object);
                let before = self.unreadable.insert(key, (problem.clone(), resource));
                if before.is_none_or(|(before, _)| before != problem) {
                    events.push(self.problems_event());
                }
            }
        }
        events
    }

    pub(crate) fn apply_deletion(&mut self, object: &Object) -> Vec<K::Event> {
        let key = AppKey::of_object(object);
        // The resource may have been recreated in the meantime.
        let known = self.resources.get(&key).map(|state| state.object.uid());
        let known = known.or_else(|| self.others.get(&key).map(|other| other.uid.as_str()));
        let is_another = known.is_some_and(|uid| uid != object.uid());
        if is_another { Vec::new() } else { self.remove(key) }
    }

    fn remove(&mut self, key: AppKey) -> Vec<K::Event> {
        let unread = self.clear_error(&key);
        self.candidates.remove(&key);
        let is_known = self.resources.remove(&key).is_some() | self.others.remove(&key).is_some();
        unread.into_iter().chain(is_known.then(|| K::gone_event(key))).collect()
    }

    /// Returns true if this process manages a resource. If the resource moves to another shard, this process first
    /// finishes its work, because the log accepts the work's events only from the replica that started it.
    fn is_managed(&self, key: &AppKey, object: &Object) -> bool {
        let is_known = || self.resources.get(key).is_some_and(|state| state.object.uid() == object.uid());
        match &self.owned {
            OwnedShards::All => true,
            owned => {
                (is_known() || self.unreadable.contains_key(key)) && owned.contains_key(|| K::log_key(object))
                    || is_known() && K::has_running_work(object)
            }
        }
    }

    /// Records the state of a resource that another replica manages.
    fn apply_other(&mut self, key: AppKey, mut object: Object) -> Vec<K::Event> {
        let is_same =
            |other: &OtherReplicaResource| other.uid == object.uid() && other.version == version(&object);
        if self.others.get(&key).is_some_and(is_same) {
            return Vec::new();
        }
        let is_recreated = self.resources.get(&key).is_some_and(|state| state.object.uid() != object.uid());
        let mut events = if is_recreated { self.remove(key.clone()) } else { Vec::new() };
        let last_readable = self.resources.remove(&key).and_then(|state| state.last_readable);
        object.metadata_mut().remove("managedFields");
        events.extend(self.clear_error(&key));
        events.extend(other_replica_event::<K>(&object, last_readable.as_ref()));
        let other = OtherReplicaResource::new::<K>(object);
        match self.owned.contains_key(|| other.log_key.clone()) {
            true => self.add_candidate(key.clone()),
            false => drop(self.candidates.remove(&key)),
        }
        self.others.insert(key, other);
        events
    }

    /// Sets the shards whose resources this process manages. The resulting events are sent before those of the next
    /// change.
    pub fn set_owned_shards(&mut self, owned: OwnedShards) {
        self.owned = owned.clone();
        let is_lost =
            |(_, state): &(&AppKey, &ResourceState)| !owned.contains_key(|| K::log_key(&state.object));
        let lost: Vec<AppKey> = self.resources.iter().filter(is_lost).map(|(key, _)| key.clone()).collect();
        for key in lost {
            if let Some(ResourceState { object, last_readable, .. }) = self.resources.remove(&key) {
                self.queued.extend(other_replica_event::<K>(&object, last_readable.as_ref()));
                self.others.insert(key, OtherReplicaResource::new::<K>(object));
            }
        }
        let is_owned = |other: &OtherReplicaResource| owned.contains_key(|| other.log_key.clone());
        let (kept, lost): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.unreadable).into_iter().partition(|(_, (_, other))| is_owned(other));
        self.unreadable = kept;
        if !lost.is_empty() {
            self.others.extend(lost.into_iter().map(|(key, (_, other))| (key, other)));
            self.queued.push(self.problems_event());
        }
        let candidates = self.others.iter().filter(|(_, other)| is_owned(other));
        let candidates: BTreeSet<AppKey> = candidates.map(|(key, _)| key.clone()).collect();
        self.candidates.retain(|key, _| candidates.contains(key));
        candidates.into_iter().for_each(|key| self.add_candidate(key));
        self.queued.push(K::owned_shards_event(owned));
    }

    /// Returns the events to send before those of the next change.
    pub fn take_queued(&mut self) -> Vec<K::Event> {
        std::mem::take(&mut self.queued)
    }

    fn clear_error(&mut self, key: &AppKey) -> Option<K::Event> {
        self.unreadable.remove(key).map(|_| self.problems_event())
    }

    fn problems_event(&self) -> K::Event {
        K::problems_event(
            self.unlisted_namespaces
                .values()
                .chain(self.unreadable.values().map(|(problem, _)| problem))
                .cloned()
                .collect(),
        )
    }

    /// Returns the resource with the controller's own finalizers replaced by `expected`, keeping all others.
    /// Returns `None` if nothing changes.
    pub fn with_finalizers(&self, key: &AppKey, expected: &[String]) -> Option<Object> {
        let state = self.resources.get(key)?;
        let found = finalizers(&state.object);
        let mut finalizers = found.clone();
        finalizers.retain(|one| !K::is_own_finalizer(one) || expected.contains(one));
        // Finalizers must not be added during a deletion.
        let new = expected.iter().filter(|one| K::is_own_finalizer(one) && !found.contains(one));
        finalizers.extend(new.filter(|_| !state.object.is_deleting()).cloned());
        if finalizers == found {
            return None;
        }
        let mut object = state.object.clone();
        object.metadata_mut().insert("finalizers".to_owned(), finalizers.into());
        Some(object)
    }

    /// Adds the requester of a deletion to `changed`, or to the observed resource if that is `None`. Returns
    /// `None` if nothing changes.
    pub fn with_requester(
        &self,
        key: &AppKey,
        changed: Option<Object>,
        requester: Option<&str>,
    ) -> Option<Object> {
        let known = changed.as_ref().or_else(|| Some(&self.resources.get(key)?.object))?;
        let requester =
            requester.filter(|requester| known.annotation(DELETION_REQUESTED_BY) != Some(*requester));
        let Some(requester) = requester else { return changed };
        let mut object = known.clone();
        object.set_annotation(DELETION_REQUESTED_BY, requester);
        Some(object)
    }

    /// Records a written object. `has_operation` is true if the write included the operation.
    pub fn record_write(&mut self, key: &AppKey, has_operation: bool, mut object: Object) {
        object.metadata_mut().remove("managedFields");
        if let Some(state) = self.resources.get_mut(key).filter(|state| state.object.uid() == object.uid()) {
            if has_operation || state.known_operation == operation(&state.object) {
                state.known_operation = operation(&object);
            }
            if refresh_request::<K>(&object).is_none() {
                state.emitted_refresh = None;
            }
            state.status_in_write = None;
            state.update(object);
        }
    }

    /// Returns the client that confirmed deletions with an annotation, if the cluster reports it.
    pub fn approver(&self, key: &AppKey) -> Option<&str> {
        self.resources.get(key)?.approver.as_deref()
    }

    /// Returns the last observed or written object.
    pub fn object(&self, key: &AppKey) -> Option<&Object> {
        self.resources.get(key).map(|state| &state.object)
    }

    /// Returns a resource, unless it has been recreated, or other clients have changed it since the event with this
    /// version.
    pub(super) fn unchanged_object(&self, key: &AppKey, uid: &str, version: &str) -> Option<Object> {
        if version.is_empty() {
            return None;
        }
        let Some(state) = self.resources.get(key) else {
            let other = self.others.get(key)?;
            let is_unchanged = other.uid == uid && other.version == parse_version(version);
            return is_unchanged.then(|| Arc::unwrap_or_clone(other.object.unpack()));
        };
        let is_unchanged = state.object.uid() == uid && state.is_unchanged_since::<K>(version);
        is_unchanged.then(|| state.object.clone())
    }

    /// Removes the refresh request from an object if an event has already reported it. A newer request stays.
    pub fn remove_refresh(&self, key: &AppKey, object: &mut Object) {
        if let Some(state) = self.resources.get(key) {
            state.remove_refresh::<K>(object);
        }
    }

    /// Records an object read after a conflict. The watch reports its changes.
    pub fn record_conflict(&mut self, key: &AppKey, mut object: Object) {
        object.metadata_mut().remove("managedFields");
        if let Some(state) = self.resources.get_mut(key).filter(|state| state.object.uid() == object.uid()) {
            state.detect_overwrite(&object);
            state.update(object);
        }
    }
}

/// Returns the event for a resource that another replica manages: with its current state or, if that is unreadable, with
/// the last readable one.
fn other_replica_event<K: ManagedKind>(object: &Object, last_readable: Option<&Object>) -> Option<K::Event> {
    K::other_replica_event(object).or_else(|| K::other_replica_event(last_readable?))
}

impl OtherReplicaResource {
    fn new<K: ManagedKind>(object: Object) -> Self {
        Self {
            uid: object.uid().to_owned(),
            version: version(&object),
            log_key: K::log_key(&object),
            object: PackedObject::pack(object),
        }
    }
}

impl ResourceState {
    /// Creates the initial state of a resource, with this object as its first event.
    fn new<K: ManagedKind>(object: Object) -> Self {
        Self {
            emitted: client_fields(&object, K::REFRESH_ANNOTATION),
            emitted_version: object.resource_version().to_owned(),
            last_readable: None,
            approver: None,
            emitted_refresh: refresh_request::<K>(&object),
            refresh_version: version(&object),
            known_operation: operation(&object),
            operation_in_write: None,
            status_in_write: None,
            pending_overwrite: None,
            object,
        }
    }

    /// Keeps the newer object, because a watch event may be older than a write.
    fn update(&mut self, object: Object) {
        if version(&object) >= version(&self.object) {
            self.object = object;
        }
    }

    /// Detects another client's change to the status or removal of the operation.
    fn detect_overwrite(&mut self, object: &Object) {
        let (now, before) = (object.pointer("/status"), self.object.pointer("/status"));
        if version(object) <= version(&self.object) || now.is_some() && now == self.status_in_write.as_ref() {
            return;
        }
        let is_withdrawn = self.known_operation.is_some() && operation(object).is_none();
        if now == before && !is_withdrawn {
            return;
        }
        let ended = terminating_operation(object).filter(|_| terminating_operation(&self.object).is_none());
        let overwrite = self.pending_overwrite.get_or_insert_default();
        overwrite.terminating_operation = overwrite.terminating_operation.take().or(ended);
    }

    /// Applies an observed object. Returns an event if anything changed.
    fn apply_object<K: ManagedKind>(&mut self, object: Object) -> Option<K::Event> {
        if version(&object) < version(&self.object) {
            return None;
        }
        let (fields, requested) = (client_fields(&object, K::REFRESH_ANNOTATION), operation(&object));
        if requested.is_some() && requested == self.operation_in_write {
            self.known_operation.clone_from(&requested);
        }
        let is_requested = requested.is_some() && requested != self.known_operation;
        let refresh = refresh_request::<K>(&object);
        let is_refresh = refresh.is_some() && refresh != self.emitted_refresh;
        let is_news = fields != self.emitted || is_requested || is_refresh;
        if is_refresh {
            self.refresh_version = version(&object);
        }
        if is_requested {
            self.known_operation = requested;
        }
        (self.emitted, self.emitted_refresh) = (fields, refresh);
        let before = std::mem::replace(&mut self.object, object);
        if !is_news {
            return None;
        }
        self.object.resource_version().clone_into(&mut self.emitted_version);
        let origin = if is_requested { OperationOrigin::NewRequest } else { OperationOrigin::Known };
        if let Ok(event) = K::applied_event(&self.object, None, origin) {
            self.last_readable = None;
            return Some(event);
        }
        let good = self.last_readable.get_or_insert(before);
        K::applied_event(&self.object, Some(good), origin).ok()
    }

    /// Returns true if other clients' fields haven't changed since the event with this version.
    pub(super) fn is_unchanged_since<K: ManagedKind>(&self, version: &str) -> bool {
        self.emitted_version == version && client_fields(&self.object, K::REFRESH_ANNOTATION) == self.emitted
    }

    /// Removes the refresh request if an event has already reported it. A newer request stays.
    pub(super) fn remove_refresh<K: ManagedKind>(&self, object: &mut Object) {
        if self.emitted_refresh == refresh_request::<K>(object) {
            object.remove_annotation(K::REFRESH_ANNOTATION);
        }
    }

    /// Returns true if the event with this version, or an earlier one, reported the refresh request.
    pub(super) fn has_emitted_refresh(&self, version: &str) -> bool {
        parse_version(version) >= self.refresh_version
    }

    /// Returns true if the object has a new operation request from another client.
    pub(super) fn has_new_operation(&self) -> bool {
        operation(&self.object) != self.known_operation
    }
}

fn refresh_request<K: ManagedKind>(object: &Object) -> Option<String> {
    object.annotation(K::REFRESH_ANNOTATION).map(str::to_owned)
}
