//! The vocabulary of Tidegate: ids, keys, phases, waves, hooks, options, plans, results.
//!
//! Types and accessors, and the calendar (schedules, sync windows); nothing else in this crate decides anything, and nothing
//! reads a clock, or does I/O.
//! Every other crate speaks in these words.

mod approval;
mod claim;
mod deletion;
mod discovery;
mod duration;
mod glob;
mod handover;
mod health;
mod ids;
mod kinds;
mod mandate;
mod object;
mod overrides;
mod packed;
mod plan;
mod record;
mod request;
mod result;
mod schedule;
mod shapes;
mod stream;
mod time;
mod tracking;
mod wave_numbers;
mod window;
mod wisher;

pub mod annotations;
pub mod argo;
pub mod earlier;

pub use approval::{PlanApproval, TakenPlan};
pub use claim::{ClaimHolder, ClaimPlace, ClaimRequest, IfTaken, SafePoint, UNBEGUN};
pub use deletion::{Cascade, InvalidCascade};
pub use discovery::{Discovery, KindInfo};
pub use duration::{InvalidDuration, format_duration, parse_duration};
pub use glob::{Glob, InvalidGlob};
pub use handover::{HandOver, managed_fields};
pub use health::{Evidence, Health, HealthStatus, Observation, Observed};
pub use ids::{Digest, GroupKind, Gvk, InvalidDigest, ObjectKey, OperationId, TaskId};
pub use mandate::{DeployTarget, Mandate};
pub use object::{InvalidObject, Object, describe};
pub use overrides::{Overridden, Override};
pub use packed::{LiveObject, PackedObject};
pub use plan::{
    Action, DeletePolicy, Hook, LiveRef, ManifestId, Phase, Plan, PlannedWave, Severity, Task, TaskOptions,
    Warning,
};
pub use record::{Content, LogRecord, Records};
pub use request::{
    Backoff, Destination, IgnoreDifference, Impersonation, ResourceSelector, RetryPolicy, SyncOptions,
    SyncRequest, WaitFor,
};
pub use result::{OperationPhase, ResourceResult, ResultCode};
pub use schedule::{InvalidSchedule, Schedule};
pub use shapes::{Seen, Tree, WrongType, wrong_types};
pub use stream::{StreamId, StreamKind};
pub use time::{InvalidTimestamp, Timestamp};
pub use tracking::{InvalidTracking, Search, Tracking, TrackingMethod, claimed_by};
pub use wave_numbers::WaveNumbers;
pub use window::{Blocked, Opened, Window, WindowKind, Zone, blocked, changes_in};
pub use wisher::{Wisher, reason_line};
