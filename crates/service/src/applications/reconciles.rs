//! How long comparisons took: measured for whoever watches the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_executor::{Counted, Durations};
use tidegate_model::argo::Application;

use super::store::AppKey;

/// Upper ends in seconds; those of Argo CD.
pub(crate) const BOUNDS: &[f64] = &[0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// So many pairs of namespace and cluster are told apart; all others are one.
const PAIRS_MAX: usize = 256;

/// How long comparisons took, by the namespace of the application and its cluster.
#[derive(Default)]
pub(crate) struct Reconciles(Mutex<BTreeMap<(String, String), Durations>>);

impl Reconciles {
    /// A comparison took so long.
    pub fn observe(&self, application: &Application, took: Duration) {
        let destination = &application.spec.destination;
        let cluster = if destination.server.is_empty() { &destination.name } else { &destination.server };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pair = (AppKey::of(application).namespace, cluster.clone());
        if all.len() >= PAIRS_MAX && !all.contains_key(&pair) {
            pair = (String::new(), String::new());
        }
        all.entry(pair).or_insert_with(|| Durations::new(BOUNDS)).observe(took);
    }

    /// All until now, by namespace and cluster.
    pub fn counted(&self) -> Vec<((String, String), Counted)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(pair, durations)| (pair.clone(), durations.counted())).collect()
    }
}
