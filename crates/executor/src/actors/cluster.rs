//! The cluster actor: one per destination. It bounds the calls on their way and shares the watches.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_model::OperationId;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::extend::Extensions;
use crate::limits::Limited;
use crate::shared::LogFailure;
use crate::watches::{Subscription, Watched, Watches};

/// Work with the cluster; it reports its end by itself.
pub(crate) type Job = Box<dyn FnOnce(Arc<dyn Cluster>) -> BoxFuture<'static, ()> + Send>;

/// A message to a cluster actor.
pub(crate) enum ClusterMessage {
    /// Do this as soon as there is room, for as long as the actor that wants it is there.
    Run { job: Job, alive: watch::Receiver<()> },
    /// Report what is seen of an object, beginning now.
    Watch(Subscription),
    /// No more of that.
    Unwatch(OperationId, Watched),
    /// No more of anything for this operation.
    Forget(OperationId),
}

pub(crate) struct ClusterActor;

/// What a cluster actor needs.
pub(crate) struct ClusterArguments {
    pub cluster: Arc<dyn Cluster>,
    pub clock: Arc<dyn Clock>,
    pub extensions: Arc<Extensions>,
    pub health: HealthRules,
    /// How many calls may be on their way at once.
    pub in_flight: usize,
    pub log_failure: LogFailure,
}

pub(crate) struct ClusterState {
    cluster: Arc<dyn Cluster>,
    permits: Arc<Semaphore>,
    log_failure: LogFailure,
    /// Owned, so that no job outlives the actor.
    jobs: JoinSet<()>,
    watches: Watches,
}

impl Actor for ClusterActor {
    type Msg = ClusterMessage;
    type State = ClusterState;
    type Arguments = ClusterArguments;

    async fn pre_start(
        &self,
        _: ActorRef<ClusterMessage>,
        arguments: ClusterArguments,
    ) -> Result<ClusterState, ActorProcessingErr> {
        let ClusterArguments { cluster, clock, extensions, health, in_flight, log_failure } = arguments;
        let cluster: Arc<dyn Cluster> = Arc::new(Limited(cluster));
        let permits = Arc::new(Semaphore::new(in_flight.max(1)));
        let watches = Watches::new(Arc::clone(&cluster), clock, extensions, health, Arc::clone(&permits));
        Ok(ClusterState { cluster, permits, log_failure, jobs: JoinSet::new(), watches })
    }

    async fn handle(
        &self,
        _: ActorRef<ClusterMessage>,
        message: ClusterMessage,
        state: &mut ClusterState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ClusterMessage::Run { job, alive } => state.run(job, alive),
            ClusterMessage::Watch(subscription) => state.watches.subscribe(subscription),
            ClusterMessage::Unwatch(operation, what) => state.watches.unsubscribe(operation, &what),
            ClusterMessage::Forget(operation) => state.watches.forget(operation),
        }
        Ok(())
    }
}

impl ClusterState {
    fn run(&mut self, job: Job, mut alive: watch::Receiver<()>) {
        while self.jobs.try_join_next().is_some() {}
        let (permits, cluster) = (Arc::clone(&self.permits), Arc::clone(&self.cluster));
        let log_failure = Arc::clone(&self.log_failure);
        self.jobs.spawn(async move {
            let work = async {
                // The semaphore is never closed; were it, the job would be dropped and its guard would say so.
                if let Ok(_permit) = permits.acquire_owned().await
                    && log_failure.get().is_none()
                {
                    job(cluster).await;
                }
            };
            // A call of an actor that has failed must not reach the cluster after the next actor has made it again:
            // a hook that has ended and was deleted would be created once more.
            tokio::select! {
                biased;
                _ = alive.changed() => {}
                () = work => {}
            }
        });
    }
}
