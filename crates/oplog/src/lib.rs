//! The durable operation log.

mod api;
mod error;
mod frame;
mod memory;
mod retention;
mod rules;

pub use api::{Append, Compacted, Damage, Loaded, LogStats, OperationLog, Summary};
pub use error::LogError;
pub use memory::{Fault, MemoryLog};
