//! Shared watches: one per kind in use, for all operations of a destination.
//!
//! A watch lists, then follows changes, and lists again when the server has forgotten where it was. What is sent to an
//! operation may be old, repeated or missing in between; the machine compares it with its own writes, and every object
//! that is awaited is looked at again every [`LOOK_AGAIN`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster, ClusterError, ErrorKind, WatchEvent};
use tidegate_lifecycle::operation::Input;
use tidegate_model::{Gvk, Object, Observation, Observed, OperationId, TaskId};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::extend::Extensions;
use crate::inbox::{Arrival, Inbox};

/// How long a lost change may stay unnoticed.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Wait after a failed list or watch; doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(100);
/// Longest wait after a failed list or watch.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Namespace and name.
type Place = (String, String);

/// Who wants to know about which object.
#[derive(Clone)]
pub(crate) struct Subscription {
    pub operation: OperationId,
    pub task: TaskId,
    pub gvk: Gvk,
    pub namespace: String,
    pub name: String,
    /// A health judge that replaces the built-in rule.
    pub judge: Option<String>,
    pub inbox: Inbox,
}

/// All watches of one cluster.
pub(crate) struct Watches {
    context: Arc<Context>,
    kinds: HashMap<Gvk, KindWatch>,
}

struct Context {
    cluster: Arc<dyn Cluster>,
    clock: Arc<dyn Clock>,
    extensions: Arc<Extensions>,
    permits: Arc<Semaphore>,
}

struct KindWatch {
    board: Arc<Board>,
    /// The watch itself, and first looks. Owned, so that they end with the last subscription.
    tasks: JoinSet<()>,
}

/// Who wants to know, and what was seen last.
#[derive(Default)]
struct Board {
    places: Mutex<HashMap<Place, Entry>>,
}

#[derive(Default)]
struct Entry {
    subscribers: Vec<Subscription>,
    last: Option<Observed>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Entry>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watches {
    pub fn new(
        cluster: Arc<dyn Cluster>,
        clock: Arc<dyn Clock>,
        extensions: Arc<Extensions>,
        permits: Arc<Semaphore>,
    ) -> Self {
        Self { context: Arc::new(Context { cluster, clock, extensions, permits }), kinds: HashMap::new() }
    }

    /// Begins to report an object; the first report says what is there now.
    pub fn subscribe(&mut self, subscription: Subscription) {
        let context = Arc::clone(&self.context);
        let watch = self.kinds.entry(subscription.gvk.clone()).or_insert_with_key(|gvk| {
            let board = Arc::new(Board::default());
            let mut tasks = JoinSet::new();
            tasks.spawn(follow(Arc::clone(&context), gvk.clone(), Arc::clone(&board)));
            KindWatch { board, tasks }
        });
        let place = (subscription.namespace.clone(), subscription.name.clone());
        let known = {
            let mut places = watch.board.lock();
            let entry = places.entry(place.clone()).or_default();
            entry.subscribers.push(subscription.clone());
            entry.last.clone()
        };
        while watch.tasks.try_join_next().is_some() {}
        match known {
            Some(seen) if subscription.judge.is_none() => context.send(&subscription, seen),
            _ => {
                let board = Arc::clone(&watch.board);
                watch.tasks.spawn(async move { context.look(&subscription.gvk, &place, &board).await });
            }
        }
    }

    /// Ends the reports of one task, or of a whole operation. A kind nobody asks about is no longer watched.
    pub fn unsubscribe(&mut self, operation: OperationId, task: Option<TaskId>) {
        self.kinds.retain(|_, watch| {
            let mut places = watch.board.lock();
            for entry in places.values_mut() {
                entry.subscribers.retain(|subscriber| {
                    subscriber.operation != operation || task.is_some_and(|task| subscriber.task != task)
                });
            }
            places.retain(|_, entry| !entry.subscribers.is_empty());
            !places.is_empty()
        });
    }
}

impl Context {
    fn send(&self, subscriber: &Subscription, seen: Observed) {
        let observation = Observation { at: self.clock.now(), seen };
        let input = Input::Observed { task: subscriber.task, observation };
        subscriber.inbox.push(Arrival::Input { input, answers: None });
    }

