//! State machine of an ordered deletion. It deletes an ApplicationSet's Applications step by step: either all
//! of them, or those that the generators don't produce anymore. A step begins only after the API server has
//! confirmed that no Application in the previous step exists.
//!
//! ```text
//! Begun → Deleting(k) → Deleting(k+1) … → Finished
//! member  Waiting → Condemned → Going → Confirming → Gone
//! ```
//!
//! If other clients delete or release all Applications at once ([`Order::is_witnessed`]), the machine makes
//! no requests and only records observations: `Waiting → Going → Gone`, or `Released`.
//!
//! A deletion is bound to the recorded UID. If an Application seems to be gone, the API server is asked once
//! more, bypassing every cache, before the next step begins.
//!
//! * `order`: order of deletion
//! * `event`: recorded events
//! * `state`: state of a teardown
//! * [`decide`](decide()): events that an input causes
//! * [`advance`](advance()): automatic transitions
//! * [`apply`](apply()): applies an event to the state
//! * [`outstanding`](outstanding()): outstanding commands
//! * [`view`](view()) and [`explain`](explain()): output for users

mod advance;
mod apply;
mod command;
mod decide;
mod event;
mod explain;
mod input;
mod machine;
mod milestones;
mod next_action;
mod order;
mod outstanding;
mod record;
mod request;
mod rules;
mod state;
mod view;

pub use advance::advance;
pub use apply::apply;
pub use command::{Command, Subject};
pub use decide::{Rejection, decide};
pub use event::{Event, MemberRecord};
pub use explain::explain;
pub use input::{Input, MemberObservation, ObjectPresence, UserRequest};
pub use machine::{ObservationKey, OrderedDeletion};
pub use milestones::milestones;
pub use order::{Order, OrderKind, Selection};
pub use outstanding::outstanding;
pub use record::Details;
pub use request::{Approval, MemberSpec, OnDeadline, Options, Request};
pub use state::{End, Member, Outcome, Progress, Stage, State, StepState, Teardown};
pub use view::{ApprovalView, MemberStatus, MemberView, StepView, TeardownView, view};
