//! Behavior of the simulated cluster, one file per topic. Tests never sleep, because simulated time is just a
//! number.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, reason = "tests may panic")]

mod async_cluster;
mod deletes;
mod faults;
mod kinds;
mod list_and_watch;
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
