//! Who wants to know about which object of a kind, and what was seen of it last.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::time::Duration;

use tidegate_lifecycle::operation::{Identity, Input, NamespaceSight};
use tidegate_model::{HealthStatus, Object, Observation, Observed, OperationId, TaskId, Timestamp};
use tokio::sync::{Notify, watch};

use crate::inbox::Inbox;

/// How long an object must not have been well before its pods are looked at: most become well meanwhile.
const UNWELL_FOR: Duration = Duration::from_secs(2);
/// Wait before the pods of the same object are looked at again; doubled while they tell nothing new.
const AGAIN_MIN: Duration = Duration::from_secs(5);
/// Longest wait before they are looked at again.
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// What an object is to the operation that asks about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Watched {
    /// The object of a task; all that is seen of it is told.
    Task(TaskId),
    /// A namespace that it writes into. Only that it goes is told.
    Namespace(String),
}

/// Namespace and name of an object of a known kind.
pub(super) type Place = (String, String);

/// An object for a judge, with what the built-in rule saw.
pub(super) type Sight = (Arc<Object>, Observed);

/// An operation that is told what becomes of one object.
#[derive(Clone)]
pub(super) struct Subscriber {
    pub operation: OperationId,
    pub what: Watched,
    pub inbox: Inbox,
    /// Objects go to a health judge first; only the newest counts.
    pub judged: Option<watch::Sender<Option<Sight>>>,
}

impl Subscriber {
    /// What was seen of the object.
    pub fn tell(&self, observation: Observation) {
        match &self.what {
            Watched::Task(task) => self.inbox.tell(Input::Observed { task: *task, observation }),
            Watched::Namespace(name) => {
                // That one is gone is believed when it is looked at: it may come with the operation.
                if let Observed::Present { uid, resource_version, deleting, .. } = observation.seen {
                    let found = Some(Identity { uid, resource_version });
                    let sight = NamespaceSight { name: name.clone(), found, terminating: deleting };
                    self.inbox.tell(Input::NamespaceSeen(sight));
                }
            }
        }
    }

    /// Why the object is not well.
    pub fn tell_reason(&self, reason: &str) {
        if let Watched::Task(task) = self.what {
            self.inbox.tell(Input::Reason { task, reason: reason.to_owned() });
        }
    }

    /// Changes are not seen, or are seen again. Whoever may not watch namespaces need not hear of it: they are looked at.
    fn tell_trouble(&self, trouble: Option<String>, since: Timestamp) {
        if self.awaits() {
            self.inbox.tell(Input::Watching { trouble, since });
        }
    }

    /// Whether the operation waits for the object.
    fn awaits(&self) -> bool {
        matches!(self.what, Watched::Task(_))
    }
}

/// What keeps changes from being seen.
#[derive(Clone)]
pub(super) struct Trouble {
    /// What the cluster says.
    pub message: String,
    /// Since when it has not answered.
    pub since: Timestamp,
}

/// Who has trouble. The one may go well while the other fails.
#[derive(Clone, Copy)]
pub(super) enum Seeing {
    /// Lists, and the watches that go on from them.
    Watch,
    /// Looks at single objects.
    Looks,
}

#[derive(Default)]
struct Troubles {
    watch: Option<Trouble>,
    looks: Option<Trouble>,
}

impl Troubles {
    fn told(&self) -> Option<&Trouble> {
        self.watch.as_ref().or(self.looks.as_ref())
    }
}

/// All subscriptions to one kind.
#[derive(Default)]
pub(super) struct Board {
    places: Mutex<HashMap<Place, Entry>>,
    /// Why changes are not seen, as it was told.
    trouble: Mutex<Troubles>,
    /// An object is not well, or not any more.
    pub unwell: Notify,
}

#[derive(Default)]
struct Entry {
    subscribers: Vec<Subscriber>,
    last: Option<Observed>,
    /// It is there and not well.
    unwell: Option<Box<Unwell>>,
}

/// What is known of an object that is not well.
struct Unwell {
    /// When its pods are looked at next.
    look_at: Timestamp,
    /// How long then until they are looked at again.
    wait: Duration,
    /// What they told last.
    reason: String,
}

