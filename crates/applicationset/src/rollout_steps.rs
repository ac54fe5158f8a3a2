//! Conversion of an ApplicationSet's steps to the steps of the state machines.

use tidegate_lifecycle::fleet::{Expression, InvalidMaxUpdate, InvalidOperator, MaxUpdate};
pub use tidegate_lifecycle::teardown::Selection as Step;
use tidegate_model::argo::{IntOrString, RolloutStep};

/// Error returned when a step is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}, step {step}: {problem}")]
pub struct InvalidStep {
    /// Field of the ApplicationSet that contains the steps.
    pub field: &'static str,
    /// Number of the step, starting at 1.
    pub step: usize,
    /// Problem with the step.
    pub problem: StepProblem,
}

/// Problem with a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepProblem {
    /// The `matchExpressions` are invalid.
    #[error(transparent)]
    Operator(#[from] InvalidOperator),
    /// The value of `maxUpdate` is invalid.
    #[error(transparent)]
    MaxUpdate(#[from] InvalidMaxUpdate),
}

/// Parses the steps in a field. `of` is the path of the field.
pub fn parse_steps(of: &'static str, written: &[RolloutStep]) -> Result<Vec<Step>, InvalidStep> {
    (1..)
        .zip(written)
        .map(|(step, one)| parse_step(one).map_err(|problem| InvalidStep { field: of, step, problem }))
        .collect()
}

fn parse_step(step: &RolloutStep) -> Result<Step, StepProblem> {
    let expressions = step.match_expressions.iter().map(|one| {
        Ok(Expression { key: one.key.clone(), operator: one.operator.parse()?, values: one.values.clone() })
    });
    let max_update = match &step.max_update {
        None => MaxUpdate::All,
        Some(IntOrString::Int(count)) => MaxUpdate::from(*count),
        Some(IntOrString::String(text)) => text.parse()?,
    };
    Ok(Step { expressions: expressions.collect::<Result<_, InvalidOperator>>()?, max_update })
}
