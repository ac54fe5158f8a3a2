//! The cluster actor: one per destination. It shares the watches among the operations; calls do not pass through it.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_model::OperationId;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::extend::Extensions;
use crate::watches::{Subscription, Watched, Watches};

/// A message to a cluster actor.
pub(crate) enum ClusterMessage {
    /// Report what is seen of an object, beginning now.
    Watch(Subscription),
    /// No more of that.
    Unwatch(OperationId, Watched),
    /// No more of anything for this operation.
    Forget(OperationId),
    /// Judge by these rules from now on. All watches are forgotten; they are asked for again.
    JudgeBy(HealthRules),
    /// Fail, as a fault in this actor would.
    #[cfg(test)]
    Panic,
}

pub(crate) struct ClusterActor;

/// What a cluster actor needs.
pub(crate) struct ClusterArguments {
    pub cluster: Arc<dyn Cluster>,
    /// Bounds the calls that are on their way at once.
    pub permits: Arc<Semaphore>,
    pub clock: Arc<dyn Clock>,
    pub extensions: Arc<Extensions>,
    pub health: HealthRules,
}

impl Actor for ClusterActor {
    type Msg = ClusterMessage;
    type State = Watches;
    type Arguments = ClusterArguments;

    async fn pre_start(
        &self,
        _: ActorRef<ClusterMessage>,
        arguments: ClusterArguments,
    ) -> Result<Watches, ActorProcessingErr> {
        let ClusterArguments { cluster, permits, clock, extensions, health } = arguments;
        Ok(Watches::new(cluster, clock, extensions, health, permits))
    }

    async fn handle(
        &self,
        _: ActorRef<ClusterMessage>,
        message: ClusterMessage,
        watches: &mut Watches,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ClusterMessage::Watch(subscription) => watches.subscribe(subscription),
            ClusterMessage::Unwatch(operation, what) => watches.unsubscribe(operation, &what),
            ClusterMessage::Forget(operation) => watches.forget(operation),
            ClusterMessage::JudgeBy(rules) => watches.judge_by(rules),
            #[cfg(test)]
            ClusterMessage::Panic => std::panic::panic_any("injected into the cluster actor"),
        }
        Ok(())
    }
}
