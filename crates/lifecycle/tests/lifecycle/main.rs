//! Tests of the operation machine through its public API: tables, traces, and random plans in random worlds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, missing_docs, reason = "tests may panic")]

mod build;
mod claims;
#[path = "../common/common.rs"]
mod common;
mod concurrency;
mod deadlines;
mod dependencies;
mod dependency_chains;
mod diagnostics;
mod driver;
mod events;
mod explain;
mod failures;
mod namespaces;
mod outages;
mod overrides;
mod pruning;
mod random;
mod replica_model;
mod retries;
mod runner;
mod supersede;
mod table;
mod termination;
mod traces;
mod waiting;
mod world;
