//! Crash injection, scenarios and simulation for Tidegate's tests. This crate is never part of the program.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, reason = "tests may panic")]

pub mod argo_cluster;
pub mod chain;
pub mod concurrent_change;
pub mod crash;
pub mod effort;
pub mod fuzz;
pub mod git;
pub mod kube;
pub mod operation_events;
pub mod process;
pub mod program;
pub mod proxy;
pub mod scenario;
pub mod signed_commits;
pub mod simulate;
pub mod tcp_proxy;
pub mod tools;
pub mod web;
pub mod witness;
