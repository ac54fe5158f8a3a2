//! Prometheus metrics. Metrics shared with Argo CD have the same names, so that existing dashboards work.
//!
//! ```text
//! Engine::all_events ──▶ OperationMetrics: waits, waves, phases ──┐
//! ApplicationService ──▶ SyncCounts: finished operations ─────────┼──▶ render_metrics
//! Services, Engine, Middleware: current state ────────────────────┘
//! ```
//!
//! Label values are application names and fixed words, so that no other user input can increase memory use.

mod appsets;
mod clusters;
mod definitions;
mod operation_metrics;
mod render;
mod repositories;
mod sync_counts;
mod text_format;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_application::AppKey;
use tidegate_executor::{Engine, EngineError, EventCursor};
use tidegate_model::Timestamp;
use tidegate_state::summaries::ApplicationSummary;

use self::operation_metrics::OperationMetrics;
use self::sync_counts::SyncCounts;

pub use definitions::{METRICS, Metric, MetricKind};
pub(crate) use render::render_metrics;
pub(crate) use text_format::MEDIA_TYPE;

/// Path of the metrics.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// Returns the names of all metrics.
pub fn metric_names() -> Vec<&'static str> {
    METRICS.iter().map(|metric| metric.name).collect()
}

/// Metrics collected while the process is running.
pub(crate) struct Metrics {
    operations: Mutex<OperationMetrics>,
    sync_counts: Mutex<SyncCounts>,
    /// Number of responses, by route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Number of forwarded requests, by status.
    forwarded_requests: Mutex<BTreeMap<u16, u64>>,
}

fn lock<T>(locked: &Mutex<T>) -> MutexGuard<'_, T> {
    locked.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Creates empty metrics that start counting at `now`.
    pub fn new(now: Timestamp) -> Self {
        let (operations, sync_counts) =
            (Mutex::new(OperationMetrics::new(now)), Mutex::new(SyncCounts::new(now)));
        Self { operations, sync_counts, requests: Mutex::default(), forwarded_requests: Mutex::default() }
    }

    pub fn count_response(&self, route: &'static str, status: u16) {
        let mut requests = lock(&self.requests);
        let count = requests.entry((route, status)).or_default();
        *count = count.saturating_add(1);
    }

    /// Counts a request that a standby has forwarded to the leader, or couldn't forward.
    pub fn count_forwarded(&self, status: u16) {
        let mut requests = lock(&self.forwarded_requests);
        let count = requests.entry(status).or_default();
        *count = count.saturating_add(1);
    }

    /// Updates an application's state. `line` is `None` if the application was removed.
    pub fn record_application(&self, key: &AppKey, line: Option<(&ApplicationSummary, bool)>) {
        lock(&self.sync_counts).record_application(key, line);
    }

    /// Counts operation events until the engine stops. Includes earlier events of open operations, so that
    /// their waiting time is complete.
    pub async fn collect_events(&self, engine: &Engine) -> Result<(), EngineError> {
        let recorded = engine.log_end().await?;
        let mut seen = EventCursor::default();
        for known in engine.list().await? {
            if known.finished_at.is_some() {
                seen.advance(known.operation, recorded.last_seen(known.operation));
            }
        }
        let mut events = engine.all_events(seen);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => lock(&self.operations).count_event(&event),
                Err(missed) => tracing::debug!(%missed, "an unknown number of events were missed"),
            }
        }
        Ok(())
    }
}
