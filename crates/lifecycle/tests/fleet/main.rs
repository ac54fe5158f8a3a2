//! The machines over the Applications of an ApplicationSet, from outside: tables, stories, and random fleets in random
//! weather.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

mod build;
mod dice;
mod golden;
mod rollout;
mod select;
mod teardown;
mod weather;
