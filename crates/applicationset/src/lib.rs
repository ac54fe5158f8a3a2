//! What is to be done about an ApplicationSet. Pure: the resource, what it generates, the Applications there are, what is
//! known of projects and clusters, and the time come in as arguments; what is to be written comes out.
//!
//! | module | question |
//! |---|---|
//! | [`changes`] | which Applications are created, changed, deleted, or left alone, and why? |
//! | [`desired`] | what should an Application be, and what of one that is there stays? |
//! | [`ownership`] | whose is an Application? |
//! | [`policy`] | what may be done with Applications? |
//! | [`guard`] | may so many of them be deleted at once? |
//! | [`known`] | is what an Application refers to there? |
//! | [`order`] | in which order do they go? |
//! | [`steps`] | whom does a step select, and how many of them at once? |
//! | [`rollout`] | is a progressive sync to be begun, and what is one under way to be told? |
//! | [`deletion`] | what is done when the set goes? |
//! | [`preview`] | what would a progressive sync and a deletion do? |
//! | [`foreseen`] | what would become of each Application, were this generated? |
//! | [`requeue`] | when is it looked at again? |
//! | [`retry`] | who wants what has ended to be begun again? |
//! | [`wake`] | is a change a reason to look at it again? |
//! | [`unheeded`] | what does it say that has no effect? |
//! | [`status`] | what does its status say? |

pub mod changes;
pub mod deletion;
pub mod desired;
pub mod foreseen;
mod generators;
pub mod guard;
mod hosted;
pub mod known;
pub mod order;
pub mod ownership;
pub mod policy;
pub mod preview;
pub mod requeue;
pub mod retry;
pub mod rollout;
pub mod status;
pub mod steps;
pub mod unheeded;
pub mod wake;
