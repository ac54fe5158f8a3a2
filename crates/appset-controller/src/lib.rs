//! Controller for ApplicationSets. It creates, updates and deletes the generated Applications, syncs them
//! step by step, and deletes them in order.
//!
//! ```text
//! AppSetStore ──▶ AppSetSupervisor ──links, restarts──▶ ApplicationSetActor, one per ApplicationSet
//!                 ▲       ▲                          │ passes (`reconcile`): generate, compare, write
//!      Applications    repositories                  │ starts and informs machines of the engine
//!      changed         moved                         ▼
//!                        `rollout_effects`, `teardown_effects` ──▶ actors of the Applications
//! ```
//!
//! The `applicationset` crate makes the decisions. Machines perform long-running work and record each part
//! before starting it. All other work is safe to repeat.

mod actor;
mod appset_cache;
mod live_inputs;
mod member_status;
mod members;
mod messages;
mod orphaned_deletions;
mod reconcile;
mod redact;
mod rollout_effects;
mod rollout_preview;
mod same_manifests;
mod service;
mod shared;
mod subscriptions;
mod supervisor;
mod teardown_effects;
mod writes;

use std::sync::Arc;

use ractor::{Actor, ActorRef};
use tidegate_app_controller::ApplicationService;
use tidegate_applicationset::status::{ConditionReason, ReconcileFailure};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_executor::EngineError;
use tidegate_lifecycle::rollout::Options as Cases;
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::StreamKind;
use tidegate_oplog::Lookup;
use tidegate_state::error::ServiceError;
use tidegate_state::owned_shards::OwnedShards;
use tidegate_stores::appsets::AppSetStore;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use self::appset_cache::AppSetCache;
use self::messages::AppSetSupervisorMessage;
use self::shared::AppSetShared;
use self::supervisor::AppSetSupervisor;

pub use appset_cache::{AppSetMetrics, AppSetSearchResult};
pub use reconcile::to_appset_output;
pub use redact::redact_appset;
pub use rollout_preview::RolloutPreview;
pub use service::{AppSetService, summarize_application};
pub use tidegate_applicationset::sync_policy::AppSetRuleOptions as PolicyOptions;

/// Options that apply to all ApplicationSets of a process.
#[derive(Clone, Debug, Default)]
pub struct AppSetOptions {
    /// Permitted changes to Applications, and intervals between passes.
    pub policy: AppSetRuleOptions,
    /// Defaults for rollout options that an ApplicationSet doesn't set.
    pub cases: Cases,
    /// True if Git file patterns follow the new globbing rules.
    pub new_globbing: bool,
}

/// All managed ApplicationSets of a process.
pub struct AppSetController {
    service: AppSetService,
    supervisor: ActorRef<AppSetSupervisorMessage>,
    /// Tasks that send messages to the supervisor. Dropping this value aborts them.
    _feed_tasks: JoinSet<()>,
}

