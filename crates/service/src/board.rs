//! What is known now of things that have names: for those who ask, and for the actors that begin anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use crate::applications::store::AppKey;

/// So many changes whoever follows may be behind, before everything is looked at anew.
const CHANGES_KEPT: usize = 1024;

/// How each of them stands. What is posted is cheap to clone.
pub(crate) struct Board<T> {
    posted: Mutex<Posted<T>>,
    changes: broadcast::Sender<AppKey>,
}

struct Posted<T> {
    all: BTreeMap<AppKey, T>,
    problems: Vec<String>,
}

impl<T> Default for Board<T> {
    fn default() -> Self {
        let posted = Posted { all: BTreeMap::new(), problems: Vec::new() };
        Self { posted: Mutex::new(posted), changes: broadcast::Sender::new(CHANGES_KEPT) }
    }
}

impl<T: Clone> Board<T> {
    fn posted(&self) -> MutexGuard<'_, Posted<T>> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was there before.
    pub fn post(&self, key: &AppKey, now: T) -> Option<T> {
        let before = self.posted().all.insert(key.clone(), now);
        // Nobody following is fine.
        let _ = self.changes.send(key.clone());
        before
    }

    pub fn remove(&self, key: &AppKey) {
        self.posted().all.remove(key);
        let _ = self.changes.send(key.clone());
    }

    pub fn get(&self, key: &AppKey) -> Option<T> {
        self.posted().all.get(key).cloned()
    }

    /// By name.
    pub fn all(&self) -> Vec<(AppKey, T)> {
        self.posted().all.iter().map(|(key, one)| (key.clone(), one.clone())).collect()
    }

    /// All, or those that are meant, by name; and what cannot be read and belongs to none.
    pub fn find(&self, text: Option<&str>) -> (Vec<T>, Vec<String>) {
        let posted = self.posted();
        let meant = posted.all.iter().filter(|(key, _)| text.is_none_or(|text| key.is_meant(text)));
        (meant.map(|(_, one)| one.clone()).collect(), posted.problems.clone())
    }

    /// Those that change from now on.
    pub fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.changes.subscribe()
    }

    pub fn set_problems(&self, problems: Vec<String>) {
        self.posted().problems = problems;
    }

    pub fn problems(&self) -> Vec<String> {
        self.posted().problems.clone()
    }
}
