//! Shards of the operation log whose Applications and ApplicationSets this process manages.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_app_controller::ManagedApplications;
use tidegate_appset_controller::AppSetController;
use tidegate_executor::Engine;
use tidegate_oplog::{Ownership, PostgresLog, Shard};
use tidegate_state::error::ServiceError;
use tidegate_state::owned_shards::OwnedShards;
use tidegate_state::shared_log::blocking;

/// Interval at which a replica takes part in the distribution of the shards. The log recognizes dead replicas at this
/// interval.
const SHARE_INTERVAL: Duration = Duration::from_secs(1);

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
    /// Shares the work with the other replicas of the log. Manages the Applications and ApplicationSets in the shards
    /// that this process owns, and hands over shards that other replicas ask for. While the database is unavailable,
    /// nothing changes. Returns the reason once this process can't manage anything anymore.
    pub async fn share(&self, log: &Arc<PostgresLog>) -> ServiceError {
        let mut managed = BTreeSet::new();
        loop {
            match self.share_once(log, &mut managed).await {
                Ok(()) => {}
                Err(error) if error.is_outage() => {}
                Err(error) => return error,
            }
            tokio::time::sleep(SHARE_INTERVAL).await;
        }
    }

    async fn share_once(
        &self,
        log: &Arc<PostgresLog>,
        managed: &mut BTreeSet<Shard>,
    ) -> Result<(), ServiceError> {
        let shared = Arc::clone(log);
        let Ownership { owned, requested, .. } = blocking(move || shared.share_shards()).await?;
        let kept: BTreeSet<Shard> = owned.difference(&requested).copied().collect();
        if !managed.is_subset(&kept) {
            let left = managed.intersection(&kept).copied().collect();
            self.release_others(&left).await?;
            *managed = left;
        }
        if !requested.is_empty() {
            let shared = Arc::clone(log);
            blocking(move || shared.hand_over(requested)).await?;
        }
        if *managed != kept {
            self.manage(&kept).await?;
            *managed = kept;
        }
        Ok(())
    }

    /// Stops managing the Applications and ApplicationSets outside these shards. Afterwards, other replicas may own their
    /// shards.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped or its log has failed, or if a rollout or deletion doesn't stop in time.
    /// The shards must then not be handed over.
    pub async fn release_others(&self, kept: &BTreeSet<Shard>) -> Result<(), ServiceError> {
        let kept = OwnedShards::Only(kept.clone());
        // Stop the Applications first, because their deletions wait for the ApplicationSets.
        self.applications.set_owned_shards(kept.clone()).await?;
        self.appsets.set_owned_shards(kept.clone()).await?;
        self.appsets.stop_machines_outside(&kept).await?;
        Ok(self.engine.set_owned_shards(kept, self.applications.service().shared.shard_of()).await?)
    }

    /// Manages the Applications and ApplicationSets in these shards, which must all be owned by this process, and resumes
    /// the operations in these shards.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped or its log has failed.
    pub async fn manage(&self, owned: &BTreeSet<Shard>) -> Result<(), ServiceError> {
        let owned = OwnedShards::Only(owned.clone());
        self.engine.set_owned_shards(owned.clone(), self.applications.service().shared.shard_of()).await?;
        // Start the ApplicationSets first, because they determine the order in which their Applications are deleted.
        self.appsets.set_owned_shards(owned.clone()).await?;
        self.applications.set_owned_shards(owned).await?;
        self.applications.resume_operations().await
    }
}
