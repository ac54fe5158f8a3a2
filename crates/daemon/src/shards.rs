//! Shards of the operation log whose Applications and ApplicationSets this process manages.

use std::collections::BTreeSet;

use tidegate_app_controller::ManagedApplications;
use tidegate_application::AppKey;
use tidegate_appset_controller::AppSetController;
use tidegate_executor::{Engine, EngineError};
use tidegate_oplog::Shard;
use tidegate_state::error::ServiceError;
use tidegate_state::owned_shards::OwnedShards;

/// Controllers and engine of a process that shares the log with other replicas.
pub struct ShardedControllers<'c> {
    /// Engine that runs the operations.
    pub engine: &'c Engine,
    /// Applications.
    pub applications: &'c ManagedApplications,
    /// ApplicationSets.
    pub appsets: &'c AppSetController,
}

impl ShardedControllers<'_> {
    /// Stops managing the Applications and ApplicationSets outside these shards. Once this returns, nothing is running
    /// for them anymore, and other replicas may own their shards.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped or its log has failed.
    pub async fn release_others(&self, kept: &BTreeSet<Shard>) -> Result<(), ServiceError> {
        let kept = OwnedShards::Only(kept.clone());
        // Stop the Applications first, because their deletions wait for the ApplicationSets.
        self.applications.set_owned_shards(kept.clone()).await?;
        self.appsets.set_owned_shards(kept.clone()).await?;
        Ok(self.set_managed(kept).await?)
    }

    /// Manages the Applications and ApplicationSets in these shards, which must all be owned by this process, and resumes
    /// their operations.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped or its log has failed.
    pub async fn manage(&self, owned: &BTreeSet<Shard>) -> Result<(), ServiceError> {
        let owned = OwnedShards::Only(owned.clone());
        self.set_managed(owned.clone()).await?;
        // Start the ApplicationSets first, because they determine the order in which their Applications are deleted.
        self.appsets.set_owned_shards(owned.clone()).await?;
        self.applications.set_owned_shards(owned).await
    }

    async fn set_managed(&self, owned: OwnedShards) -> Result<(), EngineError> {
        let shared = self.applications.service().shared;
        let log_key = move |name: &str| shared.application_cache.log_key(&AppKey::parse(name));
        self.engine.set_managed(move |name| owned.contains(|| log_key(name))).await
    }
}
