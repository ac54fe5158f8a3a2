//! Tests of rollouts and teardowns through their public API: tables, scenarios, and random fleets with random
//! disturbances.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, missing_docs, reason = "tests may panic")]

mod build;
#[path = "../common/common.rs"]
mod common;
mod disturbances;
mod golden;
mod machines;
mod rng;
mod rollout;
mod select;
mod teardown;
