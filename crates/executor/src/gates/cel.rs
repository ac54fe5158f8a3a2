//! `cel:NAME` gates, which require an expression to be true for objects in the operation's cluster. The
//! engine watches the objects rather than polling them.

mod config;
mod object_watches;

use tidegate_lifecycle::operation::Verdict;

pub use self::config::CelGate;
use self::config::CompiledGate;
use self::object_watches::View;
pub(crate) use self::object_watches::{ClusterConnection, ObjectWatches};

/// Name prefix of gates with an expression.
pub(crate) const CEL_PREFIX: &str = "cel:";

/// Reports the result of the expression, now and after each change to the objects, until the future is
/// dropped.
pub(super) async fn watch_gate(
    gate: &CelGate,
    objects: &ObjectWatches,
    connection: &ClusterConnection,
    tell: impl Fn(Verdict),
) {
    let demand = match gate.compile() {
        Ok(demand) => demand,
        Err(problem) => return tell(Verdict::closed(problem)),
    };
    let mut seen = objects.subscribe(connection, &demand.selection);
    loop {
        let view = seen.borrow_and_update().clone();
        if let Some(verdict) = evaluate_view(&demand, view).await {
            tell(verdict);
        }
        if seen.changed().await.is_err() {
            // The runtime is shutting down.
            return tell(Verdict::closed("the watch of the objects has stopped"));
        }
    }
}

/// Evaluates a view on a blocking thread, because expressions can be slow. Returns `None` without a view.
async fn evaluate_view(demand: &CompiledGate, view: View) -> Option<Verdict> {
    let shown = match view {
        View::Pending => return None,
        View::Unreadable(reason) => {
            return Some(Verdict::closed(format!("the objects cannot be read: {reason}")));
        }
        View::Listed(shown) => shown,
    };
    let demand = demand.clone();
    let unmet =
        tokio::task::spawn_blocking(move || demand.unmet_reason(shown.values().map(AsRef::as_ref))).await;
    Some(match unmet {
        Ok(None) => Verdict::Open,
        Ok(Some(reason)) => Verdict::closed(reason),
        Err(_) => Verdict::closed("internal error while evaluating the expression; please report this"),
    })
}
