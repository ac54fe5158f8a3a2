//! The durable operation log.

mod api;
mod blobs;
mod error;
mod files;
mod frame;
mod holder;
mod memory;
mod quarantine;
mod retention;
mod rules;
mod store;
mod witness;

pub use api::{Append, Compacted, Damage, Loaded, LogStats, OperationLog, Summary};
pub use error::LogError;
pub use holder::Holder;
pub use memory::{Fault, MemoryLog};
pub use store::{OpenOptions, SledLog};
