//! Index of objects by Application, and of the watches for these objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tidegate_application::AppKey;
use tidegate_application::comparison::ObjectVersion;
use tidegate_cluster::{Detail, Scope};
use tidegate_model::{Gvk, Object, ObjectKey};
use tokio::task::AbortHandle;

use crate::discovery::DiscoveryCache;

/// Index of objects by Application, and of the watches for these objects.
#[derive(Default)]
pub(super) struct ObjectIndex {
    pub owners: BTreeMap<ObjectKey, BTreeSet<AppKey>>,
    /// Number of objects that each Application has, by namespace. Of thousands of Applications, only a few
    /// have objects in the same namespace.
    pub namespaces: BTreeMap<String, BTreeMap<AppKey, usize>>,
    pub applications: BTreeMap<AppKey, ApplicationObjects>,
    pub watches: BTreeMap<Scope, ScopeWatch>,
    /// Kinds that can't be watched in all namespaces at once.
    pub unwatchable_kinds: BTreeSet<Gvk>,
    /// Logical clock that advances with each report.
    pub clock: u64,
    /// Number of reported changes to individual objects.
    pub events: u64,
    /// Recent changes, for Applications that read an object before they add it to the index.
    recent: RecentChanges,
    /// Logical time at which the available kinds last changed.
    kinds_changed_at: u64,
    /// Other cached data about the cluster. The data is kept while any Application has objects in the
    /// cluster.
    pub discovery: Option<Arc<DiscoveryCache>>,
}

/// Maximum number of changes to store.
const RECENT_CHANGES_MAX: usize = 1024;

/// Recently reported changes, in order, with their logical times.
#[derive(Default)]
struct RecentChanges {
    changes: VecDeque<(u64, ObjectKey, ObjectState)>,
    /// Logical time of the newest change that was dropped.
    dropped_until: u64,
}

impl RecentChanges {
    fn add(&mut self, now: u64, object: &ObjectKey, state: &ObjectState) {
        if self.changes.len() == RECENT_CHANGES_MAX {
            self.dropped_until = self.changes.pop_front().map_or(self.dropped_until, |(at, ..)| at);
        }
        self.changes.push_back((now, object.clone(), state.clone()));
    }

    /// Returns the changes after `moment`, or `None` if some of them are no longer stored.
    fn since(&self, moment: u64) -> Option<impl Iterator<Item = (&ObjectKey, &ObjectState)>> {
        let is_known = self.dropped_until <= moment;
        let changes = self.changes.iter().filter(move |(at, ..)| *at > moment);
        is_known.then(|| changes.map(|(_, object, state)| (object, state)))
    }
}

/// An Application's objects, and reports about them.
#[derive(Default)]
pub(super) struct ApplicationObjects {
    pub objects: BTreeMap<ObjectKey, TrackedObject>,
    /// Scopes in which the objects are watched: a kind, or a kind in a namespace.
    pub scopes: BTreeSet<Scope>,
    /// Logical time of the last report, or of the last change to the set of objects.
    pub changed_at: u64,
    /// Like `changed_at`, but ignores changes to individual objects.
    pub other_changed_at: u64,
    /// Logical time that the Application's reads of its objects cover.
    pub read_at: u64,
    /// Objects whose last report hasn't been confirmed by a read, with the number of later reads that
    /// differed from the report.
    pub unconfirmed: BTreeMap<ObjectKey, (ObjectState, u8)>,
}

impl ApplicationObjects {
    /// Creates an entry for objects whose changes are reported from now on.
    pub fn new(objects: BTreeMap<ObjectKey, TrackedObject>, now: u64) -> Self {
        Self { objects, changed_at: now, other_changed_at: now, read_at: now, ..Self::default() }
    }

    /// Records that the objects were read after `since`. Returns true if the read covers all reported
    /// changes.
    pub fn record_read(&mut self, objects: BTreeMap<ObjectKey, TrackedObject>, since: u64) -> bool {
        self.read_at = self.read_at.max(since);
        self.objects = objects;
        self.forget_reads();
        !self.has_unread_changes()
    }

