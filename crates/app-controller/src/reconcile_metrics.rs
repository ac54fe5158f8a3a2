//! Metrics for comparison durations.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_executor::{DurationHistogram, HistogramSnapshot};
use tidegate_model::argo::Application;

use tidegate_application::AppKey;

/// Upper bounds of the histogram buckets, in seconds, as in Argo CD.
pub const DURATION_BOUNDS: &[f64] = &[0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// Maximum number of namespace and cluster pairs with their own histogram. The remaining pairs share one.
const PAIRS_MAX: usize = 256;

/// Comparison durations, by Application namespace and cluster.
#[derive(Default)]
pub struct ReconcileMetrics(Mutex<BTreeMap<(String, String), DurationHistogram>>);

impl ReconcileMetrics {
    /// Records the duration of a comparison.
    pub fn observe(&self, application: &Application, took: Duration) {
        let destination = &application.spec.destination;
        let cluster = if destination.server.is_empty() { &destination.name } else { &destination.server };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pair = (AppKey::of(application).namespace, cluster.clone());
        if all.len() >= PAIRS_MAX && !all.contains_key(&pair) {
            pair = (String::new(), String::new());
        }
        all.entry(pair).or_insert_with(|| DurationHistogram::new(DURATION_BOUNDS)).observe(took);
    }

    /// Returns all durations recorded so far, by namespace and cluster.
    pub fn durations(&self) -> Vec<((String, String), HistogramSnapshot)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(pair, durations)| (pair.clone(), durations.snapshot())).collect()
    }
}
