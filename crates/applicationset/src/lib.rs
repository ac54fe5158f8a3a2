//! Rules for ApplicationSets as pure functions. They take the resource, its output, the existing
//! Applications, the known projects and clusters, and the time, and return the changes to write.
//!
//! | module | content |
//! |---|---|
//! | [`changes`] | Applications to create, update, delete, or leave alone |
//! | [`desired`] | desired Applications and preserved fields |
//! | [`ownership`] | owner of an Application |
//! | [`sync_policy`] | allowed changes of Applications |
//! | [`deletion_limit`] | limit on simultaneous deletions |
//! | [`references`] | existence of projects and clusters |
//! | [`deletion_order`] | order of deletions |
//! | [`rollout_steps`] | selection and maximum number of Applications in a step |
//! | [`rollout`] | start and inputs of progressive syncs |
//! | [`deletion`] | deletion of ApplicationSets |
//! | [`preview`] | preview of progressive syncs and deletions |
//! | [`change_preview`] | preview of the changes of each Application |
//! | [`requeue`] | time of the next reconciliation |
//! | [`retry`] | requests to start an ended rollout or deletion again |
//! | [`triggers`] | changes that trigger a reconciliation |
//! | [`ignored`] | settings without effect |
//! | [`status`] | status of an ApplicationSet |

pub mod change_preview;
pub mod changes;
pub mod deletion;
pub mod deletion_limit;
pub mod deletion_order;
pub mod desired;
mod generators;
pub mod ignored;
mod max_deletions;
mod output;
pub mod ownership;
pub mod preview;
pub mod references;
pub mod requeue;
pub mod retry;
pub mod rollout;
pub mod rollout_steps;
pub mod status;
pub mod sync_policy;
pub mod triggers;
mod webhook_matching;