    /// Tells everyone who asked about this object.
    async fn publish(&self, board: &Board, place: &Place, object: Result<&Object, Observed>) {
        let (object, observed) = match object {
            Ok(object) => (Some(object), tidegate_health::observe(object, self.clock.now()).seen),
            Err(gone) => (None, gone),
        };
        let subscribers = {
            let mut places = board.lock();
            let Some(entry) = places.get_mut(place) else { return };
            // What is gone may come back under the same name; only presence is worth remembering.
            entry.last = matches!(observed, Observed::Present { .. }).then(|| observed.clone());
            entry.subscribers.clone()
        };
        for subscriber in subscribers {
            let seen = match (&subscriber.judge, object) {
                (Some(judge), Some(object)) => self.judged(judge, object, observed.clone()).await,
                _ => observed.clone(),
            };
            self.send(&subscriber, seen);
        }
    }

    async fn judged(&self, judge: &str, object: &Object, observed: Observed) -> Observed {
        let verdict = self.extensions.ask_judge(judge, object.clone()).await;
        match observed {
            Observed::Present { uid, resource_version, generation, deleting, evidence, .. } => {
                Observed::Present {
                    uid,
                    resource_version,
                    generation,
                    deleting,
                    health: Some(verdict),
                    evidence,
                }
            }
            gone @ Observed::Gone { .. } => gone,
        }
    }

    /// Looks at one object. A failed look is made good by the watch or the next look.
    async fn look(&self, gvk: &Gvk, place: &Place, board: &Board) {
        let Ok(permit) = self.permits.acquire().await else { return };
        let found = self.cluster.get(gvk, &place.0, &place.1).await;
        drop(permit);
        match found {
            Ok(Some(object)) => self.publish(board, place, Ok(&object)).await,
            Ok(None) => self.publish(board, place, Err(Observed::Gone { uid: None })).await,
            Err(error) if error.kind == ErrorKind::NotFound => {
                self.publish(board, place, Err(Observed::Gone { uid: None })).await;
            }
            Err(error) => {
                tracing::debug!(kind = %gvk, name = place.1, %error, "could not look at an awaited object")
            }
        }
    }

    async fn look_at_all(&self, gvk: &Gvk, board: &Board) {
        let places: Vec<Place> = board.lock().keys().cloned().collect();
        for place in places {
            self.look(gvk, &place, board).await;
        }
    }
}

/// Follows one kind for as long as somebody asks about it.
async fn follow(context: Arc<Context>, gvk: Gvk, board: Arc<Board>) {
    let mut wait = RETRY_MIN;
    loop {
        match list_and_watch(&context, &gvk, &board, &mut wait).await {
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(kind = %gvk, %error, "watch ended; listing again");
                tokio::time::sleep(wait).await;
                wait = wait.saturating_mul(2).min(RETRY_MAX);
                // The list may fail for long; what is awaited must still be seen.
                context.look_at_all(&gvk, &board).await;
            }
        }
    }
}

async fn list_and_watch(
    context: &Context,
    gvk: &Gvk,
    board: &Board,
    wait: &mut Duration,
) -> Result<(), ClusterError> {
    let listing = context.cluster.list(gvk).await?;
    for object in &listing.objects {
        let place = (object.namespace().to_owned(), object.name().to_owned());
        context.publish(board, &place, Ok(object)).await;
    }
    let mut changes = context.cluster.watch(gvk, &listing.resource_version).await?;
    *wait = RETRY_MIN;
    let mut next_look = tokio::time::Instant::now() + LOOK_AGAIN;
    loop {
        // Both branches may be dropped: a stream keeps its place, and a timer is only a time.
        tokio::select! {
            change = changes.next() => match change {
                None => return Ok(()),
                Some(change) => publish_change(context, board, change?).await,
            },
            () = tokio::time::sleep_until(next_look) => {
                context.look_at_all(gvk, board).await;
                next_look = tokio::time::Instant::now() + LOOK_AGAIN;
            }
        }
    }
}

async fn publish_change(context: &Context, board: &Board, change: WatchEvent) {
    match change {
        WatchEvent::Applied(object) => {
            let place = (object.namespace().to_owned(), object.name().to_owned());
            context.publish(board, &place, Ok(&object)).await;
        }
        WatchEvent::Deleted(object) => {
            let place = (object.namespace().to_owned(), object.name().to_owned());
            let gone = Observed::Gone { uid: Some(object.uid().to_owned()) };
            context.publish(board, &place, Err(gone)).await;
        }
        WatchEvent::Bookmark(_) => {}
    }
}
