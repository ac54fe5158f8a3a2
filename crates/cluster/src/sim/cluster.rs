//! The simulated cluster as the engine sees it: calls take time, watchers are woken, writes are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use tidegate_model::annotations::FIELD_MANAGER;
use tidegate_model::{Discovery, Gvk, Object, ObjectKey, OperationId, Timestamp};
use tokio::sync::watch;

use super::journal::Journal;
use super::ownership::spelled_out;
use super::shared::{Inner, Shared};
use super::write::{Write, Written};
use super::{AuditEntry, Clock, SimConfig, SimError, SimState};
use super::{logs, stream};
use crate::{
    Applied, ApplyRequest, Cluster, ClusterError, Container, DeleteRequest, Deleted, Detail, Listing,
    LiveAnswer, LiveQuery, LogStream, LogsFrom, MissingRight, Right, Scope, Strain, WatchEvent, WatchStream,
};

/// A simulated Kubernetes behind the [`Cluster`] trait.
///
/// Each call does its work between two waits, in one piece; so a call dropped while it waits has either been done
/// or never been received. There is no background task: controllers run when somebody calls or watches, each step
/// at its own time.
#[derive(Clone, Debug)]
pub struct SimCluster {
    shared: Arc<Shared>,
}

impl SimCluster {
    /// A cluster in memory: it goes when the last handle goes.
    pub fn in_memory(config: SimConfig, clock: Clock) -> Self {
        let state = SimState::new(config, clock.now());
        Self::with_state(state, None, clock)
    }

    /// The cluster kept in a folder of its own, which is made when it is not there. What a killed process was told is
    /// still true. Only one process at a time may have it open; the caller sees to that.
    pub fn open(dir: &Path, config: SimConfig, clock: Clock) -> Result<Self, SimError> {
        let (journal, state) = Journal::open(dir, config, clock.now())?;
        let clock = clock.not_before(state.now);
        Ok(Self::with_state(state, Some(journal), clock))
    }

    fn with_state(state: SimState, journal: Option<Journal>, clock: Clock) -> Self {
        let latency = state.config().latency;
        let (told, due) = (state.revision(), state.next_due());
        let inner = Mutex::new(Inner { state, kinds: BTreeMap::new(), told, due, journal, broken: None });
        Self { shared: Arc::new(Shared { inner, clock, latency, schedule: watch::Sender::new(0) }) }
    }

    /// Every write received since the cluster was made, in order. Of a cluster that is kept in a folder only the newest:
    /// [`read_audit`](super::read_audit) knows of earlier ones too.
    pub fn audit(&self) -> Vec<AuditEntry> {
        self.shared.lock().state.audit().to_vec()
    }

    /// All objects as they are now, in order of their keys.
    pub fn objects(&self) -> Vec<Object> {
        self.shared.act(|inner, now| {
            inner.state.advance(now);
            inner.state.objects().cloned().map(spelled_out).collect()
        })
    }

    /// When the next controller step is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.shared.lock().state.next_due()
    }

    /// Writes a manifest as somebody else: another field manager.
    pub async fn apply_as(&self, manager: &str, request: ApplyRequest) -> Result<Applied, ClusterError> {
        match self.write(Write::Apply { manager: manager.to_owned(), request }).await? {
            Written::Applied(applied) => Ok(applied),
            other => unreachable!("a manifest was written, and the answer is {other:?}"),
        }
    }

    async fn write(&self, write: Write) -> Result<Written, ClusterError> {
        self.call(|inner, now| inner.write(now, &write)).await
    }

    /// A call: half of the latency before the work, half of it after.
    async fn call<T>(
        &self,
        act: impl FnOnce(&mut Inner, Timestamp) -> Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        self.wait().await;
        let result = self.shared.act(|inner, now| {
            inner.refuse_if_broken()?;
            act(inner, now)
        });
        self.wait().await;
        result
    }

    async fn wait(&self) {
        if !self.shared.latency.is_zero() {
            tokio::time::sleep(self.shared.latency / 2).await;
        }
    }
}

