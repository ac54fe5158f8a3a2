//! The steps of a set, as the machines understand them that go through them.

use tidegate_lifecycle::fleet::{Expression, InvalidMaxUpdate, InvalidOperator, MaxUpdate};
pub use tidegate_lifecycle::teardown::Selection as Step;
use tidegate_model::argo::{IntOrString, RolloutStep};

/// A step that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{of}, step {step}: {problem}")]
pub struct InvalidStep {
    /// Whose steps they are: a field of the set.
    pub of: &'static str,
    /// Its number, from 1.
    pub step: usize,
    /// What is wrong with it.
    pub problem: StepProblem,
}

/// What is wrong with a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepProblem {
    /// Its `matchExpressions`.
    #[error(transparent)]
    Operator(#[from] InvalidOperator),
    /// Its `maxUpdate`.
    #[error(transparent)]
    MaxUpdate(#[from] InvalidMaxUpdate),
}

/// Steps as they are written down; `of` is the field they are in.
pub fn steps(of: &'static str, written: &[RolloutStep]) -> Result<Vec<Step>, InvalidStep> {
    (1..)
        .zip(written)
        .map(|(step, one)| read(one).map_err(|problem| InvalidStep { of, step, problem }))
        .collect()
}

fn read(step: &RolloutStep) -> Result<Step, StepProblem> {
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
