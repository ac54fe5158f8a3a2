//! Machines other than operations, running on an engine's log.

mod compaction;
mod crash;
mod faults;
mod fleet;
mod requests;
mod rollout_engine;
mod shutdown;
