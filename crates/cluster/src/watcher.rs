//! Continuous list and watch of a scope.
//!
//! A server ends each watch after a few minutes. The next watch continues from the resource version that the
//! last watch reached, so unchanged objects are not delivered again. The scope is listed again only after an
//! error (version too old, connection lost, watch refused) or after a watch that ended immediately.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use tidegate_model::Object;
use tokio::time::Instant;

use crate::{Cluster, ClusterError, ErrorKind, Scope, WatchEvent, WatchStream};

/// Minimum duration of a watch. If a watch ends sooner without an event, a proxy on the path probably doesn't
/// support watches.
const WATCH_DURATION_MIN: Duration = Duration::from_secs(1);

/// Retry delays for lists and watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchBackoff {
    /// Delay after the end of a watch, and after the first failure.
    pub min: Duration,
    /// Maximum delay. The delay doubles after each failure.
    pub max: Duration,
}

/// A change to the objects in a scope.
#[derive(Clone, Debug, PartialEq)]
pub enum ScopeChange {
    /// The complete list of the objects in the scope.
    Listed(Vec<Object>),
    /// An object was added or changed.
    Applied(Object),
    /// An object was deleted. Contains its last state.
    Deleted(Object),
    /// A list or watch failed with this error and is being retried.
    Failing(ClusterError),
}

/// Follows the objects in a scope. The stream never ends, and it makes progress only while it is polled.
pub fn list_and_watch(
    cluster: Arc<dyn Cluster>,
    scope: Scope,
    backoff: WatchBackoff,
) -> BoxStream<'static, ScopeChange> {
    let follower = ScopeWatcher {
        cluster,
        scope,
        backoff,
        next_delay: backoff.min,
        stage: Stage::Listing(Duration::ZERO),
    };
    stream::unfold(follower, |mut follower| {
        async move {
            let next = follower.next_change().await;
            Some((next, follower))
        }
        .boxed()
    })
    .boxed()
}

enum Stage {
    /// Waiting to list the scope, after this delay.
    Listing(Duration),
    /// Waiting to open a watch from this resource version, after this delay.
    Opening(String, Duration),
    Watching(Watch),
}

/// An open watch.
struct Watch {
    changes: WatchStream,
    progress: WatchProgress,
}

/// Progress of an open watch, which determines where the next watch starts.
#[derive(Debug)]
pub struct WatchProgress {
    /// Resource version up to which all changes have been delivered.
    version: String,
    opened_at: Instant,
    has_events: bool,
}

impl WatchProgress {
    /// Creates the progress of a watch just opened from the given resource version.
    pub fn new(version: String) -> Self {
        Self { version, opened_at: Instant::now(), has_events: false }
    }

    /// Records an event of the watch.
    pub fn record(&mut self, event: &WatchEvent) {
        self.has_events = true;
        let version = match event {
            WatchEvent::Applied(object) | WatchEvent::Deleted(object) => object.resource_version(),
            WatchEvent::Bookmark(version) => version,
        };
        if !version.is_empty() {
            version.clone_into(&mut self.version);
        }
    }

    /// Returns the resource version for the next watch after the server has ended this one. `None` if the
    /// scope must be listed again.
    pub fn resume_version(self) -> Option<String> {
        let was_one = self.has_events || self.opened_at.elapsed() >= WATCH_DURATION_MIN;
        Some(self.version).filter(|version| was_one && !version.is_empty())
    }
}

struct ScopeWatcher {
    cluster: Arc<dyn Cluster>,
    scope: Scope,
    backoff: WatchBackoff,
    /// Delay after the next failure.
    next_delay: Duration,
    stage: Stage,
}

impl ScopeWatcher {
    async fn next_change(&mut self) -> ScopeChange {
        loop {
            let change = match &mut self.stage {
                Stage::Listing(after) => {
                    tokio::time::sleep(*after).await;
                    Some(self.list_objects().await)
                }
                Stage::Opening(version, after) => {
                    tokio::time::sleep(*after).await;
                    let version = std::mem::take(version);
                    self.open_watch(version).await
                }
                Stage::Watching(watch) => match watch.changes.next().await {
                    Some(Ok(event)) => watch.handle_event(event),
                    // List the scope again, which also shows whether the cluster responds.
                    Some(Err(_)) => {
                        self.stage = Stage::Listing(self.backoff.min);
                        None
                    }
                    None => {
                        // A server that ends each watch immediately must not cause a busy loop.
                        let reached =
                            std::mem::replace(&mut watch.progress, WatchProgress::new(String::new()));
                        self.stage = match reached.resume_version() {
                            Some(version) => Stage::Opening(version, self.backoff.min),
                            None => Stage::Listing(self.backoff.min),
                        };
                        None
                    }
                },
            };
            if let Some(change) = change {
                return change;
            }
        }
    }

    async fn list_objects(&mut self) -> ScopeChange {
        match self.cluster.list(&self.scope).await {
            Ok(listing) => {
                self.stage = Stage::Opening(listing.resource_version, Duration::ZERO);
                ScopeChange::Listed(listing.objects)
            }
            Err(error) => {
                self.increase_delay();
                ScopeChange::Failing(error)
            }
        }
    }

    async fn open_watch(&mut self, version: String) -> Option<ScopeChange> {
        match self.cluster.watch(&self.scope, &version).await {
            Ok(changes) => {
                self.next_delay = self.backoff.min;
                self.stage = Stage::Watching(Watch { changes, progress: WatchProgress::new(version) });
                None
            }
            Err(error) => {
                self.increase_delay();
                // An expired version is not a failure; the scope is listed again.
                (error.kind != ErrorKind::Gone).then_some(ScopeChange::Failing(error))
            }
        }
    }

    fn increase_delay(&mut self) {
        self.stage = Stage::Listing(self.next_delay);
        self.next_delay = self.next_delay.saturating_mul(2).min(self.backoff.max);
    }
}

impl Watch {
    fn handle_event(&mut self, event: WatchEvent) -> Option<ScopeChange> {
        self.progress.record(&event);
        match event {
            WatchEvent::Applied(object) => Some(ScopeChange::Applied(object)),
            WatchEvent::Deleted(object) => Some(ScopeChange::Deleted(object)),
            WatchEvent::Bookmark(_) => None,
        }
    }
}
