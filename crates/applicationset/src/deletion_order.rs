//! Deletion order of an ApplicationSet's Applications.

use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{ApplicationSet, RolloutStep, RolloutSteps};

use crate::rollout_steps::{InvalidStep, parse_steps};
use crate::sync_policy::rolling_steps;

/// `deletionSync` as YAML, for resource definitions that lack this field.
pub const DELETION_SYNC_ANNOTATION: &str = "tidegate.dev/deletion-sync";

/// Name of the deletion order with its own steps.
const CUSTOM_ORDER: &str = "Custom";

/// Reason a deletion order is invalid. No Applications are deleted until it is fixed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOrder {
    /// The order is unknown.
    #[error(
        "spec.strategy.deletionOrder {0:?} is unknown; use AllAtOnce, Reverse or Custom. No Applications \
         will be deleted until this is fixed"
    )]
    Unknown(String),
    /// There are no rollout steps to reverse.
    #[error(
        "spec.strategy.deletionOrder Reverse reverses the steps of a progressive sync, but the \
         ApplicationSet has no such steps; set spec.strategy.type to RollingSync and add rollingSync steps, \
         or use AllAtOnce. No Applications will be deleted until this is fixed"
    )]
    NothingToReverse,
    /// The custom order has no steps.
    #[error(
        "spec.strategy.deletionOrder Custom needs steps; set them in spec.strategy.deletionSync, or as YAML \
         in the {DELETION_SYNC_ANNOTATION} annotation if the API server drops that field. No Applications \
         will be deleted until this is fixed"
    )]
    NoSteps,
    /// The steps can't be parsed.
    #[error(
        "the {DELETION_SYNC_ANNOTATION} annotation is not a YAML list of steps as in \
         spec.strategy.deletionSync: {0}. No Applications will be deleted until this is fixed"
    )]
    Unreadable(String),
    /// A step is invalid.
    #[error("{0}. No Applications will be deleted until this is fixed")]
    Step(#[from] InvalidStep),
}

/// Returns the deletion order of an ApplicationSet's Applications, both for a deleted ApplicationSet and for
/// Applications that are no longer generated.
pub fn deletion_order(set: &ApplicationSet) -> Result<Order, InvalidOrder> {
    let Some(strategy) = &set.spec.strategy else { return Ok(Order::AllAtOnce) };
    let said = strategy.deletion_order.as_str();
    let is = |word: &str| said.eq_ignore_ascii_case(word);
    if said.is_empty() || is("AllAtOnce") {
        Ok(Order::AllAtOnce)
    } else if is("Reverse") {
        let rolling = Some(rolling_steps(set)).filter(|steps| !steps.is_empty());
        let rolling = rolling.ok_or(InvalidOrder::NothingToReverse)?;
        Ok(Order::reverse(parse_steps("spec.strategy.rollingSync", rolling)?))
    } else if is(CUSTOM_ORDER) {
        let steps = match strategy.deletion_sync.as_ref().filter(|own| !own.steps.is_empty()) {
            Some(own) => parse_steps("spec.strategy.deletionSync", &own.steps)?,
            None => parse_steps(DELETION_SYNC_ANNOTATION, &annotated_steps(set)?)?,
        };
        Ok(Order::Custom { steps })
    } else {
        Err(InvalidOrder::Unknown(said.to_owned()))
    }
}

/// Returns true if an ApplicationSet has separate steps for deleting its Applications.
pub(crate) fn has_custom_order(set: &ApplicationSet) -> bool {
    set.spec
        .strategy
        .as_ref()
        .is_some_and(|strategy| strategy.deletion_order.eq_ignore_ascii_case(CUSTOM_ORDER))
}

fn annotated_steps(set: &ApplicationSet) -> Result<Vec<RolloutStep>, InvalidOrder> {
    let text = set.metadata.annotations.get(DELETION_SYNC_ANNOTATION).ok_or(InvalidOrder::NoSteps)?;
    let read: RolloutSteps =
        serde_saphyr::from_str(text).map_err(|error| InvalidOrder::Unreadable(error.to_string()))?;
    Some(read.steps).filter(|steps| !steps.is_empty()).ok_or(InvalidOrder::NoSteps)
}
