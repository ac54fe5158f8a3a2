//! A simulated Kubernetes, good enough to rehearse a rollout on it.
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
//! # How the pure core is driven
//!
//! 1. Every entry point of [`SimState`] takes the present time, and first runs all controller steps that are due.
//! 2. [`SimState::next_due`] says when something will happen by itself; call [`SimState::advance`] then.
//! 3. Watchers keep a [`Cursor`] and ask for [`SimState::changes`] whenever something may have changed.
//!
//! The state is a function of the configuration and of the writes with their times. So a journal of the writes is
//! enough to bring a cluster back, controllers and all.
//!
//! # What a user can steer
//!
//! Annotations on an object, or on its pod template, say what it will do: [`READY_AFTER`], [`OUTCOME`],
//! [`FAIL_TIMES`], [`LOGS`]. A wrong value is refused. What a pod writes, it writes line by line over the time it takes. Changing them on a live workload counts as a change of its template.

mod admission;
mod apply;
mod audit;
mod behaviour;
mod clock;
mod cluster;
mod compose;
mod config;
mod controllers;
mod defaults;
mod delete;
mod faults;
mod fields;
mod filed;
mod history;
mod immutable;
mod index;
mod journal;
mod json;
mod kinds;
mod lines;
mod logs;
mod merge;
mod objects;
mod ownership;
mod reached;
mod read;
mod refuse;
mod rng;
mod schema;
mod shared;
mod snapshot;
mod state;
mod stream;
mod timers;
mod validate;
mod watch;
mod write;

pub use audit::{AuditEntry, Verb};
pub use behaviour::{Behaviour, FAIL_TIMES, LOGS, OUTCOME, Outcome, READY_AFTER};
pub use clock::Clock;
pub use cluster::SimCluster;
pub use config::SimConfig;
pub use controllers::{PodStage, Turn, pod_status, settled_status};
pub use delete::STUCK;
pub use faults::Faults;
pub use journal::{is_kept, read_audit};
pub use lines::SimError;
pub use state::SimState;
pub use watch::Cursor;
