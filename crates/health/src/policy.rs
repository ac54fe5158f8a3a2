//! PodDisruptionBudget.

use tidegate_model::Object;

use crate::fields::Node;
use crate::verdict::{Verdict, degraded, first_of, healthy, progressing};

/// A budget that allows no disruption right now (`InsufficientPods`) does its work; any other condition that is
/// `False` means that it cannot.
pub(crate) fn disruption_budget(object: &Object) -> Verdict {
    let node = Node::of(object);
    let conditions = node.conditions()?;
    let broken = conditions
        .iter()
        .find(|condition| condition.status == "False" && condition.reason != "InsufficientPods");
    if let Some(condition) = broken {
        return degraded(first_of(&[
            condition.message,
            condition.reason,
            "PodDisruptionBudget does not work",
        ]));
    }
    // Before policy/v1 there are no conditions; that the controller has seen the budget is all there is to know.
    let observed = node.count("status.observedGeneration")?;
    let is_seen = object.gvk().version == "v1beta1" && observed > 0 && observed >= object.generation();
    if conditions.is_empty() && !is_seen {
        return progressing("Waiting for the controller to see the PodDisruptionBudget");
    }
    healthy(format!("{} disruptions allowed", node.count("status.disruptionsAllowed")?))
}
