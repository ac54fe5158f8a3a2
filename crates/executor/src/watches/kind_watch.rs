//! The watch of one kind: a list, a watch and regular reads. It runs only while it has subscribers. Servers
//! close each watch after a few minutes. The next watch continues from the last resource version; objects are
//! relisted only after an error.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_cluster::{ClusterError, Scope, WatchEvent, WatchProgress};
use tidegate_model::{Gvk, ObservedState, Timestamp};
use tokio::sync::watch;

use super::subscriptions::{JudgeInput, ObservationSource, Subscriber, SubscriptionTable, WatchFailure};
use super::unhealthy_reasons::read_reasons;
use super::watch_context::{WatchContext, place_of};

/// Maximum time until a lost change is noticed.
pub(super) const READ_INTERVAL: Duration = Duration::from_secs(15);
/// Delay after a list or watch has failed or closed. Doubles up to [`RETRY_MAX`] until a call succeeds.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Time without a successful response before the cluster is reported as failing. Occasional failures aren't
/// reported. It doesn't matter if every call is refused immediately or the first call hangs.
const FAILURE_REPORT_DELAY: Duration = Duration::from_millis(500);
/// Maximum delay after a failed list or watch.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Watches one kind while there are subscribers. A panic in a `Cluster` implementation must not leave
/// operations waiting forever.
pub(super) async fn run_kind_watch(
    context: Arc<WatchContext>,
    scope: Arc<Scope>,
    table: Arc<SubscriptionTable>,
) {
    loop {
        let reads = read_periodically(&context, &scope.gvk, &table);
        let watching = watch_with_retries(&context, &scope, &table);
        let reasons = read_reasons(&context, &scope.gvk, &table);
        let all = futures_util::future::join3(reads, watching, reasons);
        if AssertUnwindSafe(all).catch_unwind().await.is_err() {
            tracing::error!(kind = %scope.gvk, "a watch panicked; restarting it");
            tokio::time::sleep(RETRY_MAX).await;
        }
    }
}

/// Regularly reads the objects with subscribers. Runs separately from the watch, so that changes are reported
/// even while many objects are being read or a list hangs.
async fn read_periodically(context: &WatchContext, gvk: &Gvk, table: &SubscriptionTable) {
    loop {
        tokio::time::sleep(READ_INTERVAL).await;
        context.read_objects(gvk, table, table.subscribed_places(&HashSet::new())).await;
    }
}

/// Failure state of a watch.
struct WatchBackoff {
    /// Delay before the next attempt.
    delay: Duration,
    /// Start of the current call.
    call_started_at: Timestamp,
    /// Start of the first failed call since the last success.
    failing_since: Option<Timestamp>,
}

async fn watch_with_retries(context: &WatchContext, scope: &Scope, table: &SubscriptionTable) {
    let mut failing =
        WatchBackoff { delay: RETRY_MIN, call_started_at: context.clock.now(), failing_since: None };
    loop {
        match list_and_watch(context, scope, table, &mut failing).await {
            // Don't busy-loop if a server closes each watch immediately.
            Ok(()) => tokio::time::sleep(RETRY_MIN).await,
            Err(error) => {
                tracing::debug!(kind = %scope.gvk, why = %error.kind, "watch ended; listing again");
                let since = *failing.failing_since.get_or_insert(failing.call_started_at);
                if context.clock.now().since(since) >= FAILURE_REPORT_DELAY {
                    table.record_failure(
                        ObservationSource::Watch,
                        WatchFailure { message: error.to_string(), since },
                    );
                }
                // If no operation is waiting for any of the objects, changes may be observed late. Retry less
                // often, because calls may keep failing, for example without watch permission.
                let wait = if table.is_awaited() { failing.delay } else { READ_INTERVAL };
                tokio::time::sleep(wait).await;
                failing.delay = failing.delay.saturating_mul(2).min(RETRY_MAX);
                // The list may keep failing for a long time, but awaited objects must still be observed.
                context.read_objects(&scope.gvk, table, table.subscribed_places(&HashSet::new())).await;
            }
        }
    }
}

async fn list_and_watch(
    context: &WatchContext,
    scope: &Scope,
    table: &SubscriptionTable,
    failing: &mut WatchBackoff,
) -> Result<(), ClusterError> {
    let mut version = Some(list(context, scope, table, failing).await?);
    while let Some(from) = version {
        version = watch_from(context, scope, table, failing, from).await?;
        if version.is_some() {
            // Don't busy-loop if a server closes each watch immediately.
            tokio::time::sleep(RETRY_MIN).await;
        }
    }
    Ok(())
}

/// Reports the existing objects. Returns the resource version of the list.
async fn list(
    context: &WatchContext,
    scope: &Scope,
    table: &SubscriptionTable,
    failing: &mut WatchBackoff,
) -> Result<String, ClusterError> {
    let Ok(permit) = context.permits.acquire().await else { return Ok(String::new()) };
    failing.call_started_at = context.clock.now();
    let listing = context.cluster.list(scope).await;
    drop(permit);
    let listing = listing?;
    let mut listed = HashSet::new();
    for object in &listing.objects {
        context.handle_listed(scope, table, object).await;
        listed.insert(place_of(object));
    }
    // Read subscribed objects that aren't in the list. They may have been deleted since the last watch, but
    // the list may also be outdated.
    context.read_objects(&scope.gvk, table, table.subscribed_places(&listed)).await;
    Ok(listing.resource_version)
}

/// Reports changes until the watch ends. Returns the resource version for the next watch to continue from, if
/// any.
async fn watch_from(
    context: &WatchContext,
    scope: &Scope,
    table: &SubscriptionTable,
    failing: &mut WatchBackoff,
    version: String,
) -> Result<Option<String>, ClusterError> {
    let Ok(permit) = context.permits.acquire().await else { return Ok(None) };
    failing.call_started_at = context.clock.now();
    let changes = context.cluster.watch(scope, &version).await;
    drop(permit);
    let mut changes = changes?;
    let mut reached = WatchProgress::new(version);
    (failing.delay, failing.failing_since) = (RETRY_MIN, None);
    table.record_recovery(ObservationSource::Watch, context.clock.now());
    while let Some(change) = changes.next().await {
        failing.call_started_at = context.clock.now();
        let change = change?;
        reached.record(&change);
        match change {
            WatchEvent::Applied(object) => context.handle_listed(scope, table, &object).await,
            WatchEvent::Deleted(object) => {
                WatchContext::report_gone(
                    context.clock.now(),
                    table,
                    &place_of(&object),
                    Some(object.uid().to_owned()),
                );
            }
            WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(reached.resume_version())
}

/// Asks a health judge about the newest observation of one object, until the subscription ends.
pub(super) async fn run_health_judge(
    context: Arc<WatchContext>,
    name: String,
    subscriber: Subscriber,
    mut observations: watch::Receiver<Option<JudgeInput>>,
) {
    while observations.changed().await.is_ok() {
        let Some((object, observed)) = observations.borrow_and_update().clone() else { continue };
        let verdict = context.extensions.request_health(&name, object.as_ref().clone()).await;
        // A newer observation, in particular a deletion, supersedes this verdict.
        if observations.has_changed().unwrap_or(true) && observations.borrow().is_none() {
            continue;
        }
        if let ObservedState::Present { .. } = observed {
            context.report(&subscriber, observed.with_health(verdict, false));
        }
    }
}
