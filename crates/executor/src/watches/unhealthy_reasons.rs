//! Reasons why objects are unhealthy, used only in messages. While an awaited object is unhealthy, its events
//! and pods are read at long intervals.

use tidegate_cluster::ErrorKind;
use tidegate_model::{Gvk, Object};

use super::subscriptions::{Place, SubscriptionTable};
use super::watch_context::WatchContext;

/// Maximum number of unhealthy objects per scope read in a round. The rest wait for the next one.
const OBJECTS_PER_ROUND: usize = 8;
/// Minimum time between rounds.
const ROUND_INTERVAL_MIN: std::time::Duration = std::time::Duration::from_secs(2);
/// Maximum number of pods per workload with events to read.
const PODS_MAX: usize = 2;

/// Reads the reasons after an object in the scope has been unhealthy for a short time.
pub(super) async fn read_reasons(context: &WatchContext, gvk: &Gvk, table: &SubscriptionTable) {
    // Once permission to read events is denied, don't request them again.
    let mut may_read_events = true;
    loop {
        match table.next_unhealthy_read() {
            None => table.health_changed.notified().await,
            Some(due) => {
                let now = context.clock.now();
                if due > now {
                    tokio::select! {
                        () = tokio::time::sleep(due.since(now)) => {}
                        () = table.health_changed.notified() => {}
                    }
                    continue;
                }
                for place in table.take_due_unhealthy(now, OBJECTS_PER_ROUND) {
                    read_reason(context, gvk, &place, table, &mut may_read_events).await;
                }
                tokio::time::sleep(ROUND_INTERVAL_MIN).await;
            }
        }
    }
}

/// Reads one object, and reports why it is unhealthy. A later round repeats a failed read.
async fn read_reason(
    context: &WatchContext,
    gvk: &Gvk,
    place: &Place,
    table: &SubscriptionTable,
    may_read_events: &mut bool,
) {
    let Ok(_permit) = context.permits.acquire().await else { return };
    let Ok(Some(object)) = context.cluster.get(gvk, &place.0, &place.1).await else { return };
    let runs_pods = tidegate_health::runs_pods(gvk);
    let pods = match runs_pods {
        true => context.cluster.pods(&object).await,
        false => Ok(Vec::new()),
    };
    let pods = match pods {
        Ok(pods) => pods,
        Err(error) => {
            tracing::debug!(kind = %gvk, name = place.1, why = %error.kind, "failed to read the pods of an object that an operation is waiting for");
            return;
        }
    };
    let mut reasons: Vec<String> = Vec::new();
    if runs_pods {
        reasons.extend(tidegate_health::workload_reason(&object, &pods));
    }
    if *may_read_events {
        let waiting = pods.iter().filter(|pod| tidegate_health::is_waiting_pod(pod)).take(PODS_MAX);
        let about = std::iter::once(&object).chain(waiting.filter(|pod| pod.uid() != object.uid()));
        reasons.extend(newest_warning(context, about, may_read_events).await);
    }
    let reason = reasons.join("; ");
    for subscriber in table.record_reason(place, &reason) {
        subscriber.report_reason(&reason);
    }
}

/// Returns the newest warning in the events about these objects.
async fn newest_warning(
    context: &WatchContext,
    objects: impl Iterator<Item = &Object>,
    may_read_events: &mut bool,
) -> Option<String> {
    let mut events = Vec::new();
    for object in objects {
        match context.cluster.events(object).await {
            Ok(found) => events.extend(found),
            Err(error) => {
                *may_read_events = error.kind != ErrorKind::Forbidden;
                tracing::debug!(name = object.name(), why = %error.kind, "failed to read the events of an object that an operation is waiting for");
                break;
            }
        }
    }
    tidegate_health::newest_warning(&events)
}
