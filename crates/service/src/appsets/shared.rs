//! State shared by all ApplicationSets of a process.

use std::sync::Arc;

use ractor::ActorRef;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_lifecycle::rollout::Options as Cases;

use super::appset_cache::AppSetCache;
use super::store::AppSetStore;
use crate::applications::{SharedState, SupervisorMessage};

/// State shared by all ApplicationSets of a process.
pub(crate) struct AppSetShared {
    /// State shared by the ApplicationSets' Applications.
    pub applications: Arc<SharedState>,
    /// Supervisor of the ApplicationSets' Applications.
    pub supervisor: ActorRef<SupervisorMessage>,
    pub store: Arc<dyn AppSetStore>,
    /// Options that apply to all ApplicationSets.
    pub options: AppSetRuleOptions,
    /// Defaults for cases in a progressive sync that an ApplicationSet doesn't specify.
    pub cases: Cases,
    /// Generator options.
    pub generator_options: tidegate_generate::Options,
    pub cache: AppSetCache,
}
