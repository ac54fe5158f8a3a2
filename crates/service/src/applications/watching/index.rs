//! Who has which objects, and what is watched for that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tidegate_application::comparison::Version;
use tidegate_cluster::{Detail, Scope};
use tidegate_model::{Gvk, Object, ObjectKey};
use tokio::task::AbortHandle;

use crate::applications::store::AppKey;
use crate::applications::view::View;

/// Who has which objects, and what is watched for that.
#[derive(Default)]
pub(super) struct Index {
    pub owners: BTreeMap<ObjectKey, BTreeSet<AppKey>>,
    /// Who has objects in a namespace, and how many: of thousands, few have any in one.
    pub namespaces: BTreeMap<String, BTreeMap<AppKey, usize>>,
    pub applications: BTreeMap<AppKey, Cares>,
    pub watched: BTreeMap<Scope, Watched>,
    /// Kinds that may not be watched in all namespaces at once.
    pub narrow: BTreeSet<Gvk>,
    /// Grows with all that is told.
    pub clock: u64,
    /// So many changes of single objects were told of.
    pub events: u64,
    /// What was told last, for those who come to care for it later and have read it before.
    recent: Recent,
    /// When other kinds began to be served.
    kinds_changed_at: u64,
    /// What else is known of the cluster, for as long as any application has objects there.
    pub view: Option<Arc<View>>,
}

/// So many changes are remembered, whoever cares for them.
const RECENT_MAX: usize = 1024;

/// The last changes that were told, in order, with when that was.
#[derive(Default)]
struct Recent {
    told: VecDeque<(u64, ObjectKey, State)>,
    /// When the newest was told of those that are not remembered any more.
    forgotten: u64,
}

impl Recent {
    fn add(&mut self, now: u64, object: &ObjectKey, state: &State) {
        if self.told.len() == RECENT_MAX {
            self.forgotten = self.told.pop_front().map_or(self.forgotten, |(at, ..)| at);
        }
        self.told.push_back((now, object.clone(), state.clone()));
    }

    /// What was told after a moment; nothing where that is not known any more.
    fn since(&self, moment: u64) -> Option<impl Iterator<Item = (&ObjectKey, &State)>> {
        let is_known = self.forgotten <= moment;
        let told = self.told.iter().filter(move |(at, ..)| *at > moment);
        is_known.then(|| told.map(|(_, object, state)| (object, state)))
    }
}

/// What an application cares for.
#[derive(Default)]
pub(super) struct Cares {
    pub objects: BTreeMap<ObjectKey, Cared>,
    /// What is watched for it: all objects of a kind, or those of a namespace.
    pub scopes: BTreeSet<Scope>,
    /// When it was told of a change last, or has come to care for something else.
    pub told: u64,
    /// The same, of all but changes of its own objects.
    pub told_else: u64,
    /// What of that it was told before has been read.
    pub read: u64,
    /// Its objects that were not read as they are by what was told last, and how often they were read otherwise since then.
    pub unread: BTreeMap<ObjectKey, (State, u8)>,
}

impl Cares {
    /// It begins to care for objects, of which only later changes are told.
    pub fn of(objects: BTreeMap<ObjectKey, Cared>, now: u64) -> Self {
        Self { objects, told: now, told_else: now, read: now, ..Self::default() }
    }

    /// Its objects are as they were read after some moment. Whether all that it was told of was in that.
    pub fn is_read(&mut self, objects: BTreeMap<ObjectKey, Cared>, since: u64) -> bool {
        self.read = self.read.max(since);
        self.objects = objects;
        self.forget_what_was_read();
        !self.has_news()
    }

    /// It cares for others now, which were read after some moment; what it was told of those that stay is known still.
    pub fn instead_of(mut self, before: Self, since: u64) -> Self {
        (self.unread, self.told_else, self.read) = (before.unread, before.told_else, before.read.max(since));
        self.forget_what_was_read();
        self
    }

    fn forget_what_was_read(&mut self) {
        let objects = &self.objects;
        self.unread.retain(|object, (state, reads)| {
            *reads = reads.saturating_add(1);
            let cared = objects.get(object).filter(|cared| cared.state != State::Unknown);
            *reads < READS_MAX && cared.is_some_and(|cared| !cared.state.is(state))
        });
    }

    /// Whether it was told of something that may not have been read.
    pub fn has_news(&self) -> bool {
        self.told_else > self.read || !self.unread.is_empty()
    }

    /// Whether what was read of it was older, or newer, than what was told of it before.
    pub fn is_behind(&self) -> bool {
        !self.unread.is_empty()
    }

