//! Connections to clusters. Calls go directly to the cluster, with limited concurrency. Watches go through
//! the cluster's actor, which shares them among operations.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use ractor::ActorRef;
use tidegate_cluster::Cluster;
use tidegate_model::Destination;
use tokio::sync::{Semaphore, watch};

use crate::actors::cluster::ClusterMessage;
use crate::call_timeouts::ClusterWithTimeouts;
use crate::policy_check::ScopeCache;

/// Handle to a cluster. Lives as long as the engine, even if the cluster's actor is replaced.
pub(crate) struct ClusterHandle {
    /// Connection for status queries, which don't wait for a permit.
    connection: Arc<dyn Cluster>,
    /// The same connection, with timeouts.
    connection_with_timeouts: Arc<dyn Cluster>,
    /// Limit on the concurrent work of all operations.
    permits: Arc<Semaphore>,
    scopes: Arc<ScopeCache>,
    /// `None` while the actor is restarting.
    actor: watch::Sender<Option<ActorRef<ClusterMessage>>>,
}

impl ClusterHandle {
    pub fn new(cluster: Arc<dyn Cluster>, in_flight: usize) -> Arc<Self> {
        Arc::new(Self {
            connection_with_timeouts: Arc::new(ClusterWithTimeouts(Arc::clone(&cluster))),
            connection: cluster,
            permits: Arc::new(Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS))),
            scopes: Arc::default(),
            actor: watch::Sender::new(None),
        })
    }

    /// Returns the connection for status queries. Don't use it to call the cluster.
    pub fn connection(&self) -> &dyn Cluster {
        self.connection.as_ref()
    }

    /// Returns the connection for calls. Most calls first acquire a permit. Claim renewals skip the queue,
    /// because they must succeed under any load.
    pub fn connection_with_timeouts(&self) -> Arc<dyn Cluster> {
        Arc::clone(&self.connection_with_timeouts)
    }

    /// Returns the cache of the kinds' scopes.
    pub fn scopes(&self) -> Arc<ScopeCache> {
        Arc::clone(&self.scopes)
    }

    /// Returns the semaphore that limits concurrent work.
    pub fn permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.permits)
    }

    /// Sends a message to the actor. If the actor is restarting, the message is lost; subscribers are
    /// notified once the actor runs again.
    pub fn send(&self, message: ClusterMessage) {
        if let Some(actor) = self.actor.borrow().as_ref() {
            let _ = actor.send_message(message);
        }
    }

    /// Sets the actor that owns the watches.
    pub fn set_actor(&self, actor: Option<ActorRef<ClusterMessage>>) {
        self.actor.send_replace(actor);
    }

    /// Stops the actor.
    pub fn stop(&self) {
        if let Some(actor) = self.actor.send_replace(None) {
            actor.stop(None);
        }
    }
}

/// An engine's clusters. Clusters can be added while the engine is running.
pub(crate) struct Clusters(RwLock<BTreeMap<Destination, Arc<ClusterHandle>>>);

impl Clusters {
    pub fn new(clusters: impl IntoIterator<Item = (Destination, Arc<ClusterHandle>)>) -> Self {
        Self(RwLock::new(clusters.into_iter().collect()))
    }

    pub fn get(&self, destination: &Destination) -> Option<Arc<ClusterHandle>> {
        // Every change under the lock is a single operation, so a panic can't leave a partial change.
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(destination).map(Arc::clone)
    }

    /// Returns all clusters, ordered by destination.
    pub fn all(&self) -> Vec<(Destination, Arc<ClusterHandle>)> {
        let clusters = self.0.read().unwrap_or_else(PoisonError::into_inner);
        clusters.iter().map(|(destination, cluster)| (destination.clone(), Arc::clone(cluster))).collect()
    }

    /// Adds a cluster, replacing any with the same destination.
    pub fn add(&self, destination: Destination, cluster: Arc<ClusterHandle>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(destination, cluster);
    }
}
