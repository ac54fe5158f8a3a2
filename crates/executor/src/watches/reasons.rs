//! Why awaited workloads are not well: their pods are looked at while they are not, rarely, and for people only.

use tidegate_model::Gvk;

use super::board::{Board, Place};
use super::context::Context;

/// Workloads of one scope whose pods are looked at in one round; the others wait for the next.
const WORKLOADS_PER_ROUND: usize = 8;
/// Shortest time between two rounds.
const ROUND: std::time::Duration = std::time::Duration::from_secs(2);

/// Looks at pods whenever a workload of the scope has not been well for a moment.
pub(super) async fn look_for_reasons(context: &Context, gvk: &Gvk, board: &Board) {
    if !tidegate_health::runs_pods(gvk) {
        return std::future::pending().await;
    }
    loop {
        match board.unwell_due() {
            None => board.unwell.notified().await,
            Some(due) => {
                let now = context.clock.now();
                if due > now {
                    tokio::select! {
                        () = tokio::time::sleep(due.since(now)) => {}
                        () = board.unwell.notified() => {}
                    }
                    continue;
                }
                for place in board.take_unwell(now, WORKLOADS_PER_ROUND) {
                    look(context, gvk, &place, board).await;
                }
                tokio::time::sleep(ROUND).await;
            }
        }
    }
}

/// Looks at the pods of one workload and tells what they tell. A failed look is made good by the next.
async fn look(context: &Context, gvk: &Gvk, place: &Place, board: &Board) {
    let Ok(_permit) = context.permits.acquire().await else { return };
    let Ok(Some(owner)) = context.cluster.get(gvk, &place.0, &place.1).await else { return };
    let pods = match context.cluster.pods(&owner).await {
        Ok(pods) => pods,
        Err(error) => {
            tracing::debug!(kind = %gvk, name = place.1, why = %error.kind, "could not look at the pods of an awaited object");
            return;
        }
    };
    let reason = tidegate_health::workload_reason(&owner, &pods).unwrap_or_default();
    for subscriber in board.reason(place, &reason) {
        subscriber.tell_reason(&reason);
    }
}