    /// Takes over reports about unchanged objects. The new objects were read after `since`.
    pub fn with_reports_of(mut self, before: Self, since: u64) -> Self {
        (self.unconfirmed, self.other_changed_at, self.read_at) =
            (before.unconfirmed, before.other_changed_at, before.read_at.max(since));
        self.forget_reads();
        self
    }

    fn forget_reads(&mut self) {
        let objects = &self.objects;
        self.unconfirmed.retain(|object, (state, reads)| {
            *reads = reads.saturating_add(1);
            let cared = objects.get(object).filter(|cared| cared.state != ObjectState::Unknown);
            *reads < DIFFERING_READS_MAX && cared.is_some_and(|cared| !cared.state.is_same(state))
        });
    }

    /// Returns true if there are reports that the Application may not have read yet.
    pub fn has_unread_changes(&self) -> bool {
        self.other_changed_at > self.read_at || !self.unconfirmed.is_empty()
    }

    /// Returns true if the last read differs from earlier reports.
    pub fn is_outdated(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// Applies a report about an object. Returns true if the report contains new information.
    fn apply_report(&mut self, object: &ObjectKey, state: &ObjectState, now: u64) -> bool {
        let is_known = self.objects.get(object).is_some_and(|cared| cared.state.is_same(state));
        // A version never recurs, so a read of the same version includes the change. A missing object,
        // however, may have existed in between, while a comparison was reading it.
        if is_known && *state != ObjectState::Missing {
            self.unconfirmed.remove(object);
            return false;
        }
        self.unconfirmed.insert(object.clone(), (state.clone(), 0));
        self.changed_at = now;
        !is_known
    }
}

/// Returns the objects together with their kinds.
fn object_kinds(objects: &BTreeMap<ObjectKey, TrackedObject>) -> impl Iterator<Item = (&ObjectKey, &Gvk)> {
    objects.iter().map(|(object, TrackedObject { gvk, .. })| (object, gvk))
}

/// An Application's object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedObject {
    pub gvk: Gvk,
    /// State of the object when it was last read.
    pub state: ObjectState,
}

/// State of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectState {
    /// The state could not be determined.
    Unknown,
    /// The object doesn't exist.
    Missing,
    /// The object exists and has this version.
    Version(ObjectVersion),
}

/// Maximum number of reads that may differ from a report. A server may change the version with every
/// response.
const DIFFERING_READS_MAX: u8 = 2;

impl ObjectState {
    /// Returns true if both states could be determined and are equal.
    fn is_same(&self, other: &Self) -> bool {
        *self != Self::Unknown && self == other
    }

    /// Returns the state of an existing object.
    pub fn from_object(object: &Object) -> Self {
        ObjectVersion::from_object(object).map_or(Self::Unknown, Self::Version)
    }
}

/// A watch for a scope. Dropping it stops the watch.
pub(super) struct ScopeWatch {
    /// Number of Applications that use the watch.
    pub users: usize,
    /// True while the watch is observing changes.
    pub is_working: bool,
    /// Logical time of the last list.
    pub listed_at: u64,
    pub task: AbortHandle,
    /// Error message, if access is denied.
    pub forbidden: Option<String>,
}

impl Drop for ScopeWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ObjectIndex {
    /// Stops the watches that no Application uses anymore.
    pub fn end_unused(&mut self, left: &BTreeSet<Scope>) {
        let is_idle = |watched: &ScopeWatch| watched.users == 0;
        let idle: Vec<&Scope> =
            left.iter().filter(|one| self.watches.get(one).is_some_and(is_idle)).collect();
        idle.iter().for_each(|scope| drop(self.watches.remove(scope)));
        if !idle.is_empty() {
            let watched = &self.watches;
            // An Application that is added later may have more permissions.
            self.unwatchable_kinds.retain(|gvk| watched.keys().any(|scope| scope.gvk == *gvk));
        }
        if self.applications.is_empty() {
            self.discovery = None;
        }
    }

    /// Returns the Applications with matching objects.
    pub fn owners_of(&self, is_meant: impl Fn(&ObjectKey) -> bool) -> BTreeSet<AppKey> {
        let matching = self.owners.iter().filter(|(object, _)| is_meant(object));
        matching.flat_map(|(_, owners)| owners.iter().cloned()).collect()
    }

