//! Who cares when an object in the cluster changes. One watch per kind, or per kind and namespace where all may not be
//! watched, of metadata only, serves all applications.

mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster, ErrorKind, Followed, Pauses, Scope, follow};
use tidegate_model::{Destination, Gvk, Object, ObjectKey};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};

use super::places::Place;
use super::store::AppKey;
use super::view::{News, View};
pub(crate) use index::{Cared, State};
use index::{Cares, Index, Watched};

/// After a watch has ended it is begun again, later each time it is in vain.
const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(60) };

/// The watches of one cluster.
pub(crate) struct Watching(Arc<Inner>);

struct Inner {
    cluster: Arc<dyn Cluster>,
    tell: UnboundedSender<AppKey>,
    index: Mutex<Index>,
    tasks: Mutex<JoinSet<()>>,
}

/// A moment in what is told of one application. As long as there is no other, nothing of it has changed that anybody saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    destination: Destination,
    told: u64,
}

impl Mark {
    /// Whatever was told may be news after that.
    pub fn before_all(destination: &Destination) -> Self {
        Self { destination: destination.clone(), told: 0 }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is seen of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Objects that applications have there.
    pub objects: u64,
    /// Kinds that are watched.
    pub kinds: u64,
    /// Changes that were told of.
    pub events: u64,
    /// Something is watched, and changes of nothing are seen.
    pub is_blind: bool,
}

/// The watches of all clusters.
pub(crate) struct Watchings {
    tell: UnboundedSender<AppKey>,
    clusters: Mutex<BTreeMap<Destination, Watching>>,
}

impl Watchings {
    /// Watches nothing yet; the receiver is told whose objects have changed.
    pub fn new() -> (Self, UnboundedReceiver<AppKey>) {
        let (tell, told) = unbounded_channel();
        (Self { tell, clusters: Mutex::default() }, told)
    }

    /// An application cares for these objects of a cluster, whether they are there or not, and for no others. They were read after
    /// a moment. Returns the moment up to which all that was told of them is in what was read, if all is.
    pub fn set(
        &self,
        application: &AppKey,
        place: Place,
        objects: BTreeMap<ObjectKey, Cared>,
        since: &Mark,
    ) -> Option<Mark> {
        let Place { destination, cluster, .. } = place;
        let mut clusters = lock(&self.clusters);
        for (_, other) in clusters.iter().filter(|(one, _)| **one != destination) {
            other.forget(application);
        }
        // Elsewhere it was another moment.
        let since = if since.destination == destination { since.told } else { 0 };
        let watching =
            clusters.entry(destination.clone()).or_insert_with(|| Watching::of(cluster, self.tell.clone()));
        watching.set(application, objects, since).map(|told| Mark { destination, told })
    }

    /// Whether an application was told of something that may not have been read since.
    pub fn has_news(&self, application: &AppKey) -> bool {
        lock(&self.clusters).values().any(|watching| watching.has_news(application))
    }

    /// What is known of a cluster beside the objects that applications care for.
    pub fn view(&self, place: &Place) -> Arc<View> {
        let Place { destination, cluster, .. } = place;
        let mut clusters = lock(&self.clusters);
        let begin = || Watching::of(Arc::clone(cluster), self.tell.clone());
        clusters.entry(destination.clone()).or_insert_with(begin).view()
    }

    /// The moment it is, whoever is told something.
    pub fn now(&self, destination: &Destination) -> Mark {
        let told = lock(&self.clusters).get(destination).map_or(0, Watching::now);
        Mark { destination: destination.clone(), told }
    }

    /// The moment it is for an application; nothing while changes of its objects are not seen.
    pub fn mark(&self, application: &AppKey, destination: &Destination) -> Option<Mark> {
        let told = lock(&self.clusters).get(destination)?.told(application)?;
        Some(Mark { destination: destination.clone(), told })
    }

    /// Whether what was read of an application's objects is not what was told of them before: one of both is older.
    pub fn is_behind(&self, application: &AppKey) -> bool {
        lock(&self.clusters).values().any(|watching| watching.is_behind(application))
    }

    /// Of which objects of an application changes are not seen, because they may not be watched.
    pub fn forbidden(&self, application: &AppKey) -> Vec<String> {
        lock(&self.clusters).values().flat_map(|watching| watching.forbidden(application)).collect()
    }

    /// What is seen of a cluster now.
    pub fn seen(&self, destination: &Destination) -> Seen {
        lock(&self.clusters).get(destination).map(Watching::seen).unwrap_or_default()
    }

