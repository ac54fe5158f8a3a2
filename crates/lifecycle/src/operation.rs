//! State machine of one sync operation.
//!
//! ```text
//! Accepted → Planned → DryRun → Wave(k) … → Finishing → Finished
//!                 any running stage ⇄ paused
//!                 a failed wave → AwaitingRetry → that wave again
//!                               → SyncFail waves → Finishing
//!                 terminate     → Terminating → Finished
//!                 superseded    → Terminating → Finishing
//! Wave(k)  Held → DryRun → Pruning → AwaitingGone → Clearing → Applying → AwaitingHealth → Settling → Verifying → Passed
//! ```
//!
//! * `recorded_event`: recorded events
//! * `state`: state of an operation
//! * [`decide`](decide()): events that an input causes
//! * [`advance`](advance()): automatic transitions
//! * [`apply`](apply()): applies an event to the state
//! * [`outstanding`](outstanding()): outstanding commands
//! * `event`: events emitted for programs and users
//! * `rules`: predicates that the other modules share
//! * `messages`: texts that users' scripts may match
//! * [`view`](view()) and [`explain`](explain()): output for users

mod advance;
mod affected_subjects;
mod apply;
mod command;
mod cursor;
mod decide;
mod details;
mod event;
mod explain;
mod gates;
mod input;
mod input_texts;
mod judgment;
mod machine;
mod messages;
mod next_action;
mod outstanding;
mod record;
mod recorded_event;
mod rules;
mod selection;
mod state;
mod view;

#[cfg(test)]
mod visit_count;

pub use advance::advance;
pub use apply::apply;
pub use command::{Command, GATE_RETRY_INTERVAL, Subject, TaskCommand};
pub use decide::{Rejection, decide};
pub use details::Details;
pub use event::{Deadline, Event, EventEmitter, EventKind, WaveName};
pub(crate) use explain::truncate_to_seconds;
pub use explain::{
    AwaitedItem, Explanation, GATE_NOT_ANSWERED, NOT_OBSERVED, PLACE_OCCUPIED, PathStep, RETRYING, explain,
};
pub(crate) use gates::soak_duration;
pub use gates::{APPROVAL_GATE, concurrency_group, gate_error, is_built_in_gate};
pub use input::{
    Answer, ApplyResponse, CallError, ClearingResult, DryRunResponse, Input, NamespaceObservation,
    PruneResult, StopResult, SuspendedHook,
};
pub use judgment::hook_phase;
pub use machine::{Driver, ObservationKey, SyncOperation};
pub use next_action::{resume_action, summary_action};
pub use outstanding::outstanding;
pub use recorded_event::{DeadlineScope, OperationEvent};
pub use selection::{InvalidScope, Scope, TaskSelector, WaveSelector};
pub use state::{
    ActiveHealthRules, AppliedRef, CallFailures, Claim, ClaimEvent, Cursor, Failure, GateAnswer, Header,
    HookLog, Loss, NamespaceIdentities, ObjectIdentity, ObservedHealth, Occupant, OpenTasks, Operation,
    Outage, Outcome, Pause, Progress, Stage, State, TaskNotes, TaskState, Termination, Verdict, WaveStep,
    WaveTimes,
};
pub use view::{
    ClaimStatus, ClaimView, ExecutedPlanView, HealthRulesView, HookLogView, OperationView, WaveView, view,
};
