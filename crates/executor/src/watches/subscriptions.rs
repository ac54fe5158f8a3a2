//! Subscriptions to the objects of a kind, with each object's last observation.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::time::Duration;

use tidegate_lifecycle::operation::{Input, NamespaceObservation, ObjectIdentity};
use tidegate_model::{HealthStatus, Object, Observation, ObservedState, OperationId, TaskId, Timestamp};
use tokio::sync::{Notify, watch};

use crate::inbox::Inbox;

/// Minimum time that an object must be unhealthy before its pods are read. Most objects recover sooner.
const UNHEALTHY_DELAY: Duration = Duration::from_secs(2);
/// Delay before the pods of the same object are reread. Doubles while the reason stays the same.
const REREAD_DELAY_MIN: Duration = Duration::from_secs(5);
/// Maximum delay before the pods are reread.
const REREAD_DELAY_MAX: Duration = Duration::from_secs(60);

/// Role of an object for the subscribed operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchTarget {
    /// Object of a task. Reports all observations.
    Task(TaskId),
    /// Namespace that the operation writes to. Reports only its deletion.
    Namespace(String),
}

/// Namespace and name of an object of a known kind.
pub(super) type Place = (String, String);

/// Input for a health judge: an object, and its observation according to the health rule.
pub(super) type JudgeInput = (Arc<Object>, ObservedState);

/// Subscription of an operation to one object.
#[derive(Clone)]
pub(super) struct Subscriber {
    pub operation: OperationId,
    pub target: WatchTarget,
    pub inbox: Inbox,
    /// Queue of objects for a health judge to evaluate before they are reported. Only the newest counts.
    pub judge_queue: Option<watch::Sender<Option<JudgeInput>>>,
}

impl Subscriber {
    /// Reports an observation of the object.
    pub fn report(&self, observation: Observation) {
        match &self.target {
            WatchTarget::Task(task) => self.inbox.push_input(Input::Observed { task: *task, observation }),
            WatchTarget::Namespace(name) => {
                // Report a namespace only if it exists and is being deleted. The operation itself may still
                // create a missing one.
                if let ObservedState::Present { uid, resource_version, deleting, .. } = observation.seen {
                    let identity = Some(ObjectIdentity { uid, resource_version });
                    let namespace_observation =
                        NamespaceObservation { name: name.clone(), identity, is_terminating: deleting };
                    self.inbox.push_input(Input::NamespaceObserved(namespace_observation));
                }
            }
        }
    }

    /// Reports why an object is unhealthy.
    pub fn report_reason(&self, reason: &str) {
        if let WatchTarget::Task(task) = self.target {
            self.inbox.push_input(Input::Reason { task, reason: reason.to_owned() });
        }
    }

    /// Reports that observation has failed or recovered. Ignores missing watch permission for namespaces,
    /// which are read directly.
    fn report_watch_failure(&self, trouble: Option<String>, since: Timestamp) {
        if self.is_waiting() {
            self.inbox.push_input(Input::WatchStatus { trouble, since });
        }
    }

    /// Returns true if the operation is waiting for the object.
    fn is_waiting(&self) -> bool {
        matches!(self.target, WatchTarget::Task(_))
    }
}

/// Reason why changes aren't observed.
#[derive(Clone)]
pub(super) struct WatchFailure {
    /// The cluster's error message.
    pub message: String,
    /// Time when the cluster stopped responding.
    pub since: Timestamp,
}

/// Source of observations. The sources can fail independently.
#[derive(Clone, Copy)]
pub(super) enum ObservationSource {
    /// Lists, and the watches after them.
    Watch,
    /// Reads of individual objects.
    Reads,
}

#[derive(Default)]
struct WatchFailures {
    watch: Option<WatchFailure>,
    reads: Option<WatchFailure>,
}

impl WatchFailures {
    fn current(&self) -> Option<&WatchFailure> {
        self.watch.as_ref().or(self.reads.as_ref())
    }
}

