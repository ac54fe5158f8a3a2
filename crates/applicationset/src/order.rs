//! In which order do the Applications of a set go?

use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{ApplicationSet, RolloutStep, RolloutSteps};

use crate::policy::rolling_steps;
use crate::steps::{InvalidStep, steps};

/// On a set whose definition has no `deletionSync`: the same, as YAML.
pub const DELETION_SYNC_ANNOTATION: &str = "tidegate.dev/deletion-sync";

/// The order that has steps of its own.
const CUSTOM: &str = "Custom";

/// Why it cannot be told in which order Applications are deleted. None is, until that is mended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOrder {
    /// No such order.
    #[error(
        "spec.strategy.deletionOrder {0:?} is not known; write AllAtOnce, Reverse or Custom. No Application is deleted before"
    )]
    Unknown(String),
    /// Nothing to reverse.
    #[error(
        "spec.strategy.deletionOrder Reverse turns the steps of a progressive sync around, and there are none; set spec.strategy.type to RollingSync and give rollingSync steps, or write AllAtOnce. No Application is deleted before"
    )]
    NothingToReverse,
    /// No steps.
    #[error(
        "spec.strategy.deletionOrder Custom needs steps; give them in spec.strategy.deletionSync, or as YAML in the annotation {DELETION_SYNC_ANNOTATION} where that field is not kept. No Application is deleted before"
    )]
    NoSteps,
    /// Steps that cannot be read.
    #[error(
        "the annotation {DELETION_SYNC_ANNOTATION} is no list of steps in YAML, such as in spec.strategy.deletionSync: {0}. No Application is deleted before"
    )]
    Unreadable(String),
    /// A step that means nothing.
    #[error("{0}. No Application is deleted before that is mended")]
    Step(#[from] InvalidStep),
}

/// In which order the Applications of a set are deleted: with it, and when they drop out of what it generates.
pub fn order(set: &ApplicationSet) -> Result<Order, InvalidOrder> {
    let Some(strategy) = &set.spec.strategy else { return Ok(Order::AllAtOnce) };
    let said = strategy.deletion_order.as_str();
    let is = |word: &str| said.eq_ignore_ascii_case(word);
    if said.is_empty() || is("AllAtOnce") {
        Ok(Order::AllAtOnce)
    } else if is("Reverse") {
        let rolling = Some(rolling_steps(set)).filter(|steps| !steps.is_empty());
        let rolling = rolling.ok_or(InvalidOrder::NothingToReverse)?;
        Ok(Order::reverse(steps("spec.strategy.rollingSync", rolling)?))
    } else if is(CUSTOM) {
        let steps = match strategy.deletion_sync.as_ref().filter(|own| !own.steps.is_empty()) {
            Some(own) => steps("spec.strategy.deletionSync", &own.steps)?,
            None => steps(DELETION_SYNC_ANNOTATION, &annotated(set)?)?,
        };
        Ok(Order::Custom { steps })
    } else {
        Err(InvalidOrder::Unknown(said.to_owned()))
    }
}

/// Whether its Applications are deleted in steps that are given for that.
pub(crate) fn is_custom(set: &ApplicationSet) -> bool {
    set.spec.strategy.as_ref().is_some_and(|strategy| strategy.deletion_order.eq_ignore_ascii_case(CUSTOM))
}

fn annotated(set: &ApplicationSet) -> Result<Vec<RolloutStep>, InvalidOrder> {
    let text = set.metadata.annotations.get(DELETION_SYNC_ANNOTATION).ok_or(InvalidOrder::NoSteps)?;
    let read: RolloutSteps =
        serde_saphyr::from_str(text).map_err(|error| InvalidOrder::Unreadable(error.to_string()))?;
    Some(read.steps).filter(|steps| !steps.is_empty()).ok_or(InvalidOrder::NoSteps)
}