#[async_trait]
impl Cluster for SimCluster {
    async fn discover(&self) -> Result<Discovery, ClusterError> {
        self.call(|inner, now| inner.state.discover(now)).await
    }

    /// It is none.
    async fn version(&self) -> Result<Option<String>, ClusterError> {
        Ok(None)
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        self.call(|inner, now| inner.state.get(now, gvk, namespace, name)).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        let mut listing = self.call(|inner, now| inner.state.list(now, &scope.gvk)).await?;
        listing.objects.retain(|object| in_scope(object, scope));
        listing.objects.iter_mut().for_each(|object| cut(object, scope.detail));
        Ok(listing)
    }

    async fn live(&self, query: &LiveQuery) -> Result<LiveAnswer, ClusterError> {
        let objects = self.call(|inner, now| inner.state.live(now, query)).await?;
        Ok(LiveAnswer { objects, ..LiveAnswer::default() })
    }

    /// Everybody may do everything here.
    async fn missing_rights(&self, _: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        Ok(BTreeSet::new())
    }

    async fn apply(&self, request: ApplyRequest) -> Result<Applied, ClusterError> {
        self.apply_as(FIELD_MANAGER, request).await
    }

    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError> {
        match self.write(Write::Put { object, operation }).await? {
            Written::Applied(applied) => Ok(applied.object),
            other => unreachable!("an object was put, and the answer is {other:?}"),
        }
    }

    async fn put_status(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        match self.write(Write::PutStatus { object, operation }).await? {
            Written::Applied(applied) => Ok(applied.object),
            other => unreachable!("a status was put, and the answer is {other:?}"),
        }
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Deleted, ClusterError> {
        match self.write(Write::Delete { request }).await? {
            Written::Deleted(deleted) => Ok(deleted),
            other => unreachable!("an object was deleted, and the answer is {other:?}"),
        }
    }

    async fn remove_finalizer(
        &self,
        key: &ObjectKey,
        _gvk: &Gvk,
        uid: &str,
        finalizer: &str,
        operation: Option<OperationId>,
    ) -> Result<(), ClusterError> {
        let (key, uid, finalizer) = (key.clone(), uid.to_owned(), finalizer.to_owned());
        self.write(Write::RemoveFinalizer { key, uid, finalizer, operation }).await.map(drop)
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        let begun = self.call(|inner, now| {
            let cursor = inner.state.watch_since(now, &scope.gvk, resource_version)?;
            Ok((cursor, inner.subscribe(scope.gvk.group_kind())))
        });
        let (cursor, changed) = begun.await?;
        let (changes, scope) = (stream::watch(self.shared.clone(), cursor, changed), scope.clone());
        Ok(Box::pin(changes.filter_map(move |change| std::future::ready(scoped(change, &scope)))))
    }

    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        self.call(|inner, now| inner.state.pods(now, owner)).await
    }

    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        _container: &str,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        self.call(|inner, now| inner.state.logs(now, namespace, pod, limit_bytes)).await
    }

    /// All containers of a pod write the same.
    async fn follow_logs(&self, container: &Container, from: LogsFrom) -> Result<LogStream, ClusterError> {
        self.wait().await;
        let begun = logs::begin(&self.shared, container, from);
        self.wait().await;
        begun
    }

    /// It knows of no rights: whoever writes may do so.
    fn as_user(&self, _: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        Ok(Arc::new(self.clone()))
    }

    /// A call takes as long as it takes here, and none is kept back.
    fn strain(&self) -> Option<Strain> {
        None
    }
}

fn in_scope(object: &Object, scope: &Scope) -> bool {
    scope.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
}

/// Leaves of an object what was asked for.
fn cut(object: &mut Object, detail: Detail) {
    if detail == Detail::Metadata {
        object.fields_mut().retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    }
}

fn scoped(
    change: Result<WatchEvent, ClusterError>,
    scope: &Scope,
) -> Option<Result<WatchEvent, ClusterError>> {
    let mut change = change;
    if let Ok(WatchEvent::Applied(object) | WatchEvent::Deleted(object)) = &mut change {
        if !in_scope(object, scope) {
            return None;
        }
        cut(object, scope.detail);
    }
    Some(change)
}
