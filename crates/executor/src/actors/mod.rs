//! The actors. Each is a shell: mailbox, timers and supervision around something pure.
//!
//! ```text
//! Engine ──▶ Supervisor ──spawns, restarts──▶ OperationActor (one per operation; holds a Driver)
//!                │                               │  batches ▲ durable        │ commands ▲ answers, sights
//!                ▼                               ▼          │                ▼          │
//!            everything stops                 LogActor (group commit)     ClusterActor (one per destination)
//! ```

pub(crate) mod cluster;
pub(crate) mod log;
pub(crate) mod operation;
pub(crate) mod supervisor;
