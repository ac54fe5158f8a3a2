//! The state machines of Tidegate, without clock, I/O, async or randomness.
//!
//! A [`Machine`] has a state, facts, and pure functions between them:
//!
//! * [`decide`](Machine::decide): an input and the state → facts, or a refusal
//! * [`follow`](Machine::follow): the state and the time → facts that follow by themselves
//! * [`evolve`](Machine::evolve): the state and a fact → the next state
//! * [`pending`](Machine::pending): the state → the commands the world still owes
//!
//! [`Driver`] is the loop around them; its contract is written there in numbered steps. [`Shell`] is all the bookkeeping
//! around a driver at work: what is on its way, what is kept up, who waits; [`Hands`] do what is to be done in the world.
//! The actors, the simulation and the tests differ in their hands alone. There are
//! [`operation::SyncOperation`], a sync; [`rollout::Progressive`], a progressive sync of the Applications of an
//! ApplicationSet; and [`teardown::OrderedDeletion`], an ordered deletion of them.

pub mod fleet;
pub mod operation;
pub mod rollout;
pub mod teardown;

mod driver;
mod machine;
mod shell;

pub use driver::{
    Batch, BatchOf, Driver, DriverError, ErrorOf, FACTS_MAX, LAZY_WAIT, SNAPSHOT_EVERY, TOLD_WAIT,
};
pub use machine::{Changed, Illegal, Machine, Owed, Urgency};
pub use shell::{Arrival, FailureOf, Hands, Inbox, Outbox, RING_AGAIN, Shell, ShellError, Turn};
