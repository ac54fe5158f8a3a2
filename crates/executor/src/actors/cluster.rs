//! The cluster actor, one per destination. It shares watches among operations; calls bypass it and go
//! directly to the cluster.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_model::OperationId;
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::extensions::Extensions;
use crate::watches::{Subscription, WatchTarget, Watches};

/// Message to a cluster actor.
pub(crate) enum ClusterMessage {
    /// Start reporting observations of an object.
    Watch(Subscription),
    /// Stop reporting observations of an object.
    Unwatch(OperationId, WatchTarget),
    /// Drop all subscriptions of an operation.
    UnwatchOperation(OperationId),
    /// Use these health rules from now on. Drops all watches, and the operations subscribe again.
    SetHealthRules(HealthRules),
    /// Panic, to simulate a bug in this actor.
    #[cfg(test)]
    Panic,
}

pub(crate) struct ClusterActor;

/// Startup arguments for a cluster actor.
pub(crate) struct ClusterArguments {
    pub cluster: Arc<dyn Cluster>,
    /// Limits the number of concurrent calls.
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
            ClusterMessage::UnwatchOperation(operation) => watches.unsubscribe_all(operation),
            ClusterMessage::SetHealthRules(rules) => watches.set_health_rules(rules),
            #[cfg(test)]
            ClusterMessage::Panic => std::panic::panic_any("injected into the cluster actor"),
        }
        Ok(())
    }
}