    /// Records a change that affects these Applications but not an individual object.
    pub fn record_change(&mut self, owners: &BTreeSet<AppKey>) {
        self.clock = self.clock.saturating_add(1);
        for owner in owners {
            if let Some(cares) = self.applications.get_mut(owner) {
                (cares.changed_at, cares.other_changed_at) = (self.clock, self.clock);
            }
        }
    }

    /// Applies a watch event for an object. Returns the Applications to notify.
    pub fn apply_event(&mut self, object: &ObjectKey, state: &ObjectState) -> BTreeSet<AppKey> {
        self.events = self.events.saturating_add(1);
        self.apply_state(object, state)
    }

    /// Applies the state of an object. Returns the Applications to notify.
    pub fn apply_state(&mut self, object: &ObjectKey, state: &ObjectState) -> BTreeSet<AppKey> {
        self.clock = self.clock.saturating_add(1);
        let (applications, clock) = (&mut self.applications, self.clock);
        self.recent.add(clock, object, state);
        let is_news = |owner: &&AppKey| {
            applications.get_mut(*owner).is_some_and(|cares| cares.apply_report(object, state, clock))
        };
        self.owners.get(object).into_iter().flatten().filter(is_news).cloned().collect()
    }

    /// Applies a list of all objects in a scope. Returns the Applications to notify. The list includes
    /// changes that happened before the watch started or between two watches.
    pub fn apply_list(
        &mut self,
        scope: &Scope,
        there: &BTreeMap<ObjectKey, ObjectState>,
    ) -> BTreeSet<AppKey> {
        self.clock = self.clock.saturating_add(1);
        if let Some(watched) = self.watches.get_mut(scope) {
            (watched.is_working, watched.listed_at) = (true, self.clock);
        }
        let cared: Vec<ObjectKey> =
            self.owners.keys().filter(|object| is_in_scope(object, scope)).cloned().collect();
        let news = cared
            .iter()
            .map(|object| self.apply_state(object, there.get(object).unwrap_or(&ObjectState::Missing)));
        news.flatten().collect()
    }

    /// Records that an Application has read its objects after `since`. Returns the logical time of the last
    /// change if the read covers all reported changes. If the index has different objects for the
    /// Application, hands `objects` back as an error.
    pub fn record_read(
        &mut self,
        application: &AppKey,
        objects: BTreeMap<ObjectKey, TrackedObject>,
        since: u64,
    ) -> Result<Option<u64>, BTreeMap<ObjectKey, TrackedObject>> {
        match self.applications.get_mut(application) {
            Some(cares) if object_kinds(&cares.objects).eq(object_kinds(&objects)) => {
                let is_all = cares.record_read(objects, since);
                Ok(is_all.then_some(cares.changed_at))
            }
            _ => Err(objects),
        }
    }

    /// Replaces an Application's objects. Returns the scopes that were watched because of this Application.
    pub fn replace_objects(
        &mut self,
        application: &AppKey,
        objects: BTreeMap<ObjectKey, TrackedObject>,
        since: u64,
    ) -> BTreeSet<Scope> {
        let (left, before) = self.remove_keeping_reports(application);
        self.add_objects(application, &objects);
        self.clock = self.clock.saturating_add(1);
        let cares = ApplicationObjects::new(objects, self.clock);
        let cares = match before {
            Some(before) => cares.with_reports_of(before, since),
            None => cares,
        };
        self.applications.insert(application.clone(), cares);
        left
    }

    /// Records that the available kinds have changed.
    pub fn record_kinds_change(&mut self) {
        self.clock = self.clock.saturating_add(1);
        self.kinds_changed_at = self.clock;
    }

