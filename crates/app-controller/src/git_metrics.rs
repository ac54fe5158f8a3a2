//! Metrics for requests to Git repositories.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_executor::{DurationHistogram, HistogramSnapshot};
use tidegate_source::{Listener, RequestEvent, RequestKind};

/// Upper bounds of the histogram buckets, in seconds.
const DURATION_BOUNDS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0, 60.0];
/// Maximum number of repositories with their own counters. The remaining repositories share one set.
const REPOSITORIES_MAX: usize = 256;

/// Statistics for one kind of request to one repository.
struct RequestStats {
    durations: DurationHistogram,
    failed: u64,
}

/// Requests to repositories, by URL and kind.
#[derive(Clone, Default)]
pub struct GitRequests(Arc<Mutex<BTreeMap<(String, RequestKind), RequestStats>>>);

/// Statistics for requests to one repository since the process started.
#[derive(Clone, Debug, PartialEq)]
pub struct RepositoryRequests {
    /// Repository URL; empty for the shared counters of the remaining repositories.
    pub repository: String,
    /// Kind of the requests.
    pub kind: RequestKind,
    /// Histogram of durations, including failed requests.
    pub durations: HistogramSnapshot,
    /// Number of failed requests.
    pub failed: u64,
}

impl GitRequests {
    /// Returns the listener that counts the requests.
    pub fn listener(&self) -> Listener {
        let requests = self.clone();
        Listener::new(move |event| requests.observe(&event))
    }

    fn observe(&self, event: &RequestEvent<'_>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (event.address.to_string(), event.kind);
        if all.len() >= 2 * REPOSITORIES_MAX && !all.contains_key(&key) {
            key.0.clear();
        }
        let new = || RequestStats { durations: DurationHistogram::new(DURATION_BOUNDS), failed: 0 };
        let requests = all.entry(key).or_insert_with(new);
        requests.durations.observe(event.duration);
        requests.failed = requests.failed.saturating_add(u64::from(event.has_failed));
    }

    /// Returns all counts so far.
    pub fn counts(&self) -> Vec<RepositoryRequests> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = all.iter().map(|((repository, kind), requests)| RepositoryRequests {
            repository: repository.clone(),
            kind: *kind,
            durations: requests.durations.snapshot(),
            failed: requests.failed,
        });
        each.collect()
    }
}
