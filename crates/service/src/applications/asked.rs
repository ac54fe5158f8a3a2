//! What Git repositories were asked: counted for whoever watches the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_executor::{Counted, Durations};
use tidegate_source::{Asked, Listener, RequestKind};

/// Upper ends in seconds.
const BOUNDS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0, 60.0];
/// So many repositories are told apart; all others are one.
const REPOSITORIES_MAX: usize = 256;

/// Requests of one sort to one repository.
struct Requests {
    took: Durations,
    failed: u64,
}

/// Requests to repositories, by their address and what they were asked for.
#[derive(Clone, Default)]
pub(crate) struct GitRequests(Arc<Mutex<BTreeMap<(String, RequestKind), Requests>>>);

/// What was asked of one repository until now.
#[derive(Clone, Debug, PartialEq)]
pub struct RepositoryRequests {
    /// Its address; empty for all that are too many to be told apart.
    pub repository: String,
    /// What it was asked for.
    pub kind: RequestKind,
    /// How long that took, also where nothing came of it.
    pub took: Counted,
    /// How often nothing came of it.
    pub failed: u64,
}

impl GitRequests {
    /// Who counts them.
    pub fn listener(&self) -> Listener {
        let requests = self.clone();
        Listener::new(move |asked| requests.observe(&asked))
    }

    fn observe(&self, asked: &Asked<'_>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (asked.address.to_string(), asked.kind);
        if all.len() >= 2 * REPOSITORIES_MAX && !all.contains_key(&key) {
            key.0.clear();
        }
        let new = || Requests { took: Durations::new(BOUNDS), failed: 0 };
        let requests = all.entry(key).or_insert_with(new);
        requests.took.observe(asked.took);
        requests.failed = requests.failed.saturating_add(u64::from(asked.failed));
    }

    /// All until now.
    pub fn counted(&self) -> Vec<RepositoryRequests> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = all.iter().map(|((repository, kind), requests)| RepositoryRequests {
            repository: repository.clone(),
            kind: *kind,
            took: requests.took.counted(),
            failed: requests.failed,
        });
        each.collect()
    }
}
