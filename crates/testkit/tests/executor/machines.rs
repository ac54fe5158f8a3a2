//! Machines other than operations that run on an engine's log.

mod compaction;
mod crash;
mod faults;
mod fleet;
mod requests;
mod rollout_engine;
mod shutdown;
