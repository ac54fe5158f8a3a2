//! The durable operation log.

mod api;

pub use api::{Append, Compacted, Damage, Loaded, LogError, OperationLog, Summary};