    /// Applies the changes that an Application's new objects have missed since they were read at `since`. If
    /// these changes were dropped, assumes that any object may have changed. Returns the logical time of the
    /// last change if the Application has read all changes.
    pub fn apply_missed_changes(&mut self, application: &AppKey, since: u64) -> Option<u64> {
        // The new time is later than everything that the Application has read or was notified about.
        self.clock = self.clock.saturating_add(1);
        let (clock, watched, recent) = (self.clock, &self.watches, &self.recent);
        let cares = self.applications.get_mut(application)?;
        // If a watch isn't working, its next list will report all changes.
        let is_known = |scope| watched.get(scope).is_none_or(|one| !one.is_working || one.listed_at <= since);
        let is_known = self.kinds_changed_at <= since && cares.scopes.iter().all(is_known);
        match recent.since(since).filter(|_| is_known) {
            Some(changes) => {
                for (object, state) in changes {
                    if cares.objects.contains_key(object) {
                        cares.apply_report(object, state, clock);
                    }
                }
            }
            None => (cares.changed_at, cares.other_changed_at) = (clock, clock),
        }
        (!cares.has_unread_changes()).then_some(cares.changed_at)
    }

    /// Returns the Applications with objects in a scope.
    pub fn owners_in(&self, scope: &Scope) -> BTreeSet<AppKey> {
        self.owners_of(|object| is_in_scope(object, scope))
    }

    /// Returns the scopes in which to watch for these objects.
    pub fn scopes_of(&self, objects: &BTreeMap<ObjectKey, TrackedObject>) -> BTreeSet<Scope> {
        let scope = |(object, TrackedObject { gvk, .. }): (&ObjectKey, &TrackedObject)| {
            let is_narrow = self.unwatchable_kinds.contains(gvk) && !object.namespace.is_empty();
            let namespace = is_narrow.then(|| object.namespace.clone());
            Scope { gvk: gvk.clone(), namespace, detail: Detail::Metadata }
        };
        objects.iter().map(scope).collect()
    }

    /// Adds an Application's objects.
    pub fn add_objects(&mut self, application: &AppKey, objects: &BTreeMap<ObjectKey, TrackedObject>) {
        for object in objects.keys() {
            self.owners.entry(object.clone()).or_default().insert(application.clone());
            let inside = self.namespaces.entry(object.namespace.clone()).or_default();
            let count = inside.entry(application.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Removes an Application. Returns the scopes that were watched because of this Application.
    pub fn remove_application(&mut self, application: &AppKey) -> BTreeSet<Scope> {
        self.remove_keeping_reports(application).0
    }

    /// Removes an Application. Also returns the reports about its objects.
    pub fn remove_keeping_reports(
        &mut self,
        application: &AppKey,
    ) -> (BTreeSet<Scope>, Option<ApplicationObjects>) {
        let left = self.remove_from_watches(application);
        let mut cares = self.applications.remove(application);
        let objects = cares.as_mut().map(|cares| std::mem::take(&mut cares.objects)).unwrap_or_default();
        for object in objects.into_keys() {
            if let Some(owners) = self.owners.get_mut(&object) {
                owners.remove(application);
                if owners.is_empty() {
                    self.owners.remove(&object);
                }
            }
            if let Some(inside) = self.namespaces.get_mut(&object.namespace) {
                let count = inside.get(application).map_or(0, |count| count.saturating_sub(1));
                match count {
                    0 => drop(inside.remove(application)),
                    count => drop(inside.insert(application.clone(), count)),
                }
                if inside.is_empty() {
                    self.namespaces.remove(&object.namespace);
                }
            }
        }
        (left, cares)
    }

    /// Removes an Application from its watches. Returns the scopes of these watches.
    pub fn remove_from_watches(&mut self, application: &AppKey) -> BTreeSet<Scope> {
        let cares = self.applications.get_mut(application);
        let left = cares.map(|cares| std::mem::take(&mut cares.scopes)).unwrap_or_default();
        for scope in &left {
            if let Some(watched) = self.watches.get_mut(scope) {
                watched.users = watched.users.saturating_sub(1);
            }
        }
        left
    }
}

fn is_in_scope(object: &ObjectKey, Scope { gvk, namespace, .. }: &Scope) -> bool {
    (&object.group, &object.kind) == (&gvk.group, &gvk.kind)
        && namespace.as_ref().is_none_or(|one| *one == object.namespace)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests;
