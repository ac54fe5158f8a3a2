//! The actors. Each is a shell: mailbox, timers and supervision around something pure.
//!
//! ```text
//! Engine ──▶ Supervisor ──links, restarts──▶ OperationActor (one per operation; holds a Driver)
//!                │                              │  batches ▲ durable     │ calls   ▲ answers  │ watches ▲ sights
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