    /// One of its objects is so now. Whether that is news.
    fn is_told(&mut self, object: &ObjectKey, state: &State, now: u64) -> bool {
        let is_known = self.objects.get(object).is_some_and(|cared| cared.state.is(state));
        // A version does not come again. One that is missing again may have been seen by a comparison that is being made.
        if is_known && *state != State::Missing {
            self.unread.remove(object);
            return false;
        }
        self.unread.insert(object.clone(), (state.clone(), 0));
        self.told = now;
        !is_known
    }
}

/// Which objects those are.
fn kinds(objects: &BTreeMap<ObjectKey, Cared>) -> impl Iterator<Item = (&ObjectKey, &Gvk)> {
    objects.iter().map(|(object, Cared { gvk, .. })| (object, gvk))
}

/// An object that an application cares for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cared {
    pub gvk: Gvk,
    /// As it was read last.
    pub state: State,
}

/// How an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It could not be told.
    Unknown,
    /// It is not there.
    Missing,
    /// It has this version.
    At(Version),
}

/// So often an object is read that was told to be otherwise: a server may count each answer.
const READS_MAX: u8 = 2;

impl State {
    /// Whether it is surely the same.
    fn is(&self, other: &Self) -> bool {
        *self != Self::Unknown && self == other
    }

    /// That of an object that is there.
    pub fn of(object: &Object) -> Self {
        Version::of(object).map_or(Self::Unknown, Self::At)
    }
}