/// Whether an object is there and not well.
fn is_unwell(seen: &Observed) -> bool {
    use HealthStatus::{Degraded, Missing, Progressing, Unknown};
    match seen {
        Observed::Present { health: Some(health), .. } => {
            matches!(health.status, Progressing | Missing | Degraded | Unknown)
        }
        _ => false,
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Entry>> {
        // Every change under the lock is a single one, so a panic leaves nothing half done.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber; returns what was seen of the object last.
    pub fn add(&self, place: &Place, subscriber: Subscriber) -> Option<Observed> {
        let mut places = self.lock();
        let entry = places.entry(place.clone()).or_default();
        if let Some(unwell) = entry.unwell.as_ref().filter(|unwell| !unwell.reason.is_empty()) {
            subscriber.tell_reason(&unwell.reason);
        }
        if let Some(Trouble { message, since }) = self.lock_trouble().told().cloned() {
            subscriber.tell_trouble(Some(message), since);
        }
        entry.subscribers.push(subscriber);
        entry.last.clone()
    }

    fn lock_trouble(&self) -> MutexGuard<'_, Troubles> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has failed since a moment.
    pub fn failing(&self, seeing: Seeing, trouble: Trouble) {
        let since = trouble.since;
        self.tell(seeing, Some(trouble), since);
    }

    /// What was in trouble works; operations that were told of the trouble are told of this too.
    pub fn working(&self, seeing: Seeing, now: Timestamp) {
        self.tell(seeing, None, now);
    }

    /// Each operation that waits for changes is told once that they are not seen, and once that they are again.
    fn tell(&self, seeing: Seeing, trouble: Option<Trouble>, now: Timestamp) {
        let places = self.lock();
        let mut known = self.lock_trouble();
        let was_told = known.told().is_some();
        let slot = match seeing {
            Seeing::Watch => &mut known.watch,
            Seeing::Looks => &mut known.looks,
        };
        // The first words stay, with their moment.
        *slot = trouble.map(|trouble| slot.take().unwrap_or(trouble));
        if known.told().is_some() == was_told {
            return;
        }
        let (trouble, since) = match known.told() {
            Some(Trouble { message, since }) => (Some(message.clone()), *since),
            None => (None, now),
        };
        let subscribers = places.values().flat_map(|entry| &entry.subscribers).filter(|one| one.awaits());
        let told: HashMap<OperationId, &Subscriber> =
            subscribers.map(|subscriber| (subscriber.operation, subscriber)).collect();
        for subscriber in told.values() {
            subscriber.tell_trouble(trouble.clone(), since);
        }
    }

    /// When the pods of an object that is not well are to be looked at next.
    pub fn unwell_due(&self) -> Option<Timestamp> {
        self.lock().values().filter_map(|entry| entry.unwell.as_ref()).map(|unwell| unwell.look_at).min()
    }

    /// The objects whose pods are to be looked at now, at most so many.
    pub fn take_unwell(&self, now: Timestamp, most: usize) -> Vec<Place> {
        let mut places = self.lock();
        let mut due: Vec<(&Place, &mut Box<Unwell>)> = places
            .iter_mut()
            .filter_map(|(place, entry)| Some((place, entry.unwell.as_mut()?)))
            .filter(|(_, unwell)| unwell.look_at <= now)
            .collect();
        due.sort_by_key(|(place, unwell)| (unwell.look_at, *place));
        due.truncate(most);
        due.into_iter()
            .map(|(place, unwell)| {
                unwell.look_at = now + unwell.wait;
                unwell.wait = unwell.wait.saturating_mul(2).min(AGAIN_MAX);
                place.clone()
            })
            .collect()
    }

    /// What the pods of an object tell; returns who is to be told. Nobody when it is nothing new.
    pub fn reason(&self, place: &Place, reason: &str) -> Vec<Subscriber> {
        let mut places = self.lock();
        let Some(entry) = places.get_mut(place) else { return Vec::new() };
        let Some(unwell) = entry.unwell.as_mut().filter(|unwell| unwell.reason != reason) else {
            return Vec::new();
        };
        reason.clone_into(&mut unwell.reason);
        unwell.wait = AGAIN_MIN;
        entry.subscribers.clone()
    }

    /// Removes a subscriber; returns whether nobody is left.
    pub fn remove(&self, place: &Place, operation: OperationId, what: &Watched) -> bool {
        let mut places = self.lock();
        if let Some(entry) = places.get_mut(place) {
            entry.subscribers.retain(|one| one.operation != operation || one.what != *what);
            if entry.subscribers.is_empty() {
                places.remove(place);
            }
        }
        places.is_empty()
    }

    /// Whether any operation waits for one of the objects.
    pub fn is_awaited(&self) -> bool {
        self.lock().values().flat_map(|entry| &entry.subscribers).any(Subscriber::awaits)
    }

    /// Whether anybody asks about this object.
    pub fn has(&self, place: &Place) -> bool {
        self.lock().contains_key(place)
    }

    /// The objects that are asked about, without those in `except`.
    pub fn places(&self, except: &HashSet<Place>) -> Vec<Place> {
        self.lock().keys().filter(|place| !except.contains(*place)).cloned().collect()
    }

    /// Remembers what was seen; returns who is to be told.
    pub fn seen(&self, place: &Place, seen: &Observed, now: Timestamp) -> Vec<Subscriber> {
        let mut places = self.lock();
        let Some(entry) = places.get_mut(place) else { return Vec::new() };
        match (&mut entry.unwell, is_unwell(seen)) {
            (unwell, false) => *unwell = None,
            (unwell @ None, true) => {
                let (look_at, wait) = (now + UNWELL_FOR, AGAIN_MIN);
                *unwell = Some(Box::new(Unwell { look_at, wait, reason: String::new() }));
                self.unwell.notify_one();
            }
            // Something has happened to it, so its pods may have news.
            (Some(unwell), true) if entry.last.as_ref() != Some(seen) => {
                unwell.look_at = unwell.look_at.min(now + AGAIN_MIN);
            }
            (Some(_), true) => {}
        }
        // What is gone may come back under the same name; only presence is worth remembering.
        entry.last = matches!(seen, Observed::Present { .. }).then(|| seen.clone());
        entry.subscribers.clone()
    }
}
