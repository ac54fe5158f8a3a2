//! Shards of the operation log whose Applications and ApplicationSets this process manages.

use std::collections::BTreeSet;

use tidegate_oplog::Shard;

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
}
