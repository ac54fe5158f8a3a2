//! How each application stands now: for those who ask, and for the actors that begin anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::argo::Application;
use tokio::sync::broadcast;

use super::store::AppKey;

/// How each application stands.
pub struct Board {
    posted: Mutex<Posted>,
    changes: broadcast::Sender<AppKey>,
}

/// So many changes whoever follows may be behind, before all applications are looked at anew.
const CHANGES_KEPT: usize = 1024;

impl Default for Board {
    fn default() -> Self {
        Self { posted: Mutex::default(), changes: broadcast::Sender::new(CHANGES_KEPT) }
    }
}

#[derive(Default)]
struct Posted {
    applications: BTreeMap<AppKey, Arc<Application>>,
    problems: Vec<String>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The applications, by name.
    pub applications: Vec<Arc<Application>>,
    /// What cannot be read and belongs to none.
    pub problems: Vec<String>,
}

impl Board {
    fn posted(&self) -> MutexGuard<'_, Posted> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was there before.
    pub(super) fn post(&self, key: &AppKey, application: Arc<Application>) -> Option<Arc<Application>> {
        let before = self.posted().applications.insert(key.clone(), application);
        // Nobody following is fine.
        let _ = self.changes.send(key.clone());
        before
    }

    pub(super) fn remove(&self, key: &AppKey) {
        self.posted().applications.remove(key);
        let _ = self.changes.send(key.clone());
    }

    pub(super) fn set_problems(&self, problems: Vec<String>) {
        self.posted().problems = problems;
    }

    pub(super) fn get(&self, key: &AppKey) -> Option<Arc<Application>> {
        self.posted().applications.get(key).map(Arc::clone)
    }

    /// Those that change from now on.
    pub(super) fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.changes.subscribe()
    }

    pub(super) fn all(&self) -> Vec<(AppKey, Arc<Application>)> {
        let posted = self.posted();
        posted.applications.iter().map(|(key, one)| (key.clone(), Arc::clone(one))).collect()
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.posted().problems.clone()
    }

    /// All, or those that are meant.
    pub fn find(&self, text: Option<&str>) -> Found {
        let posted = self.posted();
        let meant = posted.applications.iter().filter(|(key, _)| text.is_none_or(|text| key.is_meant(text)));
        let applications = meant.map(|(_, application)| Arc::clone(application)).collect();
        Found { applications, problems: posted.problems.clone() }
    }
}
