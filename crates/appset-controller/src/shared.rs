//! State shared by all ApplicationSets of a process.

use std::sync::Arc;

use ractor::ActorRef;
use tidegate_app_controller::{SharedState, SupervisorMessage};
use tidegate_application::AppKey;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_lifecycle::rollout::Options as Cases;
use tidegate_oplog::Shard;
use tidegate_state::error::ServiceError;
use tidegate_state::owned_shards::{OwnedShards, check_owned};
use tidegate_stores::appsets::AppSetStore;
use tokio::sync::watch;

use super::appset_cache::AppSetCache;

/// State shared by all ApplicationSets of a process.
pub struct AppSetShared {
    /// State shared by the ApplicationSets' Applications.
    pub applications: Arc<SharedState>,
    /// Supervisor of the ApplicationSets' Applications.
    pub supervisor: ActorRef<SupervisorMessage>,
    pub store: Arc<dyn AppSetStore>,
    /// Shards whose ApplicationSets this process manages.
    pub owned_shards: watch::Sender<OwnedShards>,
    /// Options that apply to all ApplicationSets.
    pub options: AppSetRuleOptions,
    /// Defaults for rollout options that an ApplicationSet doesn't set.
    pub cases: Cases,
    pub generator_options: tidegate_generate::Options,
    pub cache: AppSetCache,
}

impl AppSetShared {
    /// Returns true if this process manages an ApplicationSet.
    pub fn is_managed(&self, key: &AppKey) -> bool {
        self.owned_shards.borrow().contains_key(|| key.qualified_name())
    }

    /// Returns an error if another replica manages an ApplicationSet.
    pub fn check_managed(&self, key: &AppKey) -> Result<(), ServiceError> {
        let shard = || Shard::of_key(key.qualified_name());
        check_owned(&self.owned_shards.borrow(), format_args!("ApplicationSet {key}"), shard)
    }
}