/// All subscriptions to objects of one kind.
#[derive(Default)]
pub(super) struct SubscriptionTable {
    entries: Mutex<HashMap<Place, Entry>>,
    /// Reported failures to observe changes.
    failures: Mutex<WatchFailures>,
    /// Notified when an object becomes unhealthy or recovers.
    pub health_changed: Notify,
}

#[derive(Default)]
struct Entry {
    subscribers: Vec<Subscriber>,
    last_observation: Option<ObservedState>,
    /// Present while the object exists and is unhealthy.
    unhealthy: Option<Box<UnhealthyState>>,
}

/// State of an unhealthy object.
struct UnhealthyState {
    /// Time of the next read of the object's pods.
    next_read_at: Timestamp,
    /// Delay after the next read.
    delay: Duration,
    /// Last reported reason.
    reason: String,
}

/// Returns true if an object exists and is unhealthy.
fn is_unhealthy(seen: &ObservedState) -> bool {
    use HealthStatus::{Degraded, Missing, Progressing, Unknown};
    match seen {
        ObservedState::Present { health: Some(health), .. } => {
            matches!(health.status, Progressing | Missing | Degraded | Unknown)
        }
        _ => false,
    }
}

impl SubscriptionTable {
    fn lock_entries(&self) -> MutexGuard<'_, HashMap<Place, Entry>> {
        // Every change under the lock is a single operation, so a panic can't leave a partial change.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber. Returns the last observation of the object.
    pub fn add(&self, place: &Place, subscriber: Subscriber) -> Option<ObservedState> {
        let mut places = self.lock_entries();
        let entry = places.entry(place.clone()).or_default();
        if let Some(unwell) = entry.unhealthy.as_ref().filter(|unwell| !unwell.reason.is_empty()) {
            subscriber.report_reason(&unwell.reason);
        }
        if let Some(WatchFailure { message, since }) = self.lock_failures().current().cloned() {
            subscriber.report_watch_failure(Some(message), since);
        }
        entry.subscribers.push(subscriber);
        entry.last_observation.clone()
    }

    fn lock_failures(&self) -> MutexGuard<'_, WatchFailures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a source is failing.
    pub fn record_failure(&self, seeing: ObservationSource, trouble: WatchFailure) {
        let since = trouble.since;
        self.report_change(seeing, Some(trouble), since);
    }

    /// Records that a source has recovered, and informs the operations that knew of the failure.
    pub fn record_recovery(&self, seeing: ObservationSource, now: Timestamp) {
        self.report_change(seeing, None, now);
    }

    /// Notifies each waiting operation once when changes are missed, and once when they are observed again.
    fn report_change(&self, seeing: ObservationSource, trouble: Option<WatchFailure>, now: Timestamp) {
        let places = self.lock_entries();
        let mut known = self.lock_failures();
        let was_failing = known.current().is_some();
        let slot = match seeing {
            ObservationSource::Watch => &mut known.watch,
            ObservationSource::Reads => &mut known.reads,
        };
        // Keep the first message and its time.
        *slot = trouble.map(|trouble| slot.take().unwrap_or(trouble));
        if known.current().is_some() == was_failing {
            return;
        }
        let (trouble, since) = match known.current() {
            Some(WatchFailure { message, since }) => (Some(message.clone()), *since),
            None => (None, now),
        };
        let waiting = places.values().flat_map(|entry| &entry.subscribers).filter(|one| one.is_waiting());
        let by_operation: HashMap<OperationId, &Subscriber> =
            waiting.map(|subscriber| (subscriber.operation, subscriber)).collect();
        for subscriber in by_operation.values() {
            subscriber.report_watch_failure(trouble.clone(), since);
        }
    }

    /// Returns the time of the next read of an unhealthy object's pods.
    pub fn next_unhealthy_read(&self) -> Option<Timestamp> {
        self.lock_entries()
            .values()
            .filter_map(|entry| entry.unhealthy.as_ref())
            .map(|unwell| unwell.next_read_at)
            .min()
    }