impl AppSetController {
    /// Starts the controller for a store's ApplicationSets. Their Applications must already be managed.
    /// Resumes rollouts and teardowns that are open in the log, and returns once all existing ApplicationSets
    /// are loaded.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped.
    pub async fn start(
        applications: ApplicationService,
        store: Arc<dyn AppSetStore>,
        options: AppSetOptions,
    ) -> Result<Self, ServiceError> {
        let AppSetOptions { mut policy, cases, new_globbing } = options;
        policy.preserved_labels.extend(store.own_labels().iter().map(|label| (*label).to_owned()));
        let owned_shards = applications.shared.owned_shards.borrow().clone();
        if owned_shards != OwnedShards::All {
            store.set_owned_shards(owned_shards.clone());
        }
        let mut events = store.watch();
        let generator_options = tidegate_generate::Options { new_globbing, now: None };
        let shared = Arc::new(AppSetShared {
            applications: Arc::clone(&applications.shared),
            supervisor: applications.supervisor.clone(),
            store,
            owned_shards: watch::Sender::new(owned_shards),
            options: policy,
            cases,
            generator_options,
            cache: AppSetCache::default(),
        });
        // Subscribe before the first pass, so that no change is missed.
        let mut changes = shared.applications.application_cache.subscribe();
        let mut told = shared.applications.push_events.subscribe();
        let mut clusters = shared.applications.destinations.subscribe();
        let (settled, is_settled) = oneshot::channel();
        let arguments = (Arc::clone(&shared), settled);
        let (supervisor, _) =
            Actor::spawn(None, AppSetSupervisor, arguments).await.map_err(|_| EngineError::Stopped)?;
        let mut feeding = JoinSet::new();
        let to = supervisor.clone();
        feeding.spawn(async move {
            while let Some(event) = events.recv().await {
                drop(to.send_message(AppSetSupervisorMessage::Store(event)));
            }
        });
        let to = supervisor.clone();
        feeding.spawn(async move {
            loop {
                let message = match changes.recv().await {
                    Ok(key) => AppSetSupervisorMessage::MemberChanged(key),
                    Err(RecvError::Lagged(_)) => AppSetSupervisorMessage::EventsLost,
                    Err(RecvError::Closed) => return,
                };
                drop(to.send_message(message));
            }
        });
        let to = supervisor.clone();
        feeding.spawn(async move {
            loop {
                match told.recv().await {
                    Ok(told) => drop(to.send_message(AppSetSupervisorMessage::WebhookEvent(told))),
                    // A missed webhook event only causes a delay, because the Applications are regenerated
                    // regularly.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
        let to = supervisor.clone();
        feeding.spawn(async move {
            while clusters.changed().await.is_ok() {
                drop(to.send_message(AppSetSupervisorMessage::ClustersChanged));
            }
        });
        is_settled.await.map_err(|_| EngineError::Stopped)?;
        applications.mark_appsets_processed();
        let service = AppSetService::new(shared, applications, supervisor.clone());
        Ok(Self { service, supervisor, _feed_tasks: feeding })
    }

    /// Returns the interface for queries and requests.
    pub fn service(&self) -> AppSetService {
        self.service.clone()
    }

    /// Manages only the ApplicationSets in these shards from now on. Returns once the actors of all other ApplicationSets
    /// have stopped. The actors of gained ApplicationSets start once the ApplicationSets have been read.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped.
    pub async fn set_owned_shards(&self, owned: OwnedShards) -> Result<(), ServiceError> {
        let shared = &self.service.shared;
        let mut current = shared.owned_shards.subscribe();
        shared.store.set_owned_shards(owned.clone());
        tokio::select! {
            _ = current.wait_for(|current| *current == owned) => Ok(()),
            _ = self.supervisor.wait(None) => Err(EngineError::Stopped.into()),
        }
    }

    /// Stops the rollouts and deletions outside these shards.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine has stopped, or if a machine doesn't stop in time.
    pub async fn stop_machines_outside(&self, owned: &OwnedShards) -> Result<(), ServiceError> {
        let engine = &self.service.shared.applications.engine;
        let open = Lookup::all().and_open();
        let rollouts =
            engine.list_machines::<rollout::Event>(open.clone().and_kind(StreamKind::ROLLOUT)).await?;
        let teardowns = engine.list_machines::<teardown::Event>(open.and_kind(StreamKind::TEARDOWN)).await?;
        let rollouts = rollouts.into_iter().map(|entry| (entry.stream, entry.shard));
        let teardowns = teardowns.into_iter().map(|entry| (entry.stream, entry.shard));
        let lost = rollouts.chain(teardowns).filter(|(_, shard)| !owned.contains(*shard));
        match engine.stop_machines(lost.map(|(stream, _)| stream)).await {
            true => Ok(()),
            false => Err(ServiceError::refused(
                "a rollout or deletion of another replica's ApplicationSet has not stopped in time; restart this service",
            )),
        }
    }

    /// Stops all actors. None of them is still writing once this returns. Running machines resume at the next
    /// start.
    pub async fn stop(self) {
        let _ = self.supervisor.stop_and_wait(None, None).await;
    }
}

fn write_failure(reason: ConditionReason, message: &str) -> ReconcileFailure {
    ReconcileFailure { reason, message: message.to_owned() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod unchanged_tests;

#[cfg(test)]
mod applications;