    /// An application cares for nothing any more.
    pub fn forget(&self, application: &AppKey) {
        lock(&self.clusters).values().for_each(|watching| watching.forget(application));
    }
}

impl Watching {
    fn of(cluster: Arc<dyn Cluster>, tell: UnboundedSender<AppKey>) -> Self {
        Self(Arc::new(Inner { cluster, tell, index: Mutex::default(), tasks: Mutex::default() }))
    }

    /// Watches nothing yet; the receiver is told whose objects have changed.
    #[cfg(test)]
    pub fn new(cluster: Arc<dyn Cluster>) -> (Self, UnboundedReceiver<AppKey>) {
        let (tell, told) = unbounded_channel();
        (Self::of(cluster, tell), told)
    }

    /// An application cares for these objects, whether they are there or not, and for no others. They were read after a moment.
    /// Returns the one up to which all that was told is in that, if all is.
    pub fn set(&self, application: &AppKey, objects: BTreeMap<ObjectKey, Cared>, since: u64) -> Option<u64> {
        let mut index = lock(&self.0.index);
        let objects = match index.read_again(application, objects, since) {
            Ok(all_up_to) => return all_up_to,
            Err(others) => others,
        };
        let left = index.care_for(application, objects, since);
        Inner::watch_for(&self.0, &mut index, application);
        // Those that it still has were never without anybody.
        index.tidy(&left);
        index.catch_up(application, since)
    }

    fn now(&self) -> u64 {
        lock(&self.0.index).clock
    }

    fn seen(&self) -> Seen {
        let index = lock(&self.0.index);
        let kinds: BTreeSet<&Gvk> = index.watched.keys().map(|scope| &scope.gvk).collect();
        let mut allowed = index.watched.values().filter(|watched| watched.forbidden.is_none());
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        Seen {
            objects: count(index.owners.len()),
            kinds: count(kinds.len()),
            events: index.events,
            is_blind: allowed.clone().next().is_some() && allowed.all(|watched| !watched.is_seen),
        }
    }

    fn has_news(&self, application: &AppKey) -> bool {
        lock(&self.0.index).applications.get(application).is_some_and(Cares::has_news)
    }

    fn is_behind(&self, application: &AppKey) -> bool {
        lock(&self.0.index).applications.get(application).is_some_and(Cares::is_behind)
    }

    /// An application cares for nothing any more.
    pub fn forget(&self, application: &AppKey) {
        let mut index = lock(&self.0.index);
        let left = index.forget(application);
        index.tidy(&left);
    }

    /// Of which objects of an application changes are not seen, because they may not be watched.
    pub fn forbidden(&self, application: &AppKey) -> Vec<String> {
        let index = lock(&self.0.index);
        let scopes = index.applications.get(application).into_iter().flat_map(|cares| &cares.scopes);
        scopes.filter_map(|scope| index.watched.get(scope)?.forbidden.clone()).collect()
    }

    fn told(&self, application: &AppKey) -> Option<u64> {
        let index = lock(&self.0.index);
        let cares = index.applications.get(application)?;
        let is_seen = |scope| index.watched.get(scope).is_some_and(|watched| watched.is_seen);
        cares.scopes.iter().all(is_seen).then_some(cares.told)
    }

    fn view(&self) -> Arc<View> {
        let mut index = lock(&self.0.index);
        let begin = || {
            let (tell, inner) = (self.0.tell.clone(), Arc::downgrade(&self.0));
            let tell = move |news| {
                let owners = inner.upgrade().map(|inner| inner.concerned(&news)).unwrap_or_default();
                owners.into_iter().for_each(|owner| drop(tell.send(owner)));
            };
            Arc::new(View::new(&self.0.cluster, tell))
        };
        Arc::clone(index.view.get_or_insert_with(begin))
    }
}

impl Inner {
    /// Has watched what an application has.
    fn watch_for(this: &Arc<Self>, index: &mut Index, application: &AppKey) {
        let Some(cares) = index.applications.get(application) else { return };
        let scopes = index.scopes_of(&cares.objects);
        for scope in &scopes {
            let begin = || {
                let task = Self::watch(this, scope.clone());
                Watched { users: 0, is_seen: false, listed_at: 0, task, forbidden: None }
            };
            let watched = index.watched.entry(scope.clone()).or_insert_with(begin);
            watched.users = watched.users.saturating_add(1);
        }
        if let Some(cares) = index.applications.get_mut(application) {
            cares.scopes = scopes;
        }
    }

