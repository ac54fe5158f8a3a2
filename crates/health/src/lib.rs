//! Is this object well? One pure function per kind: an object in, a verdict out.
//!
//! ```text
//!   Object ──► assess   ──► no rule │ verdict (status, message) │ could not be judged
//!          ──► evidence ──► what proves that the status speaks about the newest spec
//!          ──► observe  ──► both, with identity and time: what the operation's state machine is told
//! ```
//!
//! - The rules for built-in kinds are those of Argo CD, and so are the statuses they lead to. The messages of
//!   waiting objects are our own: they say how far the object is, because a person reads them in `tidegate explain`.
//! - A verdict always has a message, so that an earlier one (`1 of 3 replicas available`) never outlives its truth.
//! - Nothing here reads a clock, does I/O or panics on any content of an object; a field of the wrong type is a
//!   [`HealthError`] that names the field.
//!
//! Where to look: one file per family of kinds; [`assess`] has the table of kinds.

mod argo;
mod assess;
mod autoscaling;
mod batch;
mod error;
mod extensions;
mod fields;
mod network;
mod observe;
mod pod;
mod pods;
mod policy;
mod storage;
mod verdict;
mod workloads;

pub use assess::{MESSAGE_BYTES_MAX, assess, has_rule, worst};
pub use error::HealthError;
pub use observe::{evidence, observe};
pub use pods::{pods_reason, runs_pods};
