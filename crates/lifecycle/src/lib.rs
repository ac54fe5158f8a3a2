//! The state machines of Tidegate, without clock, I/O, async or randomness.
//!
//! An operation has a state, facts, and pure functions between them:
//!
//! * [`decide`](operation::decide): an input and the state → facts, or a refusal
//! * [`follow`](operation::follow): the state and the time → facts that follow by themselves
//! * [`evolve`](operation::evolve): the state and a fact → the next state
//! * [`pending`](operation::pending): the state → the commands the world still owes
//!
//! [`Driver`] is the loop around them. It has three users: the actors, recovery, and the simulator; its contract is
//! written there in numbered steps.

pub mod operation;

mod driver;

pub use driver::{Batch, Driver, DriverError, FACTS_MAX, LAZY_WAIT, SNAPSHOT_EVERY, TOLD_WAIT};
