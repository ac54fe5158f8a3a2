//! Shards of the operation log that this process owns.

use std::fmt::Display;

pub use tidegate_oplog::OwnedShards;
use tidegate_oplog::Shard;

use crate::error::ServiceError;

/// Checks that this process owns the shard of an Application, an ApplicationSet or an operation. `subject` is its name for
/// messages.
///
/// # Errors
///
/// Returns [`ServiceError::OtherReplica`] if another replica owns the shard.
pub fn check_owned(
    owned: &OwnedShards,
    subject: impl Display,
    shard: impl FnOnce() -> Shard,
) -> Result<(), ServiceError> {
    let OwnedShards::Only(shards) = owned else { return Ok(()) };
    let shard = shard();
    match shards.contains(&shard) {
        true => Ok(()),
        false => Err(ServiceError::OtherReplica { subject: subject.to_string(), shard }),
    }
}
