//! Limit on the number of steps in an evaluation.

use super::error::EvaluationError;

/// Maximum number of steps per evaluation. An expression that checks a hundred conditions takes a few
/// thousand.
pub(super) const STEPS_MAX: usize = 200_000;

/// Remaining steps of an evaluation.
#[derive(Debug)]
pub(super) struct Budget {
    steps_left: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { steps_left: STEPS_MAX }
    }

    pub(super) fn take_steps(&mut self, steps: usize) -> Result<(), EvaluationError> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(EvaluationError::Exhausted)?;
        Ok(())
    }
}
