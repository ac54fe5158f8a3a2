//! Current status of each ApplicationSet, for queries and for restarted actors.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_application::AppKey;
use tidegate_executor::{DurationHistogram, HistogramSnapshot};
use tidegate_lifecycle::rollout::StepWait;
use tidegate_model::argo::ApplicationSet;
use tokio::sync::broadcast;

use tidegate_app_controller::reconcile_metrics::DURATION_BOUNDS;
use tidegate_app_controller::resource_cache::ResourceCache;

/// Status of all ApplicationSets. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct AppSetCache {
    entries: Arc<ResourceCache<Arc<ApplicationSet>>>,
    metrics: Arc<Mutex<BTreeMap<AppKey, MetricsEntry>>>,
}

/// An ApplicationSet's metrics.
struct MetricsEntry {
    current_wait: Option<StepWait>,
    skipped: u32,
    awaited: Option<String>,
    pass_durations: DurationHistogram,
}

impl Default for MetricsEntry {
    fn default() -> Self {
        Self {
            current_wait: None,
            skipped: 0,
            awaited: None,
            pass_durations: DurationHistogram::new(DURATION_BOUNDS),
        }
    }
}

/// An ApplicationSet's metrics.
#[derive(Clone, Debug)]
pub struct AppSetMetrics {
    /// Condition that the current step of the progressive sync is waiting for.
    pub current_wait: Option<StepWait>,
    /// Durations of reconcile passes.
    pub pass_durations: HistogramSnapshot,
}

/// ApplicationSets that match a query, and problems with unreadable ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppSetSearchResult {
    /// ApplicationSets, sorted by name.
    pub appsets: Vec<Arc<ApplicationSet>>,
    /// Problems with unreadable ApplicationSets.
    pub problems: Vec<String>,
}

impl AppSetCache {
    fn lock_metrics(&self) -> MutexGuard<'_, BTreeMap<AppKey, MetricsEntry>> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the duration of a pass to the metrics.
    pub fn record_pass(&self, key: &AppKey, took: Duration) {
        self.lock_metrics().entry(key.clone()).or_default().pass_durations.observe(took);
    }

    /// Records the progressive sync's current wait, the number of skipped Applications, and a description of
    /// the wait. Returns true if the number and the description are unchanged.
    pub fn record_rollout(
        &self,
        key: &AppKey,
        waiting: Option<StepWait>,
        skipped: u32,
        awaits: Option<String>,
    ) -> bool {
        let mut courses = self.lock_metrics();
        let course = courses.entry(key.clone()).or_default();
        let is_same = (course.skipped, &course.awaited) == (skipped, &awaits);
        (course.current_wait, course.skipped, course.awaited) = (waiting, skipped, awaits);
        is_same
    }

    /// Describes what the progressive sync or deletion is waiting for.
    pub fn awaited(&self, key: &AppKey) -> Option<String> {
        self.lock_metrics().get(key)?.awaited.clone()
    }

    /// Returns the condition that the current step of the progressive sync is waiting for.
    pub fn current_wait(&self, key: &AppKey) -> Option<StepWait> {
        self.lock_metrics().get(key)?.current_wait
    }

    /// Returns the number of Applications that the progressive sync has skipped.
    pub fn skipped_count(&self, key: &AppKey) -> u32 {
        self.lock_metrics().get(key).map_or(0, |course| course.skipped)
    }

    /// Returns each ApplicationSet's metrics.
    pub fn metrics(&self) -> Vec<(AppKey, AppSetMetrics)> {
        let course = |one: &MetricsEntry| AppSetMetrics {
            current_wait: one.current_wait,
            pass_durations: one.pass_durations.snapshot(),
        };
        self.lock_metrics().iter().map(|(key, one)| (key.clone(), course(one))).collect()
    }

    /// Returns one ApplicationSet.
    pub fn get(&self, key: &AppKey) -> Option<Arc<ApplicationSet>> {
        self.entries.get(key)
    }

    /// Returns all ApplicationSets, sorted by name.
    pub fn all(&self) -> Vec<(AppKey, Arc<ApplicationSet>)> {
        self.entries.all()
    }

    /// Stores an ApplicationSet. Returns its previous state.
    pub fn insert(&self, key: &AppKey, set: Arc<ApplicationSet>) -> Option<Arc<ApplicationSet>> {
        self.entries.insert(key, set)
    }

    pub fn remove(&self, key: &AppKey) {
        self.entries.remove(key);
        self.lock_metrics().remove(key);
    }

    pub fn set_problems(&self, problems: Vec<String>) {
        self.entries.set_problems(problems);
    }

    /// Subscribes to changes.
    pub fn subscribe(&self) -> broadcast::Receiver<AppKey> {
        self.entries.subscribe()
    }

    /// Returns the ApplicationSets that match `text`, or all ApplicationSets if `text` is `None`.
    pub fn find_matching(&self, text: Option<&str>) -> AppSetSearchResult {
        let (appsets, problems) = self.entries.find_matching(text);
        AppSetSearchResult { appsets, problems }
    }
}
