//! Actors that operations depend on: the log actor, and one actor per cluster. An actor that exits
//! unexpectedly is restarted. If it keeps failing, its dependent operations end with that failure as the
//! reason.

use std::sync::Arc;

use ractor::{Actor, ActorRef};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::Input;
use tidegate_model::Destination;
use tokio::time::Instant;

use super::state::{ActorRole, SupervisorMessage, SupervisorState};
use crate::actors::cluster::{ClusterActor, ClusterArguments, ClusterMessage};
use crate::actors::log::{LogActor, LogArguments};
use crate::actors::operation::OperationMessage;
use crate::clusters::ClusterHandle;
use crate::error::EngineError;
use crate::restarts::RESTART_WINDOW;

/// Maximum number of restarts of a log actor or cluster actor within [`RESTART_WINDOW`].
const RESTARTS_MAX: usize = 5;

impl SupervisorState {
    pub(super) async fn start_linked_actor(&mut self, myself: &ActorRef<SupervisorMessage>, part: ActorRole) {
        if self.is_stopping || self.shared.log_failure.get().is_some() {
            return;
        }
        let started = match &part {
            ActorRole::Log => self.start_log(myself).await,
            ActorRole::Cluster(destination) => self.start_cluster(myself, destination).await,
            ActorRole::Operation(_) => return,
        };
        if let Err(error) = started {
            self.handle_linked_actor_failure(myself, part, &error.to_string());
        }
    }

    pub(super) async fn start_log(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
    ) -> Result<(), ractor::SpawnErr> {
        let arguments = LogArguments {
            log: Arc::clone(&self.shared.log),
            failure: Arc::clone(&self.shared.log_failure),
            write_permit: Arc::clone(&self.write_permit),
            metrics: Arc::clone(&self.shared.log_actor.metrics),
        };
        let (actor, _) = LogActor::spawn_linked(None, LogActor, arguments, myself.get_cell()).await?;
        self.actor_roles.insert(actor.get_id(), ActorRole::Log);
        self.shared.log_actor.set_actor(Some(actor));
        Ok(())
    }

    pub(super) async fn start_cluster(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        destination: &Destination,
    ) -> Result<(), ractor::SpawnErr> {
        let Some(cluster) = self.shared.clusters.get(destination) else { return Ok(()) };
        let arguments = ClusterArguments {
            cluster: cluster.connection_with_timeouts(),
            permits: cluster.permits(),
            clock: Arc::clone(&self.shared.clock),
            extensions: Arc::clone(&self.shared.extensions),
            health: self.shared.health.get(),
        };
        let (actor, _) = ClusterActor::spawn_linked(None, ClusterActor, arguments, myself.get_cell()).await?;
        self.actor_roles.insert(actor.get_id(), ActorRole::Cluster(destination.clone()));
        cluster.set_actor(Some(actor));
        // Notify all operations: those started since the failure don't have subscriptions either.
        for child in self.running.values().filter(|child| child.destination.as_ref() == Some(destination)) {
            let _ = child.actor.send_message(OperationMessage::Resubscribe);
        }
        Ok(())
    }

    pub(super) async fn add_cluster(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        destination: Destination,
        cluster: Arc<dyn Cluster>,
    ) -> Result<(), EngineError> {
        self.check_can_start()?;
        if self.shared.clusters.get(&destination).is_some() {
            return Err(EngineError::DuplicateCluster { destination: Box::new(destination) });
        }
        let cluster = ClusterHandle::new(cluster, self.shared.in_flight);
        self.shared.clusters.add(destination.clone(), cluster);
        self.start_linked_actor(myself, ActorRole::Cluster(destination)).await;
        Ok(())
    }

    /// Changes the health rules, also for objects that operations are already waiting for.
    pub(super) fn set_health_rules(&self, rules: HealthRules) -> Result<(), EngineError> {
        self.check_can_start()?;
        self.shared.health.set(rules.clone());
        for (_, cluster) in self.shared.clusters.all() {
            cluster.send(ClusterMessage::SetHealthRules(rules.clone()));
        }
        // Restart the subscriptions. The old watches have evaluated objects with the old rules, and may have
        // fetched fewer fields.
        for child in self.running.values() {
            let _ = child.actor.send_message(OperationMessage::Resubscribe);
        }
        Ok(())
    }

    /// Handles the unexpected exit of an actor that operations depend on.
    pub(super) fn handle_linked_actor_failure(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        part: ActorRole,
        reason: &str,
    ) {
        if self.is_stopping {
            // The results of work in flight can't be recorded. Resumed operations will observe them again.
            return self.answer_waiters();
        }
        if self.shared.log_failure.get().is_some() {
            return;
        }
        let restarts = self.restarts.entry(part.clone()).or_default();
        let (count, mut wait) = (restarts.record_failure(Instant::now()), restarts.delay());
        tracing::error!(part = %part, count, reason, "an actor of the engine failed");
        if count > RESTARTS_MAX {
            let reason = format!(
                "{part} failed {count} times in {} s; last error: {reason}",
                RESTART_WINDOW.as_secs()
            );
            match &part {
                ActorRole::Cluster(destination) => {
                    self.abort_operations_on(destination, &reason);
                    // Operations that start in the meantime wait for the restart.
                    wait = RESTART_WINDOW;
                }
                _ => return self.handle_log_failure(&reason),
            }
        }
        match &part {
            ActorRole::Cluster(destination) => {
                if let Some(cluster) = self.shared.clusters.get(destination) {
                    cluster.set_actor(None);
                }
            }
            _ => self.shared.log_actor.set_actor(None),
        }
        let myself = myself.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            let _ = myself.send_message(SupervisorMessage::StartLinkedActor(part));
        });
    }

    /// Aborts the operations on a cluster that can't be watched.
    fn abort_operations_on(&self, destination: &Destination, reason: &str) {
        for child in self.running.values().filter(|child| child.destination.as_ref() == Some(destination)) {
            let reason = reason.to_owned();
            let _ = child.actor.send_message(OperationMessage::Input(Input::Abort { reason }));
        }
    }

    /// Handles a log that rejects all further records.
    pub(super) fn handle_log_failure(&mut self, reason: &str) {
        let reason = self.shared.log_failure.get_or_init(|| reason.to_owned()).clone();
        self.fail_all(&reason);
    }
}
