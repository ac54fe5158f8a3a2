//! Machines that are no operations, at work on an engine's log.

mod crash;
mod faults;
mod fleet;
mod keeping;
mod play;
mod requests;
mod stopping;
