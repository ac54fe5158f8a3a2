//! What the simulated cluster does, one file per behaviour. No test sleeps: time is a number here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

mod async_cluster;
mod deletes;
mod faults;
mod following;
mod kinds;
mod logs;
mod ownership;
mod persistence;
mod properties;
mod refusals;
mod watches;
mod workloads;
mod world;
mod writes;

pub(crate) use world::*;
