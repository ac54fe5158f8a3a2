//! What the machines over the Applications of an ApplicationSet share: who is in which step, how many at once, who said
//! so, calls that are made again, and the answer to "why is it waiting?".

mod calls;
mod explain;
mod milestone;
mod said;
mod select;

pub use calls::Calls;
pub use explain::{Explanation, enumerate};
pub use milestone::{Milestone, MilestoneReason};
pub use said::{Said, Scope};
pub use select::{
    Assignment, Expression, InvalidMaxUpdate, InvalidOperator, Labels, MaxUpdate, Operator, assign,
};

pub(crate) use explain::{applications, by_place, longest_first, or_others, step_name, step_of, words};
pub(crate) use select::count;
