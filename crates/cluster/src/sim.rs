//! A simulated Kubernetes that is realistic enough to rehearse a rollout.
//!
//! ```text
//!   SimCluster      async, latency, wakes watchers, keeps a journal     (cluster.rs, journal.rs)
//!       │  now + request
//!   SimState        pure and deterministic: no clock, no I/O            (state.rs)
//!       ├─ write.rs ─ apply.rs ─ admission, compose ─ ownership, fields, merge, defaults, validate, immutable
//!       │           └ delete.rs
//!       ├─ read.rs, logs.rs, watch.rs ─ history.rs
//!       └─ controllers/  one step of one object at a time, by timers.rs
//! ```
//!
//! # Driving the pure core
//!
//! 1. Every entry point of [`SimState`] takes the current time and first runs all controller steps that are
//!    due.
//! 2. [`SimState::next_due`] returns the time of the next step, at which [`SimState::advance`] should be
//!    called.
//! 3. Watchers have a [`WatchCursor`] and call [`SimState::next_changes`] whenever something may have
//!    changed.
//!
//! The state depends only on the configuration, the writes and their times. A journal of the writes is
//! therefore enough to restore a cluster, including its controllers.
//!
//! # Controlling the behavior
//!
//! Annotations on an object or its pod template control how it behaves: [`READY_AFTER`], [`OUTCOME`],
//! [`FAIL_TIMES`], [`LOGS`]. An invalid value is refused. A pod writes its log lines one by one while it is
//! running. A change to the annotations of a live workload counts as a change to its template.

mod admission;
mod api_error;
mod apply;
mod audit;
mod audit_file;
mod behavior;
mod clock;
mod cluster;
mod compose;
mod config;
mod controllers;
mod defaults;
mod delete;
mod faults;
mod fields;
mod history;
mod immutable;
mod index;
mod journal;
mod journal_length;
mod json;
mod kinds;
mod line_format;
mod logs;
mod merge;
mod objects;
mod ownership;
mod read;
mod rng;
mod schema;
mod shared_state;
mod snapshot;
mod state;
mod timers;
mod validate;
mod wakeups;
mod watch;
mod watch_stream;
mod write;

pub use audit::{AuditEntry, Verb};
pub use behavior::{Behavior, FAIL_TIMES, LOGS, OUTCOME, Outcome, READY_AFTER};
pub use clock::Clock;
pub use cluster::SimCluster;
pub use config::SimConfig;
pub use controllers::{PodStage, Readiness, pod_status, standalone_status};
pub use delete::STUCK_FINALIZER;
pub use faults::Faults;
pub use journal::{has_stored_cluster, read_audit};
pub use line_format::SimError;
pub use state::SimState;
pub use watch::WatchCursor;
