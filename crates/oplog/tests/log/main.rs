//! Tests of the log through its public API, in a single program to build and link only once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, clippy::disallowed_methods, missing_docs, reason = "tests may panic")]

mod child;
mod compaction;
mod conformance;
mod damaged_records;
mod environment;
mod files;
mod golden;
mod inventory;
mod kinds;
mod kit;
mod layouts;
mod log_copy;
mod postgres;
mod postgres_server;
mod process;
mod property;
mod random_damage;
mod read_only;
mod sealed;
mod sharing;
