//! Shards of a shared log that a process owns.

use std::collections::BTreeSet;

use crate::Shard;

/// Shards of the log that this process owns. It runs the streams in these shards, and manages the Applications and
/// ApplicationSets whose new streams belong to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OwnedShards {
    /// All shards: no other process works with the same log.
    #[default]
    All,
    /// These shards. Other replicas own the rest.
    Only(BTreeSet<Shard>),
}

impl OwnedShards {
    /// Returns true if this process owns a shard.
    pub fn contains(&self, shard: Shard) -> bool {
        match self {
            Self::All => true,
            Self::Only(shards) => shards.contains(&shard),
        }
    }

    /// Returns true if this process manages the Application or ApplicationSet with this key in the log. An
    /// ApplicationSet and its Applications have the same key.
    pub fn contains_key(&self, key: impl FnOnce() -> String) -> bool {
        match self {
            Self::All => true,
            Self::Only(_) => self.contains(Shard::of_key(key())),
        }
    }
}
