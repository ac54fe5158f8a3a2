//! Cache of named resources, for queries and for restarted actors.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use tidegate_application::AppKey;

/// Maximum number of changes that a subscriber may lag behind before it has to read all resources again.
const CHANGES_MAX: usize = 1024;

/// Cache of the current state of named resources. Entries must be cheap to clone.
pub struct ResourceCache<T> {
    entries: Mutex<Entries<T>>,
    changes: broadcast::Sender<AppKey>,
}

struct Entries<T> {
    by_key: BTreeMap<AppKey, T>,
    problems: Vec<String>,
}

impl<T> Default for ResourceCache<T> {
    fn default() -> Self {
        let posted = Entries { by_key: BTreeMap::new(), problems: Vec::new() };
        Self { entries: Mutex::new(posted), changes: broadcast::Sender::new(CHANGES_MAX) }
    }
}

impl<T: Clone> ResourceCache<T> {
    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores an entry. Returns the previous entry.
    pub fn insert(&self, key: &AppKey, now: T) -> Option<T> {
        let before = self.lock().by_key.insert(key.clone(), now);
        // There may be no subscribers.
        let _ = self.changes.send(key.clone());
        before
    }

    /// Notifies subscribers of an unchanged entry whose meaning has changed for them.
    pub fn notify_unchanged(&self, key: &AppKey) {
        // There may be no subscribers.
        let _ = self.changes.send(key.clone());
    }

    /// Removes a resource.
    pub fn remove(&self, key: &AppKey) {
        self.lock().by_key.remove(key);
        let _ = self.changes.send(key.clone());
    }

    /// Returns a resource as it was last published.
    pub fn get(&self, key: &AppKey) -> Option<T> {
        self.lock().by_key.get(key).cloned()
    }

    /// Returns all entries, sorted by name.
    pub fn all(&self) -> Vec<(AppKey, T)> {
        self.lock().by_key.iter().map(|(key, one)| (key.clone(), one.clone())).collect()
    }

    /// Returns the entries that match `text`, sorted by name, or all entries if `text` is `None`. Also
    /// returns the problems with unreadable resources.
    pub fn find_matching(&self, text: Option<&str>) -> (Vec<T>, Vec<String>) {
        let posted = self.lock();
        let found = match text {
            Some(text) => {
                let matching = AppKey::resolve(posted.by_key.keys().cloned(), text);
                matching.iter().filter_map(|key| posted.by_key.get(key)).cloned().collect()
            }
            None => posted.by_key.values().cloned().collect(),
        };
        (found, posted.problems.clone())
    }

    /// Subscribes to changes.
    pub fn subscribe(&self) -> broadcast::Receiver<AppKey> {
        self.changes.subscribe()
    }

    /// Replaces the problems with documents that can't be attributed to a resource.
    pub fn set_problems(&self, problems: Vec<String>) {
        self.lock().problems = problems;
    }

    /// Returns the problems with documents that can't be attributed to a resource.
    pub fn problem_messages(&self) -> Vec<String> {
        self.lock().problems.clone()
    }
}
