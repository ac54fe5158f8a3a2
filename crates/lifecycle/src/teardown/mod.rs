//! The state machine of one ordered deletion: Applications of an ApplicationSet, all of them or those that dropped out of
//! it, step after step; the next step begins when every Application of the one before is really gone.
//!
//! ```text
//! Begun → Deleting(k) → Deleting(k+1) … → Finished
//! member  Waiting → Condemned → Going → Confirming → Gone
//! ```
//!
//! Where others delete the Applications, all at once or not at all ([`Order::is_witnessed`]), it asks for nothing and records what
//! is seen: `Waiting → Going → Gone`, or `Released`.
//!
//! A deletion is bound to the UID that was recorded. What was seen to be gone is looked at once more, past every cache,
//! before the next step rests on it.
//!
//! Where to look: `order` who is deleted when, `fact` what is recorded, `state` what a teardown is, [`decide`](decide())
//! which facts an input means, [`follow`](follow()) which arrow follows by itself, `evolve` how a fact changes the state,
//! [`pending`](pending()) what the world still owes, [`view`](view()) and [`explain`](explain()) what people see.

mod command;
mod decide;
mod earlier;
mod evolve;
mod explain;
mod fact;
mod follow;
mod input;
mod machine;
mod milestones;
mod order;
mod pending;
mod record;
mod request;
mod rules;
mod state;
mod view;

pub use command::{Command, Subject};
pub use decide::{Rejection, decide};
pub use evolve::evolve;
pub use explain::explain;
pub use fact::{Fact, Listed};
pub use follow::follow;
pub use input::{Found, Input, Sight, Wish};
pub use machine::{OrderedDeletion, Seen};
pub use milestones::milestones;
pub use order::{Order, OrderWord, Selection};
pub use pending::pending;
pub use record::{Details, DetailsOfKind1};
pub use request::{MemberSpec, OnLate, Options, Request};
pub use state::{Approval, End, Member, Outcome, Progress, Stage, State, StepState, Teardown};
pub use view::{ApprovalView, MemberStatus, MemberView, StepView, TeardownView, view};
