//! What the simulated cluster does, one file per behaviour. No test sleeps: time is a number here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

mod workloads;
mod world;

pub(crate) use world::*;
