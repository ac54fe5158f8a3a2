//! Who wants to know about which object of a kind, and what was seen of it last.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::{Object, Observed, OperationId, TaskId};
use tokio::sync::watch;

use crate::inbox::Inbox;

/// Namespace and name.
pub(super) type Place = (String, String);

/// An object for a judge, with what the built-in rule saw.
pub(super) type Sight = (Arc<Object>, Observed);

/// Who is told.
#[derive(Clone)]
pub(super) struct Subscriber {
    pub operation: OperationId,
    pub task: TaskId,
    pub inbox: Inbox,
    /// Objects go to a health judge first; only the newest counts.
    pub judged: Option<watch::Sender<Option<Sight>>>,
}

/// All subscriptions to one kind.
#[derive(Default)]
pub(super) struct Board {
    places: Mutex<HashMap<Place, Entry>>,
}

#[derive(Default)]
struct Entry {
    subscribers: Vec<Subscriber>,
    last: Option<Observed>,
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
        entry.subscribers.push(subscriber);
        entry.last.clone()
    }

    /// Removes a subscriber; returns whether nobody is left.
    pub fn remove(&self, place: &Place, operation: OperationId, task: TaskId) -> bool {
        let mut places = self.lock();
        if let Some(entry) = places.get_mut(place) {
            entry.subscribers.retain(|one| one.operation != operation || one.task != task);
            if entry.subscribers.is_empty() {
                places.remove(place);
            }
        }
        places.is_empty()
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
    pub fn seen(&self, place: &Place, seen: &Observed) -> Vec<Subscriber> {
        let mut places = self.lock();
        let Some(entry) = places.get_mut(place) else { return Vec::new() };
        // What is gone may come back under the same name; only presence is worth remembering.
        entry.last = matches!(seen, Observed::Present { .. }).then(|| seen.clone());
        entry.subscribers.clone()
    }
}
