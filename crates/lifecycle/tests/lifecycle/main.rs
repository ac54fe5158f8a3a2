//! The operation machine from outside: tables, worked traces, and random plans in random worlds.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

mod build;
mod claims;
mod deadlines;
mod driver;
mod ending;
mod events;
mod explain;
mod failing;
mod namespaces;
mod notes;
mod outages;
mod overrides;
mod places;
mod pruning;
mod random;
mod retries;
mod shell;
mod superseding;
mod table;
mod traces;
mod waiting;
mod world;
