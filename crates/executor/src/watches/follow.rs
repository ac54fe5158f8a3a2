//! The watch of one kind: list, follow, look; for as long as anybody asks. A server ends each watch after some minutes; the next one
//! goes on where that one was. It is listed again only after an error.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_cluster::{ClusterError, Reached, Scope, WatchEvent};
use tidegate_model::{Gvk, Observed, Timestamp};
use tokio::sync::watch;

use super::board::{Board, Seeing, Sight, Subscriber, Trouble};
use super::context::{Context, place_of};
use super::reasons::look_for_reasons;

/// How long a lost change may stay unnoticed.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Wait after a list or watch that failed or ended; doubled up to [`RETRY_MAX`] while nothing succeeds.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// A call that fails only now and then is no news; a cluster that has not answered for so long is, whether it refuses
/// each call at once or lets the first one hang.
const TOLD_AFTER: Duration = Duration::from_millis(500);
/// Longest wait after a failed list or watch.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Follows one kind for as long as somebody asks about it. A panic in the cluster's code must not leave anybody
/// waiting for ever.
pub(super) async fn follow(context: Arc<Context>, scope: Arc<Scope>, board: Arc<Board>) {
    loop {
        let looking = look_regularly(&context, &scope.gvk, &board);
        let watching = watch_again_and_again(&context, &scope, &board);
        let reasons = look_for_reasons(&context, &scope.gvk, &board);
        let all = futures_util::future::join3(looking, watching, reasons);
        if AssertUnwindSafe(all).catch_unwind().await.is_err() {
            tracing::error!(kind = %scope.gvk, "a watch panicked; beginning again");
            tokio::time::sleep(RETRY_MAX).await;
        }
    }
}

/// Not part of the watch, so that changes are passed on while many objects are looked at, or while a list hangs.
async fn look_regularly(context: &Context, gvk: &Gvk, board: &Board) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        context.look_at(gvk, board, board.places(&HashSet::new())).await;
    }
}

/// How a watch has been failing.
struct Failing {
    /// Until it is tried again.
    wait: Duration,
    /// When the call began that is being made.
    began: Timestamp,
    /// When the first call began that has failed since the last one that did not.
    since: Option<Timestamp>,
}

async fn watch_again_and_again(context: &Context, scope: &Scope, board: &Board) {
    let mut failing = Failing { wait: RETRY_MIN, began: context.clock.now(), since: None };
    loop {
        match list_and_watch(context, scope, board, &mut failing).await {
            // A server that ends each watch at once must not keep us busy.
            Ok(()) => tokio::time::sleep(RETRY_MIN).await,
            Err(error) => {
                tracing::debug!(kind = %scope.gvk, why = %error.kind, "watch ended; listing again");
                let since = *failing.since.get_or_insert(failing.began);
                if context.clock.now().since(since) >= TOLD_AFTER {
                    board.failing(Seeing::Watch, Trouble { message: error.to_string(), since });
                }
                // What nobody waits for may be seen late, above all by those who may not watch it at all.
                let wait = if board.is_awaited() { failing.wait } else { LOOK_AGAIN };
                tokio::time::sleep(wait).await;
                failing.wait = failing.wait.saturating_mul(2).min(RETRY_MAX);
                // The list may fail for long; what is awaited must still be seen.
                context.look_at(&scope.gvk, board, board.places(&HashSet::new())).await;
            }
        }
    }
}

async fn list_and_watch(
    context: &Context,
    scope: &Scope,
    board: &Board,
    failing: &mut Failing,
) -> Result<(), ClusterError> {
    let mut version = Some(list(context, scope, board, failing).await?);
    while let Some(from) = version {
        version = watch_from(context, scope, board, (failing, from)).await?;
        if version.is_some() {
            // A server that ends each watch at once must not keep us busy.
            tokio::time::sleep(RETRY_MIN).await;
        }
    }
    Ok(())
}

/// Tells what is there; the resource version up to which all is known then.
async fn list(
    context: &Context,
    scope: &Scope,
    board: &Board,
    failing: &mut Failing,
) -> Result<String, ClusterError> {
    let Ok(permit) = context.permits.acquire().await else { return Ok(String::new()) };
    failing.began = context.clock.now();
    let listing = context.cluster.list(scope).await;
    drop(permit);
    let listing = listing?;
    let mut listed = HashSet::new();
    for object in &listing.objects {
        context.listed(scope, board, object).await;
        listed.insert(place_of(object));
    }
    // A list may be old, so absence from it proves nothing; but nobody else would tell of a deletion since the last watch.
    context.look_at(&scope.gvk, board, board.places(&listed)).await;
    Ok(listing.resource_version)
}

/// Tells what changes until the watch ends; where the next one goes on, if it can.
async fn watch_from(
    context: &Context,
    scope: &Scope,
    board: &Board,
    (failing, version): (&mut Failing, String),
) -> Result<Option<String>, ClusterError> {
    let Ok(permit) = context.permits.acquire().await else { return Ok(None) };
    failing.began = context.clock.now();
    let changes = context.cluster.watch(scope, &version).await;
    drop(permit);
    let mut changes = changes?;
    let mut reached = Reached::opened(version);
    (failing.wait, failing.since) = (RETRY_MIN, None);
    board.working(Seeing::Watch, context.clock.now());
    while let Some(change) = changes.next().await {
        failing.began = context.clock.now();
        let change = change?;
        reached.told(&change);
        match change {
            WatchEvent::Applied(object) => context.listed(scope, board, &object).await,
            WatchEvent::Deleted(object) => {
                Context::gone(context.clock.now(), board, &place_of(&object), Some(object.uid().to_owned()));
            }
            WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(reached.after_end())
}

/// Asks a health judge about the newest sight of one object. Ends with the subscription.
pub(super) async fn judge(
    context: Arc<Context>,
    name: String,
    subscriber: Subscriber,
    mut sights: watch::Receiver<Option<Sight>>,
) {
    while sights.changed().await.is_ok() {
        let Some((object, observed)) = sights.borrow_and_update().clone() else { continue };
        let verdict = context.extensions.ask_judge(&name, object.as_ref().clone()).await;
        // A newer sight makes this verdict worthless, above all that the object is gone.
        if sights.has_changed().unwrap_or(true) && sights.borrow().is_none() {
            continue;
        }
        if let Observed::Present { .. } = observed {
            context.send(&subscriber, observed.judged(verdict, false));
        }
    }
}
