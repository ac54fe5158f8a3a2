//! The actors that operations depend on: the log's, and one for each cluster. One that ends before it is told to is started
//! again; one that keeps ending takes with it what depends on it, and that says why.

use std::sync::Arc;

use ractor::{Actor, ActorRef};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::Input;
use tidegate_model::Destination;
use tokio::time::Instant;

use super::state::{Linked, SupervisorMessage, SupervisorState};
use crate::actors::cluster::{ClusterActor, ClusterArguments, ClusterMessage};
use crate::actors::log::{LogActor, LogArguments};
use crate::actors::operation::OperationMessage;
use crate::clusters::ClusterHandle;
use crate::error::EngineError;
use crate::restarts::WINDOW;

/// How often the actor of the log, or of one cluster, may end within [`WINDOW`] and be started again.
const RESTARTS_MAX: usize = 5;

impl SupervisorState {
    /// Starts an actor that operations depend on.
    pub(super) async fn start(&mut self, myself: &ActorRef<SupervisorMessage>, part: Linked) {
        if self.stopping || self.shared.log_failure.get().is_some() {
            return;
        }
        let started = match &part {
            Linked::Log => self.start_log(myself).await,
            Linked::Cluster(destination) => self.start_cluster(myself, destination).await,
            Linked::Operation(_) => return,
        };
        if let Err(error) = started {
            self.part_failed(myself, part, &error.to_string());
        }
    }

    pub(super) async fn start_log(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
    ) -> Result<(), ractor::SpawnErr> {
        let arguments = LogArguments {
            log: Arc::clone(&self.shared.log),
            failure: Arc::clone(&self.shared.log_failure),
            turn: Arc::clone(&self.writing),
            measures: Arc::clone(&self.shared.log_actor.measures),
        };
        let (actor, _) = LogActor::spawn_linked(None, LogActor, arguments, myself.get_cell()).await?;
        self.linked.insert(actor.get_id(), Linked::Log);
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
            cluster: cluster.at_once(),
            permits: cluster.permits(),
            clock: Arc::clone(&self.shared.clock),
            extensions: Arc::clone(&self.shared.extensions),
            health: self.shared.health.now(),
        };
        let (actor, _) = ClusterActor::spawn_linked(None, ClusterActor, arguments, myself.get_cell()).await?;
        self.linked.insert(actor.get_id(), Linked::Cluster(destination.clone()));
        cluster.set_actor(Some(actor));
        // Whoever began meanwhile has not told it what to watch either.
        for child in self.running.values().filter(|child| child.destination.as_ref() == Some(destination)) {
            let _ = child.actor.send_message(OperationMessage::WatchAgain);
        }
        Ok(())
    }

    /// From now on operations may work on this cluster too.
    pub(super) async fn add_cluster(
        &mut self,
        myself: &ActorRef<SupervisorMessage>,
        destination: Destination,
        cluster: Arc<dyn Cluster>,
    ) -> Result<(), EngineError> {
        self.check_open()?;
        if self.shared.clusters.get(&destination).is_some() {
            return Err(EngineError::ClusterKnown { destination: Box::new(destination) });
        }
        let failure = Arc::clone(&self.shared.log_failure);
        let cluster = ClusterHandle::new(cluster, self.shared.in_flight, failure);
        self.shared.clusters.add(destination.clone(), cluster);
        self.start(myself, Linked::Cluster(destination)).await;
        Ok(())
    }

    /// From now on objects are judged by these rules, also those that operations wait for already.
    pub(super) fn judge_by(&self, rules: HealthRules) -> Result<(), EngineError> {
        self.check_open()?;
        self.shared.health.change(rules.clone());
        for (_, cluster) in self.shared.clusters.all() {
            cluster.tell(ClusterMessage::JudgeBy(rules.clone()));
        }
        // The watches know what the rules before made of the objects, and how much of them those had to see.
        for child in self.running.values() {
            let _ = child.actor.send_message(OperationMessage::WatchAgain);
        }
        Ok(())
    }

    /// An actor that operations depend on has ended, and was not told to.
    pub(super) fn part_failed(&mut self, myself: &ActorRef<SupervisorMessage>, part: Linked, reason: &str) {
        if self.stopping {
            // What is on its way is not recorded any more; it is found again on resume.
            return self.give_up_waiting();
        }
        if self.shared.log_failure.get().is_some() {
            return;
        }
        let restarts = self.restarts.entry(part.clone()).or_default();
        let (count, mut wait) = (restarts.count(Instant::now()), restarts.wait());
        tracing::error!(part = %part, count, reason, "an actor of the engine failed");
        if count > RESTARTS_MAX {
            let reason =
                format!("{part} failed {count} times in {} s, the last time: {reason}", WINDOW.as_secs());
            match &part {
                Linked::Cluster(destination) => {
                    self.abort_on(destination, &reason);
                    // For operations that begin later: they wait, and say so.
                    wait = WINDOW;
                }
                _ => return self.log_failed(&reason),
            }
        }
        match &part {
            Linked::Cluster(destination) => {
                if let Some(cluster) = self.shared.clusters.get(destination) {
                    cluster.set_actor(None);
                }
            }
            _ => self.shared.log_actor.set_actor(None),
        }
        let myself = myself.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            let _ = myself.send_message(SupervisorMessage::Start(part));
        });
    }

    /// Ends the operations on a cluster that cannot be watched.
    fn abort_on(&self, destination: &Destination, reason: &str) {
        for child in self.running.values().filter(|child| child.destination.as_ref() == Some(destination)) {
            let reason = reason.to_owned();
            let _ = child.actor.send_message(OperationMessage::Tell(Input::Abort { reason }));
        }
    }

    /// The log takes nothing any more.
    pub(super) fn log_failed(&mut self, reason: &str) {
        let reason = self.shared.log_failure.get_or_init(|| reason.to_owned()).clone();
        self.fail_all(&reason);
    }
}
