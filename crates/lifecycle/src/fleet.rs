//! Code shared by the machines that manage an ApplicationSet's Applications: assignment of Applications to
//! steps, update limits, requesters, retries of failed calls, and explanations.

mod attribution;
mod call_failures;
mod duplicate_name;
mod explain;
mod milestone;
mod select;
mod state;

pub use attribution::{Attribution, Scope};
pub use call_failures::CallFailures;
pub use duplicate_name::DuplicateName;
pub use explain::Explanation;
pub use milestone::{Milestone, MilestoneReason};
pub use select::{
    Assignment, Expression, InvalidMaxUpdate, InvalidOperator, Labels, MaxUpdate, Operator, assign_step,
};
pub use state::{Outcome, State};

pub use crate::names::join_names;

pub(crate) use duplicate_name::collect_unique_names;
pub(crate) use explain::{
    append_alternatives, describe_skip, describe_step, format_application_count, format_elapsed,
    join_names_by_place, qualify_name, sort_by_wait, step_name,
};
pub(crate) use select::count;
