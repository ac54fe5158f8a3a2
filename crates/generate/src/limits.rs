//! Limits for a run, so that templates and lists can't hog the CPU or exhaust the memory.

use tidegate_gotmpl::Limits;

/// Maximum number of Applications in an ApplicationSet, and of parameter sets per generator. Large
/// installations have a tenth of this.
pub const APPLICATIONS_MAX: usize = 20_000;

/// Maximum total size of the parameter sets and rendered strings in a run, in bytes.
pub const BYTES_MAX: usize = 256 << 20;

/// Maximum number of steps in a run, which takes a few seconds. Includes template steps and comparisons for
/// patterns and selectors.
pub const STEPS_MAX: usize = 50_000_000;

/// Number of steps charged for compiling a jq expression, which takes about as long.
pub(crate) const EXPRESSION_STEPS: usize = 1_000;

/// Maximum nesting depth of generators. (Argo CD allows one matrix or merge inside another.)
pub const NESTING_MAX: usize = 4;

/// Maximum number of reported errors.
pub const ERRORS_MAX: usize = 20;

/// Limits for rendering a single string.
pub(crate) const TEXT_LIMITS: Limits = Limits { steps: 200_000, output_bytes: 1 << 20, depth: 100 };
