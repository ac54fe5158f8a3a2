//! Machines other than operations, at work on the engine's log: a rollout, a teardown, one of your own.
//!
//! ```text
//! Supervisor ──links──▶ MachineSupervisor ──links, restarts──▶ MachineActor ──▶ Shell<M, MachineHands<W>> ──▶ Work
//!                              │                                  ▲   │
//!                              └─▶ Line ◀─ Running (whoever asks) ┘   └─▶ LogActor, alarm
//! ```
//!
//! Of a machine of one's own only [`Work`] is to be written: what it is owed, carried out. Facts are made durable together
//! with those of operations, the alarm follows the engine's clock, and an actor that fails goes on from the log, as those of
//! operations do. Each machine has a supervisor of its own, which knows its types; the engine's knows that there are some.

mod actor;
mod engine;
mod error;
mod hands;
mod line;
mod message;
mod post;
mod read;
mod registry;
mod running;
mod supervisor;
mod work;

#[cfg(test)]
mod tests;

pub use self::error::MachineError;
pub use self::post::Post;
pub(crate) use self::registry::Machines;
pub use self::running::Running;
pub use self::work::{Durable, SummaryOf, Work};
