//! The way to a cluster. Calls go straight to it, as many at once as it may take; watches go through its actor, which
//! shares them among the operations.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::BoxFuture;
use ractor::ActorRef;
use tidegate_cluster::Cluster;
use tidegate_model::Destination;
use tokio::sync::{Semaphore, watch};

use crate::actors::cluster::ClusterMessage;
use crate::limits::Limited;
use crate::log::LogFailure;
use crate::permits::Scopes;

/// Work with a cluster; it reports its end by itself.
pub(crate) type Job = Box<dyn FnOnce(Arc<dyn Cluster>) -> BoxFuture<'static, ()> + Send>;

/// The way to one cluster, for as long as the engine runs; its actor may change meanwhile.
pub(crate) struct ClusterHandle {
    /// To be asked how it is while calls wait for it.
    connection: Arc<dyn Cluster>,
    /// The same, with limits of time.
    limited: Arc<dyn Cluster>,
    /// Bounds the work that is on its way at once, whoever it is for.
    permits: Arc<Semaphore>,
    log_failure: LogFailure,
    scopes: Arc<Scopes>,
    /// `None` while the actor is being started again.
    actor: watch::Sender<Option<ActorRef<ClusterMessage>>>,
}

impl ClusterHandle {
    pub fn new(cluster: Arc<dyn Cluster>, in_flight: usize, log_failure: LogFailure) -> Arc<Self> {
        Arc::new(Self {
            limited: Arc::new(Limited(Arc::clone(&cluster))),
            connection: cluster,
            permits: Arc::new(Semaphore::new(in_flight.clamp(1, Semaphore::MAX_PERMITS))),
            log_failure,
            scopes: Arc::default(),
            actor: watch::Sender::new(None),
        })
    }

    /// The cluster, to be asked how it is. Nothing is called on it.
    pub fn connection(&self) -> &dyn Cluster {
        self.connection.as_ref()
    }

    /// The cluster for those whose calls do not wait for their turn: a claim must be renewed however much there is to do.
    pub fn at_once(&self) -> Arc<dyn Cluster> {
        Arc::clone(&self.limited)
    }

    /// Which kinds live in namespaces, as far as that was asked.
    pub fn scopes(&self) -> Arc<Scopes> {
        Arc::clone(&self.scopes)
    }

    /// What bounds the work on its way.
    pub fn permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.permits)
    }

    /// Does this as soon as there is room, for as long as the actor that wants it is there.
    pub fn run(&self, job: Job, mut alive: watch::Receiver<()>) {
        let (permits, cluster) = (Arc::clone(&self.permits), Arc::clone(&self.limited));
        let log_failure = Arc::clone(&self.log_failure);
        tokio::spawn(async move {
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

    /// Tells the actor. While there is none the message is lost: whoever needs a watch is told when there is one again.
    pub fn tell(&self, message: ClusterMessage) {
        if let Some(actor) = self.actor.borrow().as_ref() {
            let _ = actor.send_message(message);
        }
    }

    /// From now on this actor has the watches.
    pub fn set_actor(&self, actor: Option<ActorRef<ClusterMessage>>) {
        self.actor.send_replace(actor);
    }

    /// No watch is needed any more.
    pub fn stop(&self) {
        if let Some(actor) = self.actor.send_replace(None) {
            actor.stop(None);
        }
    }
}

/// The clusters of an engine. More may come while it runs.
pub(crate) struct Clusters(RwLock<BTreeMap<Destination, Arc<ClusterHandle>>>);

impl Clusters {
    pub fn new(clusters: impl IntoIterator<Item = (Destination, Arc<ClusterHandle>)>) -> Self {
        Self(RwLock::new(clusters.into_iter().collect()))
    }

    /// The way to a cluster.
    pub fn get(&self, destination: &Destination) -> Option<Arc<ClusterHandle>> {
        // Every change under the lock is a single one, so a panic leaves nothing half done.
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(destination).map(Arc::clone)
    }

    /// Each cluster there is a way to, in order of destinations.
    pub fn all(&self) -> Vec<(Destination, Arc<ClusterHandle>)> {
        let clusters = self.0.read().unwrap_or_else(PoisonError::into_inner);
        clusters.iter().map(|(destination, cluster)| (destination.clone(), Arc::clone(cluster))).collect()
    }

    /// Adds the way to a cluster, in place of an earlier one of the same destination.
    pub fn add(&self, destination: Destination, cluster: Arc<ClusterHandle>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(destination, cluster);
    }
}
