//! Shards of the operation log whose Applications and ApplicationSets this process manages.

use std::collections::BTreeSet;
use std::fmt::Display;

use tidegate_oplog::Shard;

use crate::error::ServiceError;

/// Shards whose Applications and ApplicationSets this process manages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OwnedShards {
    /// All shards: no other process manages the same Applications.
    #[default]
    All,
    /// These shards. Other replicas own the rest.
    Only(BTreeSet<Shard>),
}

impl OwnedShards {
    /// Returns true if this process manages the Application or ApplicationSet with this key in the log. An
    /// ApplicationSet and its Applications have the same key.
    pub fn contains(&self, key: impl FnOnce() -> String) -> bool {
        match self {
            Self::All => true,
            Self::Only(shards) => shards.contains(&Shard::of_key(key())),
        }
    }

    /// Checks that this process manages an Application or ApplicationSet. `subject` is its name for messages.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError::OtherReplica`] if another replica manages it.
    pub fn check(&self, subject: impl Display, key: impl FnOnce() -> String) -> Result<(), ServiceError> {
        let Self::Only(shards) = self else { return Ok(()) };
        let shard = Shard::of_key(key());
        match shards.contains(&shard) {
            true => Ok(()),
            false => Err(ServiceError::OtherReplica { subject: subject.to_string(), shard }),
        }
    }
}
