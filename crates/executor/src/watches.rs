//! Shared watches: one per kind and namespace in use, for all operations on a destination. For kinds without
//! health rules, only the metadata is watched.
//!
//! A watch lists the objects and follows their changes. If its resource version expires on the server, it
//! lists them again. Observations may be stale, repeated or incomplete, so the operation's state machine
//! compares them with its own writes. Every awaited object is reread every [`kind_watch::READ_INTERVAL`].
//!
//! ```text
//! subscribe ──▶ SubscriptionTable (subscriptions by object) ◀── kind_watch.rs: first read, list, changes, regular reads
//!                  │ without a health judge: directly to the operation's inbox
//!                  ├ unhealthy for some time: unhealthy_reasons.rs reads the object's events and pods
//!                  └ with a health judge: through a separate task, so that a slow judge delays only this object
//! ```

mod kind_watch;
mod subscriptions;
mod unhealthy_reasons;
mod volume_claims;
mod watch_context;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_cluster::{Cluster, Detail, Scope};
use tidegate_health::HealthRules;
use tidegate_model::{Gvk, OperationId, TaskId};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::kind_watch::{run_health_judge, run_kind_watch};
pub(crate) use self::subscriptions::WatchTarget;
use self::subscriptions::{Place, Subscriber, SubscriptionTable};
use self::watch_context::WatchContext;
use crate::clock::Clock;
use crate::extensions::Extensions;
use crate::inbox::Inbox;

/// Subscription of an operation to an object.
pub(crate) struct Subscription {
    pub operation: OperationId,
    pub target: WatchTarget,
    pub gvk: Gvk,
    pub namespace: String,
    pub name: String,
    /// Health judge that replaces the kind's health rule.
    pub judge: Option<String>,
    pub inbox: Inbox,
}

/// All watches of one cluster.
pub(crate) struct Watches {
    context: Arc<WatchContext>,
    scopes: HashMap<Arc<Scope>, ScopeWatch>,
    /// Watched kind and object of each subscription, so that ending it takes no search. All operations share
    /// one map: most have a single subscription while waiting, and a map per operation would cost 2 KiB each.
    index: BTreeMap<(OperationId, WatchTarget), (Arc<Scope>, Place)>,
}

struct ScopeWatch {
    table: Arc<SubscriptionTable>,
    /// Tasks that run watches, first reads and judges. Aborted when this value is dropped with the last
    /// subscription.
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
        let context = Arc::new(WatchContext { cluster, clock, extensions, health, permits });
        Self { context, scopes: HashMap::new(), index: BTreeMap::new() }
    }

    /// Sets the health rules. Drops all existing watches and subscriptions.
    pub fn set_health_rules(&mut self, health: HealthRules) {
        self.scopes.clear();
        self.index.clear();
        self.context = Arc::new(WatchContext {
            cluster: Arc::clone(&self.context.cluster),
            clock: Arc::clone(&self.context.clock),
            extensions: Arc::clone(&self.context.extensions),
            health,
            permits: Arc::clone(&self.context.permits),
        });
    }

    /// Adds a subscription. It first reports the object's current state.
    pub fn subscribe(&mut self, subscription: Subscription) {
        let Subscription { operation, target, gvk, namespace, name, judge: judge_name, inbox } = subscription;
        self.unsubscribe(operation, &target);
        let context = Arc::clone(&self.context);
        let judged = judge_name.is_some() || context.health.has_rule(&gvk);
        let is_task = matches!(target, WatchTarget::Task(_));
        let whole = judged || is_task && tidegate_health::has_deletion_status(&gvk);
        let scope = Arc::new(Scope {
            gvk,
            namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
            detail: if whole { Detail::Full } else { Detail::Metadata },
        });
        let watch = self.scopes.entry(Arc::clone(&scope)).or_insert_with_key(|scope| {
            let table = Arc::new(SubscriptionTable::default());
            let mut tasks = JoinSet::new();
            tasks.spawn(run_kind_watch(Arc::clone(&context), Arc::clone(scope), Arc::clone(&table)));
            ScopeWatch { table, tasks }
        });
        while watch.tasks.try_join_next().is_some() {}
        let place = (namespace, name);
        let mut subscriber = Subscriber { operation, target: target.clone(), inbox, judge_queue: None };
        if let Some(name) = judge_name {
            let (sender, observations) = tokio::sync::watch::channel(None);
            watch.tasks.spawn(run_health_judge(Arc::clone(&context), name, subscriber.clone(), observations));
            subscriber.judge_queue = Some(sender);
        }
        let known = watch.table.add(&place, subscriber.clone());
        self.index.insert((operation, target), (Arc::clone(&scope), place.clone()));
        match known {
            Some(seen) if subscriber.judge_queue.is_none() => context.report(&subscriber, seen),
            _ => {
                let table = Arc::clone(&watch.table);
                watch.tasks.spawn(async move { context.read_object(&scope.gvk, &place, &table).await });
            }
        }
    }

    /// Ends a subscription.
    pub fn unsubscribe(&mut self, operation: OperationId, what: &WatchTarget) {
        if let Some((scope, place)) = self.index.remove(&(operation, what.clone())) {
            self.remove_unused(operation, what, &scope, &place);
        }
    }

    /// Ends all subscriptions of an operation.
    pub fn unsubscribe_all(&mut self, operation: OperationId) {
        let first = (operation, WatchTarget::Task(TaskId(0)));
        let theirs =
            self.index.range(first..).map(|(key, _)| key).take_while(|(whose, _)| *whose == operation);
        for (_, what) in theirs.cloned().collect::<Vec<_>>() {
            self.unsubscribe(operation, &what);
        }
    }

    /// Stops watches without subscriptions.
    fn remove_unused(&mut self, operation: OperationId, what: &WatchTarget, scope: &Scope, place: &Place) {
        if self.scopes.get(scope).is_some_and(|watch| watch.table.remove(place, operation, what)) {
            self.scopes.remove(scope);
        }
    }
}