    /// Returns up to `most` objects with pods to read now.
    pub fn take_due_unhealthy(&self, now: Timestamp, most: usize) -> Vec<Place> {
        let mut places = self.lock_entries();
        let mut due: Vec<(&Place, &mut Box<UnhealthyState>)> = places
            .iter_mut()
            .filter_map(|(place, entry)| Some((place, entry.unhealthy.as_mut()?)))
            .filter(|(_, unwell)| unwell.next_read_at <= now)
            .collect();
        due.sort_by_key(|(place, unwell)| (unwell.next_read_at, *place));
        due.truncate(most);
        due.into_iter()
            .map(|(place, unwell)| {
                unwell.next_read_at = now + unwell.delay;
                unwell.delay = unwell.delay.saturating_mul(2).min(REREAD_DELAY_MAX);
                place.clone()
            })
            .collect()
    }

    /// Records the reason found in an object's pods. Returns the subscribers to notify, or an empty list if
    /// the reason isn't new.
    pub fn record_reason(&self, place: &Place, reason: &str) -> Vec<Subscriber> {
        let mut places = self.lock_entries();
        let Some(entry) = places.get_mut(place) else { return Vec::new() };
        let Some(unwell) = entry.unhealthy.as_mut().filter(|unwell| unwell.reason != reason) else {
            return Vec::new();
        };
        reason.clone_into(&mut unwell.reason);
        unwell.delay = REREAD_DELAY_MIN;
        entry.subscribers.clone()
    }

    /// Removes a subscriber. Returns true if no subscriber is left.
    pub fn remove(&self, place: &Place, operation: OperationId, what: &WatchTarget) -> bool {
        let mut places = self.lock_entries();
        if let Some(entry) = places.get_mut(place) {
            entry.subscribers.retain(|one| one.operation != operation || one.target != *what);
            if entry.subscribers.is_empty() {
                places.remove(place);
            }
        }
        places.is_empty()
    }

    /// Returns true if an operation is waiting for one of the objects.
    pub fn is_awaited(&self) -> bool {
        self.lock_entries().values().flat_map(|entry| &entry.subscribers).any(Subscriber::is_waiting)
    }

    /// Returns true if the object has subscribers.
    pub fn has_subscribers(&self, place: &Place) -> bool {
        self.lock_entries().contains_key(place)
    }

    /// Returns the objects with subscribers, except those in `except`.
    pub fn subscribed_places(&self, except: &HashSet<Place>) -> Vec<Place> {
        self.lock_entries().keys().filter(|place| !except.contains(*place)).cloned().collect()
    }

    /// Records an observation. Returns the subscribers to notify.
    pub fn record_observation(&self, place: &Place, seen: &ObservedState, now: Timestamp) -> Vec<Subscriber> {
        let mut places = self.lock_entries();
        let Some(entry) = places.get_mut(place) else { return Vec::new() };
        match (&mut entry.unhealthy, is_unhealthy(seen)) {
            (unwell, false) => *unwell = None,
            (unwell @ None, true) => {
                let (next_read_at, delay) = (now + UNHEALTHY_DELAY, REREAD_DELAY_MIN);
                *unwell = Some(Box::new(UnhealthyState { next_read_at, delay, reason: String::new() }));
                self.health_changed.notify_one();
            }
            // The object has changed, so its pods may show a new reason.
            (Some(unwell), true) if entry.last_observation.as_ref() != Some(seen) => {
                unwell.next_read_at = unwell.next_read_at.min(now + REREAD_DELAY_MIN);
            }
            (Some(_), true) => {}
        }
        // A deleted object may be recreated, so store only observations of an existing one.
        entry.last_observation = matches!(seen, ObservedState::Present { .. }).then(|| seen.clone());
        entry.subscribers.clone()
    }
}
