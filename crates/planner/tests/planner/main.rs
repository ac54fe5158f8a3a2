//! The planner from the outside: text and live objects in, plans and findings out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should stop"
)]

mod bad_input;
mod contract;
mod drift;
mod findings;
mod hooks;
mod live;
mod order;
mod properties;
mod pruning;
mod reading;
mod sample;
mod support;
mod tracking;
