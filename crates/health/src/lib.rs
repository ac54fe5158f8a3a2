//! Health of Kubernetes objects, with a rule for each kind. There are three layers of rules, and the first
//! layer with a rule for an object wins:
//!
//! 1. rules defined by the user ([`HealthRules`]);
//! 2. built-in rules: functions for Kubernetes' own kinds, and a table of data for custom resources
//!    (`builtin/`);
//! 3. the general convention for the status of custom resources (`status_convention.rs`).
//!
//! ```text
//!   Object ──► assess   ──► no rule │ health (status, message) │ error
//!          ──► evidence ──► evidence that the status refers to the newest spec
//!          ──► observe  ──► both, with identity and time, for the operation's state machine
//! ```
//!
//! - The rules for built-in kinds, their statuses, and the messages that users' tools match are the same as
//!   in Argo CD. Where Argo CD has no helpful message, Tidegate describes the object's progress, because
//!   users read it in `tidegate explain`.
//! - Health scripts written for Argo CD run unchanged, in a sandbox with step and memory limits.
//! - A built-in result always has a message, so that it replaces an earlier one (`1 of 3 replicas
//!   available`).
//! - This crate never reads a clock, performs I/O or panics, whatever an object contains. A field of the
//!   wrong type is a [`HealthError`] with the path of the field.
//!
//! Files: each family of Kubernetes' own kinds has a file, and `code_rules.rs` lists these kinds.
//! `builtin/rows/` has a line for each custom resource, `lua/` runs scripts, and `cel/` evaluates
//! expressions.

mod annotation_validation;
mod api_extensions;
mod application;
mod argo;
mod assess;
mod autoscaling;
mod batch;
mod builtin;
mod cel;
mod code_rules;
mod deletion_blockers;
mod disruption_budget;
mod error;
mod fields;
mod generation;
mod grace_period;
mod identity;
mod layers;
mod lua;
mod network;
mod pod;
mod pod_problems;
mod rules;
mod script;
mod status_convention;
mod storage;
mod text;
mod verdict;
mod warning_events;
mod workloads;

pub use annotation_validation::review_annotations;
pub use application::application_health;
pub use assess::{assess, has_rule, observe};
pub use builtin::{BuiltInKind, built_in_kinds};
pub use cel::{Condition, EXPRESSIONS_FILE, EXPRESSIONS_KEY_PREFIX, Expressions};
pub use deletion_blockers::{deletion_blockers, has_deletion_status};
pub use error::HealthError;
pub use layers::{Layer, evidence};
pub use pod_problems::{is_waiting_pod, pods_reason, runs_pods, workload_reason};
pub use rules::{HealthRules, UserRule};
pub use script::{SCRIPT_BYTES_MAX, SCRIPT_FILE, SCRIPT_KEY_PREFIX, Script, ScriptError, target_of_path};
pub use storage::{binds_with_consumer, unbound_class, waits_for_consumer};
pub use text::MESSAGE_BYTES_MAX;
pub use verdict::worst_status;
pub use warning_events::{newest_warning, reports_wait_for_first_consumer};
