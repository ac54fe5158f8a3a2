//! PodDisruptionBudget.

use tidegate_model::Object;

use crate::fields::Node;
use crate::verdict::{Verdict, degraded, first_non_blank, healthy, progressing};

/// Returns the health of a budget. A budget that currently allows no disruptions (`InsufficientPods`) is
/// doing its job. Any other reason for a `False` condition means that it doesn't work.
pub(crate) fn disruption_budget(object: &Object) -> Verdict {
    let node = Node::for_object(object);
    let conditions = node.conditions()?;
    let broken = conditions
        .iter()
        .find(|condition| condition.status == "False" && condition.reason != "InsufficientPods");
    if let Some(condition) = broken {
        return degraded(first_non_blank(&[
            condition.message,
            condition.reason,
            "PodDisruptionBudget cannot be enforced",
        ]));
    }
    // Versions before policy/v1 have no conditions, only the observed generation.
    let observed = node.count("status.observedGeneration")?;
    let is_seen = object.gvk().version == "v1beta1" && observed > 0 && observed >= object.generation();
    if conditions.is_empty() && !is_seen {
        return progressing("Waiting for the controller to observe the PodDisruptionBudget");
    }
    healthy(format!("{} disruptions allowed", node.count("status.disruptionsAllowed")?))
}
