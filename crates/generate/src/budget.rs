//! The remaining resources of a run.

use serde_json::Value;

use crate::error::Problem;
use crate::limits::{BYTES_MAX, STEPS_MAX};

/// Remaining bytes and steps of a run.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: usize,
    steps: usize,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { bytes: BYTES_MAX, steps: STEPS_MAX }
    }

    pub(crate) fn take_bytes(&mut self, count: usize) -> Result<(), Problem> {
        self.bytes = self.bytes.checked_sub(count).ok_or(Problem::TooManyBytes)?;
        Ok(())
    }

    pub(crate) fn take_steps(&mut self, count: usize) -> Result<(), Problem> {
        self.steps = self.steps.checked_sub(count).ok_or(Problem::TooManySteps)?;
        Ok(())
    }
}

/// Returns the approximate memory size of a value in bytes.
pub(crate) fn value_size(value: &Value) -> usize {
    const NODE: usize = 32;
    match value {
        Value::String(text) => NODE.saturating_add(text.len()),
        Value::Array(items) => items.iter().map(value_size).fold(NODE, usize::saturating_add),
        Value::Object(fields) => {
            let entries = fields.iter().map(|(key, value)| NODE + key.len() + value_size(value));
            entries.fold(NODE, usize::saturating_add)
        }
        _ => NODE,
    }
}
