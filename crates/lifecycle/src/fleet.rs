//! Code shared by the machines that manage an ApplicationSet's Applications: assignment of Applications to
//! steps, limits, requesters, repeated calls and explanations.

mod attribution;
mod call_failures;
mod explain;
mod milestone;
mod select;

pub use attribution::{Attribution, Scope};
pub use call_failures::CallFailures;
pub use explain::Explanation;
pub use milestone::{Milestone, MilestoneReason};
pub use select::{
    Assignment, Expression, InvalidMaxUpdate, InvalidOperator, Labels, MaxUpdate, Operator, assign_step,
};

pub use crate::names::join_names;

pub(crate) use explain::{
    append_alternatives, describe_step, format_application_count, format_elapsed, join_names_by_place,
    sort_by_wait, step_name,
};
pub(crate) use select::count;
