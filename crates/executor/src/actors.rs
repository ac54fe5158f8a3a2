//! The engine's actors. Each actor adds a mailbox, timers and supervision to a pure state machine.
//!
//! ```text
//! Engine ──▶ Supervisor ──links, restarts──▶ OperationActor (one per operation, with a Driver)
//!                │                              │  batches ▲ durable     │ calls   ▲ answers  │ watches ▲ observations
//!                ├──links, restarts─────────▶ LogActor (group commit)    ▼         │          ▼         │
//!                │                                                      ClusterHandle ─────▶ ClusterActor
//!                └──links, restarts─────────────────────────────────────────────────────────▶  (one per destination)
//! ```

pub(crate) mod cluster;
pub(crate) mod log;
pub(crate) mod operation;
pub(crate) mod supervisor;

#[cfg(test)]
mod tests;
