//! Rules for ApplicationSets as pure functions: they take the resource, its output, the existing
//! Applications, the known projects and clusters, and the time, and return the changes to write.
//!
//! | module | content |
//! |---|---|
//! | [`changes`] | Applications to create, update, delete, or leave alone |
//! | [`desired`] | desired Applications and preserved fields |
//! | [`ownership`] | owner of an Application |
//! | [`sync_policy`] | allowed changes to Applications |
//! | [`deletion_limit`] | limit on simultaneous deletions |
//! | [`references`] | checks that projects and clusters exist |
//! | [`deletion_order`] | order of deletions |
//! | [`rollout_steps`] | conversion of steps for the state machines |
//! | [`rollout`] | rules for starting progressive syncs, and their inputs |
//! | [`deletion`] | deletion of ApplicationSets |
//! | [`deletion_progress`] | next action of a deletion, next to rollouts and ordered deletions |
//! | [`teardown_steps`] | rules for starting ordered deletions, and their inputs |
//! | [`foreign_deletions`] | deletions of Applications by other clients |
//! | [`preview`] | preview of progressive syncs and deletions |
//! | [`change_preview`] | preview of the changes to each Application |
//! | [`reconcile_schedule`] | state machine that decides when to reconcile, delete and look up machines |
//! | [`pass_results`] | results of reconcile passes |
//! | [`requeue`] | time of the next reconciliation |
//! | [`retry`] | requests to restart a finished rollout or deletion |
//! | [`triggers`] | changes that trigger a reconciliation |
//! | [`ignored`] | settings that have no effect |
//! | [`strategy_problems`] | errors in the steps, the deletion order and the deletion limit |
//! | [`status`] | status of an ApplicationSet |
//! | [`status_schedule`] | times to compute and write the status |

pub mod change_preview;
pub mod changes;
pub mod deletion;
pub mod deletion_limit;
pub mod deletion_order;
pub mod deletion_progress;
pub mod desired;
pub mod foreign_deletions;
mod generators;
pub mod ignored;
mod max_deletions;
mod output;
pub mod ownership;
pub mod pass_results;
pub mod preview;
pub mod reconcile_schedule;
pub mod references;
pub mod requeue;
pub mod retry;
pub mod rollout;
pub mod rollout_steps;
pub mod status;
pub mod status_schedule;
mod strategy_problems;
pub mod sync_policy;
pub mod teardown_steps;
pub mod triggers;
mod webhook_matching;

pub use strategy_problems::strategy_problems;
