//! Core types shared by all other Tidegate crates: IDs, keys, phases, waves, hooks, options, plans and
//! results.
//!
//! The crate contains types, accessors and the calendar (schedules and sync windows), but no other decision
//! logic. It never reads a clock or does I/O.

mod approval;
mod built_in_kinds;
mod claim;
mod deletion;
mod discovery;
mod duration;
pub mod field_handover;
mod field_types;
mod glob;
mod health;
mod ids;
mod object;
mod packed_object;
mod plan;
mod project_policy;
mod record;
mod request;
mod requester;
mod result;
mod schedule;
mod server_address;
mod stream;
mod sync_window;
mod task_override;
mod time;
mod tracking;
mod wave_numbers;

pub mod annotations;
pub mod argo;

pub use approval::{PlanApproval, StoredPlanRef};
pub use claim::{
    ClaimConflictPolicy, ClaimHolder, ClaimLocation, ClaimRequest, SafePoint, UNIDENTIFIED_OPERATION,
};
pub use deletion::{Cascade, InvalidCascade};
pub use discovery::{Discovery, KindInfo};
pub use duration::{InvalidDuration, format_duration, parse_duration};
pub use field_handover::{FieldHandover, can_be_taken_over, managed_fields};
pub use field_types::{TreeNode, ValueTree, WrongType, wrong_types};
pub use glob::{Glob, InvalidGlob};
pub use health::{Evidence, Health, HealthStatus, Observation, ObservedState};
pub use ids::{Digest, GroupKind, Gvk, InvalidDigest, ObjectKey, OperationId, TaskId};
pub use object::{InvalidObject, Object, describe_json_type};
pub use packed_object::{LiveObject, PackedObject};
pub use plan::{
    Action, DeletePolicy, Hook, LiveRef, ManifestId, Phase, Plan, PlanWithoutDependencies, PlannedWave,
    Severity, Task, TaskDependency, TaskOptions, Warning,
};
pub use project_policy::{DeployTarget, ProjectPolicy};
pub use record::{LogRecord, RecordContent, StreamRecords};
pub use request::{
    Backoff, Destination, IgnoreDifference, Impersonation, ResourceSelector, RetryPolicy, SyncOptions,
    SyncRequest, WaitFor,
};
pub use requester::{Requester, normalize_reason};
pub use result::{
    INVALID_PLAN_MESSAGE, OUTDATED_PLAN_MESSAGE, OperationOutcome, OperationPhase, ResourceResult,
    ResultCode, SUPERSEDED_PREFIX, is_outdated_plan_message,
};
pub use schedule::{InvalidSchedule, Schedule};
pub use server_address::{Authority, Host, canonical_server, default_port, parse_port, percent_decode};
pub use stream::{StreamId, StreamKind};
pub use sync_window::{
    ParsedWindow, TimeZoneRules, Window, WindowBlock, WindowKind, find_block, next_window_change,
};
pub use task_override::{Override, OverrideRecord};
pub use time::{InvalidTimestamp, Timestamp};
pub use tracking::{InvalidTracking, Tracking, TrackingMethod, TrackingSelector, annotated_application};
pub use wave_numbers::WaveNumbers;
