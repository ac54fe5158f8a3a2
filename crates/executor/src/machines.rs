//! Machines other than operations that use the engine's log: a rollout, a teardown, or a custom machine.
//!
//! ```text
//! Supervisor ──links──▶ MachineSupervisor ──links, restarts──▶ MachineActor ──▶ Runner<M, EngineEffects<W>> ──▶ W
//!                              │                                     ▲   │
//!                              └─▶ MachineHandle ◀─ RunningMachine ──┘   └─▶ LogActor, alarm
//! ```
//!
//! A custom machine only needs an implementation of [`MachineEffects`] to execute its commands. It works like
//! an operation. Its events become durable together with all other events, and its timers use the engine's
//! clock. If an actor fails, a new actor continues from the log. Each machine has its own supervisor, generic
//! over the machine's types, so that the engine's supervisor doesn't depend on them.

mod actor;
mod engine;
mod engine_effects;
mod error;
mod machine_effects;
mod machine_handle;
mod machine_sender;
mod message;
mod read;
mod registry;
mod running_machine;
mod supervisor;

#[cfg(test)]
mod tests;

pub use self::error::MachineError;
pub use self::machine_effects::{DurableMachine, MachineEffects, SummaryOf};
pub use self::machine_sender::MachineSender;
pub(crate) use self::registry::MachineRegistry;
pub use self::running_machine::RunningMachine;
