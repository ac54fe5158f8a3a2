//! Objects of a scope, for as long as somebody asks: listed, watched, and listed again whenever a watch ends.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_model::Object;

use crate::{Cluster, ClusterError, ErrorKind, Scope, WatchEvent, WatchStream};

/// How long to wait before a list or a watch is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// After a watch that worked has ended, and after the first failure.
    pub min: Duration,
    /// Doubled with each failure, and no longer than this.
    pub max: Duration,
}

/// What became of the objects of a scope.
#[derive(Clone, Debug, PartialEq)]
pub enum Followed {
    /// These are there, and no others.
    Listed(Vec<Object>),
    /// One was added or changed.
    Applied(Object),
    /// One was deleted; its last state.
    Deleted(Object),
    /// The cluster does not tell now, for this reason; it is asked again.
    Failing(ClusterError),
}

/// Follows the objects of a scope. The stream never ends; it does nothing while nobody asks for the next item.
pub fn follow(cluster: Arc<dyn Cluster>, scope: Scope, pauses: Pauses) -> BoxStream<'static, Followed> {
    let follower =
        Follower { cluster, scope, pauses, wait: pauses.min, stage: Stage::Listing(Duration::ZERO) };
    stream::unfold(follower, |mut follower| {
        async move {
            let next = follower.next().await;
            Some((next, follower))
        }
        .boxed()
    })
    .boxed()
}

enum Stage {
    /// A list is due after so long.
    Listing(Duration),
    /// A watch from this resource version is due.
    Opening(String),
    Following(WatchStream),
}

struct Follower {
    cluster: Arc<dyn Cluster>,
    scope: Scope,
    pauses: Pauses,
    /// After the next failure.
    wait: Duration,
    stage: Stage,
}

impl Follower {
    async fn next(&mut self) -> Followed {
        loop {
            match &mut self.stage {
                Stage::Listing(after) => {
                    tokio::time::sleep(*after).await;
                    match self.cluster.list(&self.scope).await {
                        Ok(listing) => {
                            self.stage = Stage::Opening(listing.resource_version);
                            return Followed::Listed(listing.objects);
                        }
                        Err(error) => {
                            self.wait_longer();
                            return Followed::Failing(error);
                        }
                    }
                }
                Stage::Opening(version) => match self.cluster.watch(&self.scope, version).await {
                    Ok(changes) => {
                        self.wait = self.pauses.min;
                        self.stage = Stage::Following(changes);
                    }
                    Err(error) => {
                        self.wait_longer();
                        // That the version is too old is no failure: it is listed again.
                        if error.kind != ErrorKind::Gone {
                            return Followed::Failing(error);
                        }
                    }
                },
                Stage::Following(changes) => match changes.next().await {
                    Some(Ok(WatchEvent::Applied(object))) => return Followed::Applied(object),
                    Some(Ok(WatchEvent::Deleted(object))) => return Followed::Deleted(object),
                    Some(Ok(WatchEvent::Bookmark(_))) => {}
                    // Whether the cluster answers is told by the list. A server that ends each watch at once must not keep
                    // us busy.
                    Some(Err(_)) | None => self.stage = Stage::Listing(self.pauses.min),
                },
            }
        }
    }

    fn wait_longer(&mut self) {
        self.stage = Stage::Listing(self.wait);
        self.wait = self.wait.saturating_mul(2).min(self.pauses.max);
    }
}
