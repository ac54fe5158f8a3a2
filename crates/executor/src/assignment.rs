//! Streams of a shared log that an engine runs.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tidegate_oplog::{OwnedShards, Shard};

/// Function that returns the shard of an application's new operations.
type ShardOf = Arc<dyn Fn(&str) -> Shard + Send + Sync>;

/// Streams that this engine runs: those in the shards that it owns, and no others. A stream never leaves the shard in which
/// it was started, even if the application's new operations belong to a different shard by now.
pub(crate) struct CurrentAssignment(RwLock<Assignment>);

struct Assignment {
    owned: OwnedShards,
    shard_of: ShardOf,
}

impl Default for CurrentAssignment {
    fn default() -> Self {
        Self(RwLock::new(Assignment {
            owned: OwnedShards::All,
            shard_of: Arc::new(|name: &str| Shard::of_key(name)),
        }))
    }
}

impl CurrentAssignment {
    pub fn set(&self, owned: OwnedShards, shard_of: ShardOf) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Assignment { owned, shard_of };
    }

    fn read(&self) -> RwLockReadGuard<'_, Assignment> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if this engine runs the streams in a shard.
    pub fn owns(&self, shard: Shard) -> bool {
        self.read().owned.contains(shard)
    }

    /// Returns the shard of an application's new operations.
    pub fn shard_of(&self, application: &str) -> Shard {
        let shard_of = Arc::clone(&self.read().shard_of);
        shard_of(application)
    }
}
