//! The state machine of one progressive sync: the Applications of an ApplicationSet, step after step, to one set of target
//! revisions. Another set of targets is another rollout, a stream of its own.
//!
//! ```text
//! Begun → Held(k) → Rolling(k) → Held(k+1) … → Ending → Finished
//!         Held(k) → Rolling(j)        a member of an earlier step worsens while it is watched
//!         Rolling(k) → RollingBack(k) → Ending
//!         any → Ending                terminate, superseded, abort of a failed step
//! member  Waiting → Promoted → Named → Running → Settling → Healthy
//! ```
//!
//! It begins no sync itself: it chooses when, owes that an operation with a recorded id exists, and learns how that one has
//! ended. A member counts as Healthy only when it was seen Synced and Healthy *after an operation that deployed its very
//! target*, known by its id; what an Application said before, or says of other targets, moves nothing, and neither does a
//! clock.
//!
//! Where to look: `request` what is asked for, `fact` what is recorded, `state` what a rollout is, [`decide`](decide())
//! which facts an input means, [`follow`](follow()) which arrow follows by itself, `evolve` how a fact changes the state,
//! [`pending`](pending()) what the world still owes, `rules` the questions they share, `messages` the texts users match on,
//! [`view`](view()) and [`explain`](explain()) what people see.

mod command;
mod decide;
mod evolve;
mod explain;
mod fact;
mod follow;
mod input;
mod left;
mod machine;
mod messages;
mod milestones;
mod pending;
mod record;
mod request;
mod rules;
mod state;
mod status;
mod view;
mod waiting;

pub use command::{Command, Subject};
pub use decide::{Rejection, decide};
pub use evolve::evolve;
pub use explain::explain;
pub use fact::{Fact, Listed};
pub use follow::follow;
pub use input::{ChildNews, Input, Sight, Wish};
pub use left::{LeftView, left};
pub use machine::{Progressive, Seen};
pub use messages::REASON;
pub use milestones::milestones;
pub use pending::pending;
pub use record::{Details, DetailsOfKind1, DetailsOfKind2};
pub use request::{Deployed, MemberSpec, OnFailure, OnNewTargets, OnPending, Options, Request, Step, Target};
pub use rules::{may_be_retried, may_be_skipped};
pub use state::{
    Cause, End, Failure, Member, NewTargets, Outcome, Progress, Rollout, Stage, State, StepState, Then, Work,
};
pub use status::MemberStatus;
pub use view::{
    MemberOutcome, MemberView, RolloutView, StepStatus, StepView, condition, overdue, skipped, view,
};
pub use waiting::{WaitReason, Waiting, waiting};
