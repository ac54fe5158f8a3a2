//! The state machine of one sync operation.
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
//! Where to look: `fact` what is recorded, `state` what an operation is, [`decide`](decide()) which facts an input means,
//! [`follow`](follow()) which arrow follows by itself, [`evolve`](evolve()) how a fact changes the state,
//! [`pending`](pending()) what the world still owes, `event` what is told of it, `rules` the questions they share, `messages` the texts users match
//! on, [`view`](view()) and [`explain`](explain()) what people see.

mod changes;
mod command;
mod cursor;
mod decide;
mod details;
mod earlier;
mod event;
mod evolve;
mod explain;
mod fact;
mod follow;
mod gates;
mod input;
mod judge;
mod machine;
mod messages;
mod named;
mod pending;
mod record;
mod rules;
mod state;
mod view;
mod words;

#[cfg(test)]
mod work;

pub use command::{ASK_AGAIN_AFTER, Command, Subject, TaskCommand};
pub use decide::{Rejection, decide};
pub use details::Details;
pub use event::{Deadline, Event, EventKind, Narrator, WaveName};
pub use evolve::evolve;
pub(crate) use explain::whole_seconds;
pub use explain::{Awaited, Explanation, NOT_ANSWERED, NOT_SEEN, PLACE_TAKEN, TRYING_AGAIN, explain};
pub use fact::{DeadlineScope, Fact};
pub use follow::follow;
pub(crate) use gates::soak_of;
pub use gates::{APPROVAL, concurrency_group, gate_problem, is_known_gate};
pub use input::{Answer, Applied, CallError, Clearing, Input, NamespaceSight, Pruning, Stopped, Trial};
pub use judge::hook_phase;
pub use machine::{Driver, Sight, SyncOperation};
pub use named::{InvalidScope, Scope, TaskName, WaveChoice};
pub use pending::pending;
pub use state::{
    AppliedRef, Calls, Claim, ClaimNews, Cursor, Failure, GateAnswer, Header, HookLog, Identity, JudgedBy,
    Loss, Notes, Occupant, OpenTasks, Operation, Outage, Outcome, Pause, Progress, SeenHealth,
    SeenNamespaces, Stage, State, TaskState, Termination, Verdict, WaveStep, WaveTimes,
};
pub use view::{
    ClaimStanding, ClaimView, HealthRulesView, HookLogView, OperationView, TakenPlanView, WaveView, view,
};
