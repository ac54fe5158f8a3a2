//! Generators, one per file. They return their parameter sets in a deterministic order.

pub(crate) mod clusters;
pub(crate) mod decision;
pub(crate) mod git;
pub(crate) mod list;
pub(crate) mod matrix;
pub(crate) mod merge;
pub(crate) mod plugin;
pub(crate) mod pull_requests;
pub(crate) mod scm;

use regex::Regex;

use crate::error::Problem;

/// Length of short commit names in characters.
const SHORT_COMMIT_LENGTH: usize = 8;
const SEVEN_CHARACTER_COMMIT_LENGTH: usize = 7;

/// Compiles the regular expression of a filter. It isn't anchored.
fn compile_filter(field: &'static str, pattern: Option<&String>) -> Result<Option<Regex>, Problem> {
    let parsed = pattern.map(|pattern| {
        Regex::new(pattern).map_err(|error| Problem::Filter {
            field,
            pattern: pattern.clone(),
            reason: error.to_string(),
        })
    });
    parsed.transpose()
}
