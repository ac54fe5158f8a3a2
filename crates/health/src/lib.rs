//! Is this object well? One rule per kind: an object in, a verdict out. The first of three layers judges:
//!
//! 1. the user's rules ([`HealthRules`]);
//! 2. built-in rules: functions for Kubernetes' own kinds, and a table of data for custom resources (`builtin/`);
//! 3. the general convention for the status of custom resources (`convention.rs`).
//!
//! ```text
//!   Object ──► assess   ──► no rule │ verdict (status, message) │ could not be judged
//!          ──► evidence ──► what proves that the status speaks about the newest spec
//!          ──► observe  ──► both, with identity and time: what the operation's state machine is told
//! ```
//!
//! - The rules for built-in kinds are those of Argo CD, and so are the statuses they lead to and the messages people
//!   match on. Where Argo CD gives no message, or one that says little, ours says how far the object is, because a
//!   person reads it in `tidegate explain`.
//! - Health scripts written for Argo CD run unchanged, in a sandbox with a budget of steps and memory.
//! - A built-in verdict always has a message, so that an earlier one (`1 of 3 replicas available`) never outlives its truth.
//! - Nothing here reads a clock, does I/O or panics on any content of an object; a field of the wrong type is a
//!   [`HealthError`] that names the field.
//!
//! Where to look: one file per family of Kubernetes' kinds, which `kinds.rs` lists; `builtin/rows/` has one line for each
//! custom resource; `lua/` runs scripts, `cel/` expressions.

mod annotated;
mod application;
mod argo;
mod assess;
mod autoscaling;
mod batch;
mod builtin;
mod cel;
mod convention;
mod error;
mod extensions;
mod fields;
mod generation;
mod identity;
mod kinds;
mod layers;
mod leaving;
mod lua;
mod network;
mod pod;
mod pods;
mod policy;
mod rules;
mod script;
mod storage;
mod text;
mod verdict;
mod workloads;

pub use annotated::review as review_annotations;
pub use application::of_application;
pub use assess::{assess, has_rule, observe};
pub use builtin::{BuiltInKind, built_in_kinds};
pub use cel::{Condition, EXPRESSIONS_FILE, EXPRESSIONS_KEY_PREFIX, Expressions};
pub use error::HealthError;
pub use layers::{Layer, evidence};
pub use leaving::{kept_by, tells_what_keeps_it};
pub use pods::{pods_reason, runs_pods, workload_reason};
pub use rules::{HealthRules, UserRule};
pub use script::{SCRIPT_BYTES_MAX, SCRIPT_FILE, SCRIPT_KEY_PREFIX, Script, ScriptError, target_of_path};
pub use text::MESSAGE_BYTES_MAX;
pub use verdict::worst;