/// A watch, which ends when it is dropped.
pub(super) struct Watched {
    /// So many applications have such objects.
    pub users: usize,
    /// Changes are seen now.
    pub is_seen: bool,
    /// All objects were listed then, for those who cared for any.
    pub listed_at: u64,
    pub task: AbortHandle,
    /// Why its objects may not be watched.
    pub forbidden: Option<String>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Index {
    /// Ends those of some watches that nobody needs any more.
    pub fn tidy(&mut self, left: &BTreeSet<Scope>) {
        let is_idle = |watched: &Watched| watched.users == 0;
        let idle: Vec<&Scope> =
            left.iter().filter(|one| self.watched.get(one).is_some_and(is_idle)).collect();
        idle.iter().for_each(|scope| drop(self.watched.remove(scope)));
        if !idle.is_empty() {
            let watched = &self.watched;
            // Whoever has such objects later may be allowed more.
            self.narrow.retain(|gvk| watched.keys().any(|scope| scope.gvk == *gvk));
        }
        if self.applications.is_empty() {
            self.view = None;
        }
    }

    /// Those who have objects that are like this.
    pub fn owners_of(&self, is_meant: impl Fn(&ObjectKey) -> bool) -> BTreeSet<AppKey> {
        let meant = self.owners.iter().filter(|(object, _)| is_meant(object));
        meant.flat_map(|(_, owners)| owners.iter().cloned()).collect()
    }

    /// These are about to be told of a change that is not of one of their objects alone.
    pub fn note(&mut self, owners: &BTreeSet<AppKey>) {
        self.clock = self.clock.saturating_add(1);
        for owner in owners {
            if let Some(cares) = self.applications.get_mut(owner) {
                (cares.told, cares.told_else) = (self.clock, self.clock);
            }
        }
    }

    /// A watch tells that an object is so now. Says to whom that is news.
    pub fn told(&mut self, object: &ObjectKey, state: &State) -> BTreeSet<AppKey> {
        self.events = self.events.saturating_add(1);
        self.changed(object, state)
    }

    /// An object is so now. Says to whom that is news.
    pub fn changed(&mut self, object: &ObjectKey, state: &State) -> BTreeSet<AppKey> {
        self.clock = self.clock.saturating_add(1);
        let (applications, clock) = (&mut self.applications, self.clock);
        self.recent.add(clock, object, state);
        let is_news = |owner: &&AppKey| {
            applications.get_mut(*owner).is_some_and(|cares| cares.is_told(object, state, clock))
        };
        self.owners.get(object).into_iter().flatten().filter(is_news).cloned().collect()
    }

    /// The objects of a scope are so now, and there are no others. Says to whom that is news: whatever was not told before it was
    /// watched, or between two watches, is seen by that.
    pub fn listed(&mut self, scope: &Scope, there: &BTreeMap<ObjectKey, State>) -> BTreeSet<AppKey> {
        self.clock = self.clock.saturating_add(1);
        if let Some(watched) = self.watched.get_mut(scope) {
            (watched.is_seen, watched.listed_at) = (true, self.clock);
        }
        let cared: Vec<ObjectKey> =
            self.owners.keys().filter(|object| is_in(object, scope)).cloned().collect();
        let news =
            cared.iter().map(|object| self.changed(object, there.get(object).unwrap_or(&State::Missing)));
        news.flatten().collect()
    }

    /// An application has read its objects after a moment. Returns the one up to which all is read that it was told, if all is; the
    /// objects, where it does not care for them yet, or for others.
    pub fn read_again(
        &mut self,
        application: &AppKey,
        objects: BTreeMap<ObjectKey, Cared>,
        since: u64,
    ) -> Result<Option<u64>, BTreeMap<ObjectKey, Cared>> {
        match self.applications.get_mut(application) {
            Some(cares) if kinds(&cares.objects).eq(kinds(&objects)) => {
                let is_all = cares.is_read(objects, since);
                Ok(is_all.then_some(cares.told))
            }
            _ => Err(objects),
        }
    }

    /// An application cares for these objects from now on, and for no others. Returns what was watched for it.
    pub fn care_for(
        &mut self,
        application: &AppKey,
        objects: BTreeMap<ObjectKey, Cared>,
        since: u64,
    ) -> BTreeSet<Scope> {
        let (left, before) = self.forget_all_but_news(application);
        self.add(application, &objects);
        self.clock = self.clock.saturating_add(1);
        let cares = Cares::of(objects, self.clock);
        let cares = match before {
            Some(before) => cares.instead_of(before, since),
            None => cares,
        };
        self.applications.insert(application.clone(), cares);
        left
    }

    /// Other kinds are served than before, or others of them.
    pub fn kinds_changed(&mut self) {
        self.clock = self.clock.saturating_add(1);
        self.kinds_changed_at = self.clock;
    }

    /// An application cares for other objects than before, which were read after a moment. What was told of them since then, to
    /// others, is news to it; where that is not known, all may be. Returns the moment up to which all is read, if it is.
    pub fn catch_up(&mut self, application: &AppKey, since: u64) -> Option<u64> {
        // After all that it was told, and has read.
        self.clock = self.clock.saturating_add(1);
        let (clock, watched, recent) = (self.clock, &self.watched, &self.recent);
        let cares = self.applications.get_mut(application)?;
        // What is listed later tells it all.
        let is_known = |scope| watched.get(scope).is_none_or(|one| !one.is_seen || one.listed_at <= since);
        let is_known = self.kinds_changed_at <= since && cares.scopes.iter().all(is_known);
        match recent.since(since).filter(|_| is_known) {
            Some(told) => {
                for (object, state) in told {
                    if cares.objects.contains_key(object) {
                        cares.is_told(object, state, clock);
                    }
                }
            }
            None => (cares.told, cares.told_else) = (clock, clock),
        }
        (!cares.has_news()).then_some(cares.told)
    }

    /// All who have objects of a scope.
    pub fn owners_in(&self, scope: &Scope) -> BTreeSet<AppKey> {
        self.owners_of(|object| is_in(object, scope))
    }

    /// Where objects are watched.
    pub fn scopes_of(&self, objects: &BTreeMap<ObjectKey, Cared>) -> BTreeSet<Scope> {
        let scope = |(object, Cared { gvk, .. }): (&ObjectKey, &Cared)| {
            let is_narrow = self.narrow.contains(gvk) && !object.namespace.is_empty();
            let namespace = is_narrow.then(|| object.namespace.clone());
            Scope { gvk: gvk.clone(), namespace, detail: Detail::Metadata }
        };
        objects.iter().map(scope).collect()
    }

    /// An application has these objects.
    pub fn add(&mut self, application: &AppKey, objects: &BTreeMap<ObjectKey, Cared>) {
        for object in objects.keys() {
            self.owners.entry(object.clone()).or_default().insert(application.clone());
            let inside = self.namespaces.entry(object.namespace.clone()).or_default();
            let count = inside.entry(application.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// An application has nothing any more. Returns what was watched for it.
    pub fn forget(&mut self, application: &AppKey) -> BTreeSet<Scope> {
        self.forget_all_but_news(application).0
    }

    /// The same; returns also what it had cared for.
    pub fn forget_all_but_news(&mut self, application: &AppKey) -> (BTreeSet<Scope>, Option<Cares>) {
        let left = self.leave(application);
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

    /// Nothing is watched for an application any more. Returns what was.
    pub fn leave(&mut self, application: &AppKey) -> BTreeSet<Scope> {
        let cares = self.applications.get_mut(application);
        let left = cares.map(|cares| std::mem::take(&mut cares.scopes)).unwrap_or_default();
        for scope in &left {
            if let Some(watched) = self.watched.get_mut(scope) {
                watched.users = watched.users.saturating_sub(1);
            }
        }
        left
    }
}

fn is_in(object: &ObjectKey, Scope { gvk, namespace, .. }: &Scope) -> bool {
    (&object.group, &object.kind) == (&gvk.group, &gvk.kind)
        && namespace.as_ref().is_none_or(|one| *one == object.namespace)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests;
