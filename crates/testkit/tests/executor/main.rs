//! The engine against extensions, clusters, logs and clocks that fail: on virtual time, with the cluster's own audit as
//! the witness.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a broken assumption must stop the test at once"
)]

mod admission;
mod bindings;
mod changes;
mod claims;
mod compaction;
mod conditions;
mod deletions;
mod ensure;
mod events;
mod extensions;
mod groups;
mod inventory;
mod judges;
mod last_runs;
mod leaving;
mod logs;
mod machines;
mod many;
mod namespaces;
mod outages;
mod output;
mod planned;
mod pruning;
mod recorded;
mod replacing;
mod rights;
mod rivals;
mod scripts;
mod secrets;
mod shutdown;
mod supervision;
mod support;
mod troubles;
mod watches;
