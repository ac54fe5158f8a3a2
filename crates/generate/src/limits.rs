//! What one run may use: nobody's templates or lists can hold up their caller, or fill its memory.

use serde_json::Value;
use tidegate_gotmpl::Limits;

use crate::error::Problem;

/// Applications of one ApplicationSet, and sets of parameters of any one generator. Ten times what people run in one.
pub const APPLICATIONS_MAX: usize = 20_000;

/// Bytes of sets of parameters, and of what is rendered, in one run.
pub const BYTES_MAX: usize = 256 << 20;

/// Steps of templates, and comparisons of patterns and selectors, in one run: some seconds.
pub const STEPS_MAX: usize = 50_000_000;

/// Generators within generators. Argo CD has one matrix or merge in another.
pub const NESTING_MAX: usize = 4;

/// How many errors are told at once.
pub const ERRORS_MAX: usize = 20;

/// What a single text may use when it is rendered.
pub(crate) const TEXT_LIMITS: Limits = Limits { steps: 200_000, output_bytes: 1 << 20, depth: 100 };

/// What is left of it.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: usize,
    steps: usize,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { bytes: BYTES_MAX, steps: STEPS_MAX }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<(), Problem> {
        self.bytes = self.bytes.checked_sub(count).ok_or(Problem::TooManyBytes)?;
        Ok(())
    }

    pub(crate) fn steps(&mut self, count: usize) -> Result<(), Problem> {
        self.steps = self.steps.checked_sub(count).ok_or(Problem::TooManySteps)?;
        Ok(())
    }
}

/// About how much memory a value takes, in bytes.
pub(crate) fn size(value: &Value) -> usize {
    const NODE: usize = 32;
    match value {
        Value::String(text) => NODE.saturating_add(text.len()),
        Value::Array(items) => items.iter().map(size).fold(NODE, usize::saturating_add),
        Value::Object(fields) => {
            let entries = fields.iter().map(|(key, value)| NODE + key.len() + size(value));
            entries.fold(NODE, usize::saturating_add)
        }
        _ => NODE,
    }
}
