//! `cel:NAME`: an expression must be true of objects in the cluster of the operation. They are watched; nobody asks again.

mod config;
mod objects;

use tidegate_lifecycle::operation::Verdict;

pub use self::config::CelGate;
use self::config::Demand;
use self::objects::View;
pub(crate) use self::objects::{Objects, Way};

/// What a gate's name begins with that an expression opens.
pub(crate) const CEL: &str = "cel:";

/// Tells whether the expression is true of the objects, now and whenever they change, for as long as this is polled.
pub(super) async fn keep(gate: &CelGate, objects: &Objects, way: &Way, tell: impl Fn(Verdict)) {
    let demand = match gate.demand() {
        Ok(demand) => demand,
        Err(problem) => return tell(Verdict::closed(problem)),
    };
    let mut seen = objects.follow(way, &demand.selection);
    loop {
        let view = seen.borrow_and_update().clone();
        if let Some(verdict) = judged(&demand, view).await {
            tell(verdict);
        }
        if seen.changed().await.is_err() {
            // The runtime goes down.
            return tell(Verdict::closed("nobody watches the objects any more"));
        }
    }
}

/// What a view means; `None` while there is none. An expression may take its time, so it runs on a thread for that.
async fn judged(demand: &Demand, view: View) -> Option<Verdict> {
    let shown = match view {
        View::Pending => return None,
        View::Hidden(reason) => {
            return Some(Verdict::closed(format!("the cluster does not show it: {reason}")));
        }
        View::Shown(shown) => shown,
    };
    let demand = demand.clone();
    let unmet = tokio::task::spawn_blocking(move || demand.unmet(shown.values().map(AsRef::as_ref))).await;
    Some(match unmet {
        Ok(None) => Verdict::Open,
        Ok(Some(reason)) => Verdict::closed(reason),
        Err(_) => Verdict::closed("the expression met a fault inside the engine; please report this"),
    })
}
