//! Limits for a run. Templates and lists must not block the caller or exhaust the process's memory.

use tidegate_gotmpl::Limits;

/// Maximum number of Applications in an ApplicationSet, and of parameter sets in a generator. This is ten
/// times the usual maximum.
pub const APPLICATIONS_MAX: usize = 20_000;

/// Maximum size of parameter sets and of rendered text in one run, in bytes.
pub const BYTES_MAX: usize = 256 << 20;

/// Maximum number of steps in one run: template steps, and comparisons of patterns and selectors. This many
/// steps take a few seconds.
pub const STEPS_MAX: usize = 50_000_000;

/// Number of steps that are charged for compiling one jq expression. It corresponds to the time that this
/// takes.
pub(crate) const EXPRESSION_STEPS: usize = 1_000;

/// Maximum nesting of generators. Argo CD allows one matrix or merge inside another.
pub const NESTING_MAX: usize = 4;

/// Maximum number of reported errors.
pub const ERRORS_MAX: usize = 20;

/// Limits for rendering a single text.
pub(crate) const TEXT_LIMITS: Limits = Limits { steps: 200_000, output_bytes: 1 << 20, depth: 100 };
