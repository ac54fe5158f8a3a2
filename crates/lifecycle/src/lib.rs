//! Tidegate's state machines. They don't use clocks, I/O, async or randomness.
//!
//! A [`Machine`] has a state, events, and pure functions that connect them:
//!
//! * [`decide`](Machine::decide): an input and the state → events, or a rejection
//! * [`advance`](Machine::advance): the state and the time → events of automatic transitions
//! * [`apply`](Machine::apply): the state and an event → the next state
//! * [`outstanding`](Machine::outstanding): the state and the time → the outstanding commands
//!
//! [`Driver`] is the loop around these functions. Its documentation states the contract in numbered steps.
//! [`Runner`] does the bookkeeping around a running driver: commands in flight, subscriptions and waiting
//! callers. [`Effects`] executes the commands. The actors, the simulation and the tests use the same driver
//! and runner with different effects.
//!
//! The machines are:
//!
//! * [`operation::SyncOperation`]: a sync
//! * [`rollout::ProgressiveSync`]: a progressive sync of an ApplicationSet's Applications
//! * [`teardown::OrderedDeletion`]: an ordered deletion of an ApplicationSet's Applications

pub mod fleet;
pub mod operation;
pub mod rollout;
pub mod teardown;

mod driver;
mod machine;
mod names;
mod next_action;
mod runner;

pub use driver::{
    Batch, Driver, DriverError, EVENTS_MAX, LAZY_EVENT_WAIT_MAX, MachineBatch, MachineDriverError,
    SNAPSHOT_INTERVAL_MIN, STATUS_EVENT_WAIT_MAX,
};
pub use machine::{AffectedSubjects, IllegalEvent, Machine, Outstanding, Urgency};
pub use next_action::NextAction;
pub use runner::{
    ALARM_INTERVAL_MIN, Arrival, Effects, Inbox, MachineRunnerError, Outbox, Runner, RunnerError,
    RunnerStatus,
};
