//! Shared watches: one per kind and namespace in use, for all operations of a destination. Kinds whose health is never
//! judged are watched by their metadata alone.
//!
//! A watch lists, then follows changes, and lists again when the server has forgotten where it was. What is sent to an
//! operation may be old, repeated or missing in between; the machine compares it with its own writes, and every object
//! that is awaited is looked at again every [`follow::LOOK_AGAIN`].
//!
//! ```text
//! subscribe ──▶ Board (who asks about which object) ◀── follow.rs: first look, list, changes, regular looks
//!                  │ no judge: straight into the operation's inbox
//!                  ├ not well for a while: reasons.rs looks at its pods
//!                  └ judge: through a worker of its own, so that a slow judge holds up nobody else
//! ```

mod board;
mod context;
mod follow;
mod reasons;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_cluster::{Cluster, Detail, Scope};
use tidegate_health::HealthRules;
use tidegate_model::{Gvk, OperationId, TaskId};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) use self::board::Watched;
use self::board::{Board, Place, Subscriber};
use self::context::Context;
use self::follow::{follow, judge};
use crate::clock::Clock;
use crate::extend::Extensions;
use crate::inbox::Inbox;

/// Who wants to know about which object.
pub(crate) struct Subscription {
    pub operation: OperationId,
    pub what: Watched,
    pub gvk: Gvk,
    pub namespace: String,
    pub name: String,
    /// A health judge that replaces the rule for the kind.
    pub judge: Option<String>,
    pub inbox: Inbox,
}

/// All watches of one cluster.
pub(crate) struct Watches {
    context: Arc<Context>,
    scopes: HashMap<Arc<Scope>, ScopeWatch>,
    /// Where each subscription is, so that ending one does not search for it. One map for all operations: most of those that
    /// wait have a single subscription, and a map of their own would cost each of them 2 KiB.
    index: BTreeMap<(OperationId, Watched), (Arc<Scope>, Place)>,
}

struct ScopeWatch {
    board: Arc<Board>,
    /// The watch itself, first looks, and workers for judges. Owned, so that they end with the last subscription.
    tasks: JoinSet<()>,
}

impl Watches {
    pub fn new(
        cluster: Arc<dyn Cluster>,
        clock: Arc<dyn Clock>,
        extensions: Arc<Extensions>,
        health: HealthRules,
        permits: Arc<Semaphore>,
    ) -> Self {
        let context = Arc::new(Context { cluster, clock, extensions, health, permits });
        Self { context, scopes: HashMap::new(), index: BTreeMap::new() }
    }

    /// Begins anew with other rules, and without any subscription.
    pub fn judge_by(&mut self, health: HealthRules) {
        self.scopes.clear();
        self.index.clear();
        self.context = Arc::new(Context {
            cluster: Arc::clone(&self.context.cluster),
            clock: Arc::clone(&self.context.clock),
            extensions: Arc::clone(&self.context.extensions),
            health,
            permits: Arc::clone(&self.context.permits),
        });
    }

    /// Begins to report an object; the first report says what is there now.
    pub fn subscribe(&mut self, subscription: Subscription) {
        let Subscription { operation, what, gvk, namespace, name, judge: judge_name, inbox } = subscription;
        self.unsubscribe(operation, &what);
        let context = Arc::clone(&self.context);
        let judged = judge_name.is_some() || context.health.has_rule(&gvk);
        let is_task = matches!(what, Watched::Task(_));
        let whole = judged || is_task && tidegate_health::tells_what_keeps_it(&gvk);
        let scope = Arc::new(Scope {
            gvk,
            namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
            detail: if whole { Detail::Full } else { Detail::Metadata },
        });
        let watch = self.scopes.entry(Arc::clone(&scope)).or_insert_with_key(|scope| {
            let board = Arc::new(Board::default());
            let mut tasks = JoinSet::new();
            tasks.spawn(follow(Arc::clone(&context), Arc::clone(scope), Arc::clone(&board)));
            ScopeWatch { board, tasks }
        });
        while watch.tasks.try_join_next().is_some() {}
        let place = (namespace, name);
        let mut subscriber = Subscriber { operation, what: what.clone(), inbox, judged: None };
        if let Some(name) = judge_name {
            let (sender, sights) = tokio::sync::watch::channel(None);
            watch.tasks.spawn(judge(Arc::clone(&context), name, subscriber.clone(), sights));
            subscriber.judged = Some(sender);
        }
        let known = watch.board.add(&place, subscriber.clone());
        self.index.insert((operation, what), (Arc::clone(&scope), place.clone()));
        match known {
            Some(seen) if subscriber.judged.is_none() => context.send(&subscriber, seen),
            _ => {
                let board = Arc::clone(&watch.board);
                watch.tasks.spawn(async move { context.look(&scope.gvk, &place, &board).await });
            }
        }
    }

    /// Ends the reports of one object.
    pub fn unsubscribe(&mut self, operation: OperationId, what: &Watched) {
        if let Some((scope, place)) = self.index.remove(&(operation, what.clone())) {
            self.remove(operation, what, &scope, &place);
        }
    }

    /// Ends the reports of an operation.
    pub fn forget(&mut self, operation: OperationId) {
        let first = (operation, Watched::Task(TaskId(0)));
        let theirs =
            self.index.range(first..).map(|(key, _)| key).take_while(|(whose, _)| *whose == operation);
        for (_, what) in theirs.cloned().collect::<Vec<_>>() {
            self.unsubscribe(operation, &what);
        }
    }

    /// What nobody asks about is no longer watched.
    fn remove(&mut self, operation: OperationId, what: &Watched, scope: &Scope, place: &Place) {
        if self.scopes.get(scope).is_some_and(|watch| watch.board.remove(place, operation, what)) {
            self.scopes.remove(scope);
        }
    }
}
