//! Black-box tests of the planner: manifests and live objects in, plans and findings out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, reason = "tests may panic")]

mod bad_input;
mod compared_plan;
mod dependencies;
mod dependency_chains;
mod drift;
mod findings;
mod foreign_dependencies;
mod hook_conditions;
mod hooks;
mod live;
mod order;
mod parsing;
mod properties;
mod pruning;
mod sample;
mod support;
mod tracking;