    fn watch(this: &Arc<Self>, scope: Scope) -> AbortHandle {
        let (cluster, tell, inner) = (Arc::clone(&this.cluster), this.tell.clone(), Arc::downgrade(this));
        let mut tasks = lock(&this.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move { tell_of_changes(cluster, scope, &tell, &inner).await })
    }

    /// These may not be watched. Where that is about all namespaces, those of the objects are watched one by one. Says who has
    /// to know of it.
    fn refused(this: &Arc<Self>, scope: &Scope, words: &str) -> BTreeSet<AppKey> {
        let Scope { gvk, namespace, .. } = scope;
        let mut index = lock(&this.index);
        let kind = gvk.group_kind();
        let owners = index.owners_in(scope);
        let has_namespaces =
            index.owners.keys().any(|object| object.group_kind() == kind && !object.namespace.is_empty());
        if namespace.is_none() && has_namespaces && index.narrow.insert(gvk.clone()) {
            let mut left = BTreeSet::new();
            for owner in &owners {
                left.extend(index.leave(owner));
                Self::watch_for(this, &mut index, owner);
            }
            // With that this very watch ends, where nobody needs it any more.
            index.tidy(&left);
            return BTreeSet::new();
        }
        let there = namespace.as_ref().map(|one| format!(" in namespace {one}")).unwrap_or_default();
        let message = format!("changes of each {}{there} are not seen: {words}", gvk.kind);
        match index.watched.get_mut(scope) {
            Some(watched) if watched.forbidden.as_ref() != Some(&message) => {
                watched.forbidden = Some(message);
                owners
            }
            _ => BTreeSet::new(),
        }
    }

    /// These are watched now, and are so. Says who has to know of it.
    fn listed(&self, scope: &Scope, objects: &[Object]) -> BTreeSet<AppKey> {
        let there = objects.iter().map(|object| (object.key(), State::of(object))).collect();
        let mut index = lock(&self.index);
        let was_forbidden = index.watched.get_mut(scope).is_some_and(|one| one.forbidden.take().is_some());
        let mut owners = index.listed(scope, &there);
        if was_forbidden {
            let all = index.owners_in(scope);
            index.note(&all);
            owners.extend(all);
        }
        owners
    }

    /// Changes are not seen any more.
    fn lost(&self, scope: &Scope) {
        if let Some(watched) = lock(&self.index).watched.get_mut(scope) {
            watched.is_seen = false;
        }
    }

    /// Who has objects that this is about.
    fn concerned(&self, news: &News) -> BTreeSet<AppKey> {
        let mut index = lock(&self.index);
        let owners = match news {
            News::Group(group) => {
                index.kinds_changed();
                index.owners_of(|object| object.group == *group)
            }
            News::Namespace(name) => {
                index.namespaces.get(name).into_iter().flat_map(BTreeMap::keys).cloned().collect()
            }
        };
        index.note(&owners);
        owners
    }
}

/// Goes on for as long as anybody listens.
async fn tell_of_changes(
    cluster: Arc<dyn Cluster>,
    scope: Scope,
    tell: &UnboundedSender<AppKey>,
    inner: &Weak<Inner>,
) {
    let mut changes = follow(cluster, scope.clone(), PAUSES);
    let mut told = None;
    while let Some(change) = changes.next().await {
        let Some(inner) = inner.upgrade() else { return };
        let owners: BTreeSet<AppKey> = match change {
            Followed::Applied(object) => lock(&inner.index).told(&object.key(), &State::of(&object)),
            Followed::Deleted(object) => lock(&inner.index).told(&object.key(), &State::Missing),
            Followed::Listed(objects) => {
                told = None;
                inner.listed(&scope, &objects)
            }
            Followed::Failing(error) => {
                inner.lost(&scope);
                let words = error.to_string();
                let owners = match error.kind {
                    ErrorKind::Forbidden => Inner::refused(&inner, &scope, &words),
                    _ => BTreeSet::new(),
                };
                if told.as_ref() != Some(&words) {
                    tracing::info!(
                        kind = scope.gvk.kind,
                        error = words,
                        "a watch has ended and is begun again"
                    );
                    told = Some(words);
                }
                owners
            }
        };
        owners.into_iter().for_each(|owner| drop(tell.send(owner)));
        if tell.is_closed() {
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
mod tests;
