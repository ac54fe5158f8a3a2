//! The durable operation log.

mod api;
mod memory;

pub use api::{Append, Compacted, Damage, Loaded, LogError, OperationLog, Summary};
pub use memory::MemoryLog;
