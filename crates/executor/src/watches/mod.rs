//! Shared watches: one per kind in use, for all operations of a destination.
//!
//! A watch lists, then follows changes, and lists again when the server has forgotten where it was. What is sent to an
//! operation may be old, repeated or missing in between; the machine compares it with its own writes, and every object
//! that is awaited is looked at again every [`follow::LOOK_AGAIN`].
//!
//! ```text
//! subscribe ──▶ Board (who asks about which object) ◀── follow.rs: first look, list, changes, regular looks
//!                  │ no judge: straight into the operation's inbox
//!                  └ judge: through a worker of its own, so that a slow judge holds up nobody else
//! ```

mod board;
mod follow;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_cluster::Cluster;
use tidegate_model::{Gvk, OperationId, TaskId};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::board::{Board, Place, Subscriber};
use self::follow::{Context, follow, judge};
use crate::clock::Clock;
use crate::extend::Extensions;
use crate::inbox::Inbox;

/// Who wants to know about which object.
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
    /// Where each subscription is, so that ending one does not search for it.
    index: HashMap<OperationId, BTreeMap<TaskId, (Gvk, Place)>>,
}

struct KindWatch {
    board: Arc<Board>,
    /// The watch itself, first looks, and workers for judges. Owned, so that they end with the last subscription.
    tasks: JoinSet<()>,
}

impl Watches {
    pub fn new(
        cluster: Arc<dyn Cluster>,
        clock: Arc<dyn Clock>,
        extensions: Arc<Extensions>,
        permits: Arc<Semaphore>,
    ) -> Self {
        let context = Arc::new(Context { cluster, clock, extensions, permits });
        Self { context, kinds: HashMap::new(), index: HashMap::new() }
    }

    /// Begins to report an object; the first report says what is there now.
    pub fn subscribe(&mut self, subscription: Subscription) {
        let Subscription { operation, task, gvk, namespace, name, judge: judge_name, inbox } = subscription;
        self.unsubscribe(operation, task);
        let context = Arc::clone(&self.context);
        let watch = self.kinds.entry(gvk.clone()).or_insert_with_key(|gvk| {
            let board = Arc::new(Board::default());
            let mut tasks = JoinSet::new();
            tasks.spawn(follow(Arc::clone(&context), gvk.clone(), Arc::clone(&board)));
            KindWatch { board, tasks }
        });
        while watch.tasks.try_join_next().is_some() {}
        let place = (namespace, name);
        let mut subscriber = Subscriber { operation, task, inbox, judged: None };
        if let Some(name) = judge_name {
            let (sender, sights) = tokio::sync::watch::channel(None);
            watch.tasks.spawn(judge(Arc::clone(&context), name, subscriber.clone(), sights));
            subscriber.judged = Some(sender);
        }
        let known = watch.board.add(&place, subscriber.clone());
        self.index.entry(operation).or_default().insert(task, (gvk.clone(), place.clone()));
        match known {
            Some(seen) if subscriber.judged.is_none() => context.send(&subscriber, seen),
            _ => {
                let board = Arc::clone(&watch.board);
                watch.tasks.spawn(async move { context.look(&gvk, &place, &board).await });
            }
        }
    }

    /// Ends the reports of one task.
    pub fn unsubscribe(&mut self, operation: OperationId, task: TaskId) {
        let Some(tasks) = self.index.get_mut(&operation) else { return };
        let found = tasks.remove(&task);
        if tasks.is_empty() {
            self.index.remove(&operation);
        }
        if let Some((gvk, place)) = found {
            self.remove(operation, task, &gvk, &place);
        }
    }

    /// Ends the reports of an operation.
    pub fn forget(&mut self, operation: OperationId) {
        for (task, (gvk, place)) in self.index.remove(&operation).unwrap_or_default() {
            self.remove(operation, task, &gvk, &place);
        }
    }

    /// A kind nobody asks about is no longer watched.
    fn remove(&mut self, operation: OperationId, task: TaskId, gvk: &Gvk, place: &Place) {
        if self.kinds.get(gvk).is_some_and(|watch| watch.board.remove(place, operation, task)) {
            self.kinds.remove(gvk);
        }
    }
}
