//! State machine of a progressive sync, which updates an ApplicationSet's Applications step by step to one
//! set of target revisions. Each set of targets has its own rollout, with its own stream.
//!
//! ```text
//! Begun → Held(k) → Rolling(k) → Held(k+1) … → Ending → Finished
//!         Held(k) → Rolling(j)        a member of an earlier step degrades while it is watched
//!         Rolling(k) → RollingBack(k) → Ending
//!         any → Ending                terminate, superseded, abort of a failed step
//! member  Waiting → Promoted → Named → Running → Settling → Healthy
//! ```
//!
//! The rollout never starts a sync itself. It decides when a sync must start, records an operation ID, and
//! issues a command that ensures that this operation exists. The outcome is then reported back. An
//! Application counts as Healthy only if it was observed Synced and Healthy *after an operation that deployed
//! its exact target*. Earlier states of an Application, states with other targets, and the clock never count
//! as evidence.
//!
//! * `request`: content of a request
//! * `event`: recorded events
//! * `state`: state of a rollout
//! * [`decide`](decide()): events that an input causes
//! * [`advance`](advance()): automatic transitions
//! * [`apply`](apply()): applies an event to the state
//! * [`outstanding`](outstanding()): outstanding commands
//! * `rules`: predicates that the other modules share
//! * `messages`: texts that users' scripts may match
//! * [`view`](view()) and [`explain`](explain()): output for users

mod advance;
mod apply;
mod command;
mod decide;
mod departed;
mod event;
mod explain;
mod input;
mod machine;
mod messages;
mod milestones;
mod next_action;
mod outstanding;
mod record;
mod request;
mod rules;
mod state;
mod status;
mod step_wait;
mod view;

pub use advance::advance;
pub use apply::apply;
pub use command::{Command, Subject};
pub use decide::{Rejection, decide};
pub use departed::{DepartedMemberView, departed_members};
pub use event::{Event, MemberRecord};
pub use explain::explain;
pub use input::{Input, MemberObservation, OperationReport, UserRequest};
pub use machine::{ObservationKey, ProgressiveSync};
pub use messages::OPERATION_REASON;
pub use milestones::milestones;
pub use outstanding::outstanding;
pub use record::Details;
pub use request::{
    DeployedState, MemberSpec, OnFailure, OnNewTargets, OnPending, Options, Request, Step, Target,
};
pub use rules::{list_retryable, list_skippable};
pub use state::{
    Cause, End, Failure, Member, NewTargets, Outcome, Progress, Rollout, Stage, State, StepState,
    StopOutcome, WorkKind,
};
pub use status::{MemberOutcome, MemberStatus};
pub use step_wait::{StepWait, WaitReason, current_wait};
pub use view::{
    MemberView, ProgressingCondition, RolloutView, StepStatus, StepView, list_overdue, progressing_condition,
    skipped_members, view,
};
