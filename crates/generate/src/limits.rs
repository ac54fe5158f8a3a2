//! Limits for a run, so that templates and lists can't block the caller or exhaust the memory.

use tidegate_gotmpl::Limits;

/// Maximum number of Applications in an ApplicationSet, and of parameter sets per generator. Even large
/// installations have ten times fewer.
pub const APPLICATIONS_MAX: usize = 20_000;

/// Maximum size of all parameter sets and rendered strings in one run, in bytes.
pub const BYTES_MAX: usize = 256 << 20;

/// Maximum number of steps in one run. Steps of templates count, and so do comparisons for patterns and
/// selectors. This number of steps takes a few seconds.
pub const STEPS_MAX: usize = 50_000_000;

/// Number of steps that compiling a jq expression counts for. Compiling takes about as long as this number of
/// steps.
pub(crate) const EXPRESSION_STEPS: usize = 1_000;

/// Maximum nesting depth of generators. For comparison, Argo CD allows one matrix or merge inside another.
pub const NESTING_MAX: usize = 4;

/// Maximum number of errors that are reported.
pub const ERRORS_MAX: usize = 20;

/// Limits for rendering a single string.
pub(crate) const TEXT_LIMITS: Limits = Limits { steps: 200_000, output_bytes: 1 << 20, depth: 100 };
