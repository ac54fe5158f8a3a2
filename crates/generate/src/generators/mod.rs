//! The generators, one a file. Each gives the sets of parameters of one generator in an order that its input determines.

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

/// How many characters of a commit are its short name, and the shorter one.
const SHORT: usize = 8;
const SHORTER: usize = 7;

/// A regular expression of a filter; it need not match all of a text.
fn expression(field: &'static str, pattern: Option<&String>) -> Result<Option<Regex>, Problem> {
    let parsed = pattern.map(|pattern| {
        Regex::new(pattern).map_err(|error| Problem::Filter {
            field,
            pattern: pattern.clone(),
            reason: error.to_string(),
        })
    });
    parsed.transpose()
}
