//! Objects of a scope, for as long as somebody asks: listed, and watched from there on. A server ends each watch after some
//! minutes; the next one goes on where that one was, so that nobody is told anew of what has not changed. It is listed again
//! only after an error (the version is too old, the connection broke, a watch was refused), and after a watch that ends at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_model::Object;
use tokio::time::Instant;

use crate::{Cluster, ClusterError, ErrorKind, Scope, WatchEvent, WatchStream};

/// A watch that ends sooner than this and has told nothing is none: something on the way there cannot carry it.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// How long to wait before a list or a watch is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// After a watch has ended, and after the first failure.
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
    /// A watch from this resource version is due after so long.
    Opening(String, Duration),
    Following(Watch),
}

/// An open watch.
struct Watch {
    changes: WatchStream,
    reached: Reached,
}

/// How far a watch has come that is open: where the next one goes on when the server has ended it.
#[derive(Debug)]
pub struct Reached {
    /// All is known up to this resource version.
    version: String,
    opened: Instant,
    has_told: bool,
}

impl Reached {
    /// It has just been opened from this resource version.
    pub fn opened(version: String) -> Self {
        Self { version, opened: Instant::now(), has_told: false }
    }

    /// It has told something.
    pub fn told(&mut self, event: &WatchEvent) {
        self.has_told = true;
        let version = match event {
            WatchEvent::Applied(object) | WatchEvent::Deleted(object) => object.resource_version(),
            WatchEvent::Bookmark(version) => version,
        };
        if !version.is_empty() {
            version.clone_into(&mut self.version);
        }
    }

    /// The server has ended it, as it does with each: the resource version from which the next one goes on. Nothing where it was
    /// none, so that it is to be listed anew.
    pub fn after_end(self) -> Option<String> {
        let was_one = self.has_told || self.opened.elapsed() >= SHORTEST_WATCH;
        Some(self.version).filter(|version| was_one && !version.is_empty())
    }
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
            let told = match &mut self.stage {
                Stage::Listing(after) => {
                    tokio::time::sleep(*after).await;
                    Some(self.list().await)
                }
                Stage::Opening(version, after) => {
                    tokio::time::sleep(*after).await;
                    let version = std::mem::take(version);
                    self.open(version).await
                }
                Stage::Following(watch) => match watch.changes.next().await {
                    Some(Ok(event)) => watch.told(event),
                    // Whether the cluster answers is told by the list.
                    Some(Err(_)) => {
                        self.stage = Stage::Listing(self.pauses.min);
                        None
                    }
                    None => {
                        // One that ends each watch at once must not keep us busy.
                        let reached = std::mem::replace(&mut watch.reached, Reached::opened(String::new()));
                        self.stage = match reached.after_end() {
                            Some(version) => Stage::Opening(version, self.pauses.min),
                            None => Stage::Listing(self.pauses.min),
                        };
                        None
                    }
                },
            };
            if let Some(told) = told {
                return told;
            }
        }
    }

    async fn list(&mut self) -> Followed {
        match self.cluster.list(&self.scope).await {
            Ok(listing) => {
                self.stage = Stage::Opening(listing.resource_version, Duration::ZERO);
                Followed::Listed(listing.objects)
            }
            Err(error) => {
                self.wait_longer();
                Followed::Failing(error)
            }
        }
    }

    async fn open(&mut self, version: String) -> Option<Followed> {
        match self.cluster.watch(&self.scope, &version).await {
            Ok(changes) => {
                self.wait = self.pauses.min;
                self.stage = Stage::Following(Watch { changes, reached: Reached::opened(version) });
                None
            }
            Err(error) => {
                self.wait_longer();
                // That the version is too old is no failure: it is listed again.
                (error.kind != ErrorKind::Gone).then_some(Followed::Failing(error))
            }
        }
    }

    fn wait_longer(&mut self) {
        self.stage = Stage::Listing(self.wait);
        self.wait = self.wait.saturating_mul(2).min(self.pauses.max);
    }
}

impl Watch {
    fn told(&mut self, event: WatchEvent) -> Option<Followed> {
        self.reached.told(&event);
        match event {
            WatchEvent::Applied(object) => Some(Followed::Applied(object)),
            WatchEvent::Deleted(object) => Some(Followed::Deleted(object)),
            WatchEvent::Bookmark(_) => None,
        }
    }
}
