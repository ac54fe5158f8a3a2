//! Gates of what is rolled out step after step: the same that keep waves closed, asked about a step.

use tidegate_lifecycle::operation::{ASK_AGAIN_AFTER, Verdict, concurrency_group};
use tidegate_model::{Destination, OperationId, Phase, Timestamp};

use super::asked::Asked;
use super::definitions::GateDefinitions;
use super::keeping::Around;
use super::{Way, ask, keep};
use crate::extend::GateQuestion;
use crate::shared::Shared;

/// A step of a progressive sync, and the gate that keeps it closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepQuestion {
    /// Name of the gate, such as `window:night`.
    pub gate: String,
    /// The rollout that asks.
    pub rollout: OperationId,
    /// Whose it is: `namespace/name` of the ApplicationSet.
    pub set: String,
    /// The step, from 1.
    pub step: u32,
    /// When the rollout began.
    pub began: Timestamp,
    /// The cluster at which gates look that look at one.
    pub destination: Destination,
}

/// Asks a gate about a step, by what names stand for, and tells what it answers, now and later, for as long as this is polled.
/// It ends where the gate has said all it will ever say: then its name stands for nothing, or it never opens for a step. A step is
/// opened by nobody's hand here, as windows see it.
pub(crate) async fn ask_about_step(
    shared: &Shared,
    question: &StepQuestion,
    definitions: &GateDefinitions,
    tell: impl Fn(Verdict),
) {
    let StepQuestion { gate, rollout, set, step, began, destination } = question.clone();
    let wave = i64::from(step);
    let closed = |reason: String| Verdict::Closed { reason, ask_again_after: ASK_AGAIN_AFTER };
    if concurrency_group(&gate).is_some() {
        return tell(closed(format!(
            "gate {gate} gives places to operations, and none to steps; name it on resources of the Applications, and use maxUpdate here"
        )));
    }
    let registered = shared.extensions.gates.get(&gate);
    if registered.is_some() || !GateDefinitions::concerns(&gate) {
        let ask_it = |reply| {
            let (application, objects) = (set.clone(), Vec::new());
            GateQuestion { operation: rollout, application, phase: Phase::Sync, wave, objects, reply }
        };
        return ask(&gate, registered, ask_it, tell).await;
    }
    if !definitions.names().any(|name| name == gate) {
        return tell(closed(format!("nobody has defined gate {gate}; define it in the file of --gates")));
    }
    let way = shared.clusters.get(&destination).map(|cluster| Way {
        destination: destination.clone(),
        cluster: cluster.at_once(),
        permits: cluster.permits(),
    });
    let around =
        Around { clock: &shared.clock, web: &shared.web, objects: &shared.objects, way: way.as_ref() };
    let asked = Asked {
        gate,
        operation: rollout,
        application: set,
        revision: String::new(),
        phase: Phase::Sync,
        wave,
        began,
        manual: false,
    };
    keep(&asked, definitions, &around, tell).await;
}
