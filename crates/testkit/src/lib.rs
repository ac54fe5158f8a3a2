//! Crash injection, scenarios and simulation for the tests of Tidegate. Never part of the program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a broken assumption must stop the test at once"
)]

pub mod chain;
pub mod crash;
pub mod effort;
pub mod fuzz;
pub mod git;
pub mod kube;
pub mod meanwhile;
pub mod process;
pub mod program;
pub mod proxy;
pub mod recorded;
pub mod scenario;
pub mod signed;
pub mod simulate;
pub mod tools;
pub mod web;
pub mod witness;
