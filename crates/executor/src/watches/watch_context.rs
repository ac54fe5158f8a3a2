//! Context shared by all watches of a cluster. It reads objects and reports observations.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster, Detail, ErrorKind, Scope};
use tidegate_health::HealthRules;
use tidegate_model::{Gvk, Object, Observation, ObservedState, Timestamp};
use tokio::sync::Semaphore;

use super::subscriptions::{ObservationSource, Place, Subscriber, SubscriptionTable, WatchFailure};
use super::volume_claims::apply_storage_class;
use crate::clock::Clock;
use crate::extensions::Extensions;
use crate::health_evaluation;

/// Maximum number of concurrent reads per kind. The cluster's own limit also applies.
const CONCURRENT_READS_MAX: usize = 8;
/// Minimum duration of a failed read for the cluster to count as hanging.
const HANG_TIME: Duration = Duration::from_secs(5);

/// Context shared by all watches of a cluster.
pub(super) struct WatchContext {
    pub cluster: Arc<dyn Cluster>,
    pub clock: Arc<dyn Clock>,
    pub extensions: Arc<Extensions>,
    pub health: HealthRules,
    /// Limit on concurrent calls to the cluster. Opening a watch counts as a call, but an open watch doesn't.
    pub permits: Arc<Semaphore>,
}

impl WatchContext {
    /// Reports an observation to one subscriber, as of now.
    pub fn report(&self, subscriber: &Subscriber, observed: ObservedState) {
        Self::report_as_of(self.clock.now(), subscriber, observed);
    }

    fn report_as_of(at: Timestamp, subscriber: &Subscriber, observed: ObservedState) {
        subscriber.report(Observation { at, seen: observed });
    }

    /// Handles an object received from the watch. Expressions in its annotations may require more than its
    /// metadata.
    pub async fn handle_listed(&self, scope: &Scope, table: &SubscriptionTable, object: &Object) {
        let place = place_of(object);
        if scope.detail == Detail::Metadata
            && HealthRules::is_annotated(object)
            && table.has_subscribers(&place)
        {
            self.read_object(&scope.gvk, &place, table).await;
        } else {
            self.report_present(table, object).await;
        }
    }

    /// Reports to all subscribers of an object that the object exists.
    async fn report_present(&self, table: &SubscriptionTable, object: &Object) {
        let place = place_of(object);
        // Skip objects without subscribers, which are the majority.
        if !table.has_subscribers(&place) {
            return;
        }
        let at = self.clock.now();
        let observed = health_evaluation::observe_object(&self.health, object, at).await;
        let observed =
            apply_storage_class(&*self.cluster, &self.permits, &self.health, object, observed).await;
        let mut shared = None;
        for subscriber in table.record_observation(&place, &observed, at) {
            match &subscriber.judge_queue {
                None => Self::report_as_of(at, &subscriber, observed.clone()),
                Some(judged) => {
                    let object = shared.get_or_insert_with(|| Arc::new(object.clone()));
                    judged.send_replace(Some((Arc::clone(object), observed.clone())));
                }
            }
        }
    }

    /// Reports to all subscribers of an object that it is gone. `as_of` is the start time of the read. An
    /// object created later may exist.
    pub fn report_gone(as_of: Timestamp, table: &SubscriptionTable, place: &Place, uid: Option<String>) {
        let gone = ObservedState::Gone { uid };
        for subscriber in table.record_observation(place, &gone, as_of) {
            if let Some(judged) = &subscriber.judge_queue {
                judged.send_replace(None);
            }
            Self::report_as_of(as_of, &subscriber, gone.clone());
        }
    }

    /// Reads one object. If that fails, the watch or the next read observes it.
    pub async fn read_object(&self, gvk: &Gvk, place: &Place, table: &SubscriptionTable) {
        let Ok(permit) = self.permits.acquire().await else { return };
        let began = self.clock.now();
        let found = self.cluster.get(gvk, &place.0, &place.1).await;
        drop(permit);
        let now = self.clock.now();
        match &found {
            // Report only reads that hang. If a read is refused immediately, so is the watch's own call, and
            // the watch reports the failure.
            Err(error) if error.kind.is_outage() && now.since(began) >= HANG_TIME => {
                table.record_failure(
                    ObservationSource::Reads,
                    WatchFailure { message: error.to_string(), since: began },
                );
            }
            Err(error) if error.kind.is_outage() => {}
            _ => table.record_recovery(ObservationSource::Reads, now),
        }
        match found {
            Ok(Some(object)) => self.report_present(table, &object).await,
            Ok(None) => Self::report_gone(began, table, place, None),
            Err(error) if error.kind == ErrorKind::NotFound => Self::report_gone(began, table, place, None),
            Err(error) => {
                // Don't log the message, which may quote the request and isn't masked here.
                tracing::debug!(kind = %gvk, name = place.1, why = %error.kind, "failed to read an object that an operation is waiting for");
            }
        }
    }

    pub async fn read_objects(&self, gvk: &Gvk, table: &SubscriptionTable, places: Vec<Place>) {
        let reads = futures_util::stream::iter(places);
        reads
            .for_each_concurrent(CONCURRENT_READS_MAX, |place| async move {
                self.read_object(gvk, &place, table).await
            })
            .await;
    }
}

pub(super) fn place_of(object: &Object) -> Place {
    (object.namespace().to_owned(), object.name().to_owned())
}
