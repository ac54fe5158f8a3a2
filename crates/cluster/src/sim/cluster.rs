//! The simulated cluster behind the engine's [`Cluster`] interface. It adds latency, wakes watchers and
//! persists writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use tidegate_model::annotations::FIELD_MANAGER;
use tidegate_model::{Discovery, Gvk, Object, OperationId, Timestamp};
use tokio::sync::watch;

use super::journal::Journal;
use super::ownership::with_decoded_fields;
use super::shared_state::{ClusterState, SharedState};
use super::write::{Write, WriteResult};
use super::{AuditEntry, Clock, SimConfig, SimError, SimState};
use super::{logs, watch_stream};
use crate::{
    ApplyRequest, ApplyResult, Backpressure, Cluster, ClusterError, Container, DeleteRequest, DeleteResult,
    Detail, FinalizerRemoval, JobStart, Listing, LiveQuery, LiveResult, LogStart, LogStream, MissingRight,
    Right, Scope, WatchEvent, WatchStream,
};

/// A simulated Kubernetes behind the [`Cluster`] trait.
///
/// Each call does its work in one step between two waits. A call dropped during a wait has taken effect
/// completely or not at all. Controllers run during calls and watches, each step at its own time, without a
/// background task.
#[derive(Clone, Debug)]
pub struct SimCluster {
    shared: Arc<SharedState>,
}

impl SimCluster {
    /// Creates a cluster in memory, dropped with its last handle.
    pub fn in_memory(config: SimConfig, clock: Clock) -> Self {
        let state = SimState::new(config, clock.now());
        Self::with_state(state, None, clock)
    }

    /// Opens a cluster stored in its own folder, and creates the folder if it doesn't exist. Acknowledged
    /// writes survive even if the process is killed. The caller must ensure that only one process has the
    /// folder open.
    pub fn open(dir: &Path, config: SimConfig, clock: Clock) -> Result<Self, SimError> {
        let (journal, state) = Journal::open(dir, config, clock.now())?;
        let clock = clock.starting_no_earlier_than(state.now);
        Ok(Self::with_state(state, Some(journal), clock))
    }

    fn with_state(state: SimState, journal: Option<Journal>, clock: Clock) -> Self {
        let latency = state.config().latency;
        let (notified_revision, announced_due) = (state.revision(), state.next_due());
        let inner = Mutex::new(ClusterState {
            state,
            kinds: BTreeMap::new(),
            notified_revision,
            announced_due,
            journal,
            journal_failure: None,
        });
        Self { shared: Arc::new(SharedState { inner, clock, latency, schedule: watch::Sender::new(0) }) }
    }

    /// Returns every write since the cluster was created, in order. A cluster stored in a folder returns only
    /// the newest writes. To read earlier writes as well, use [`read_audit`](super::read_audit).
    pub fn audit(&self) -> Vec<AuditEntry> {
        self.shared.lock().state.audit().to_vec()
    }

    /// Returns all current objects, sorted by key.
    pub fn objects(&self) -> Vec<Object> {
        self.shared.with_state(|inner, now| {
            inner.state.advance(now);
            inner.state.objects().cloned().map(with_decoded_fields).collect()
        })
    }

    /// Returns the time of the next controller step.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.shared.lock().state.next_due()
    }

    /// Writes a manifest as the given field manager.
    pub async fn apply_as(&self, manager: &str, request: ApplyRequest) -> Result<ApplyResult, ClusterError> {
        match self.write(Write::Apply { manager: manager.to_owned(), request }).await? {
            WriteResult::Applied(applied) => Ok(applied),
            other => unreachable!("unexpected response to an apply: {other:?}"),
        }
    }

    async fn write(&self, write: Write) -> Result<WriteResult, ClusterError> {
        self.run_call(|inner, now| inner.write(now, &write)).await
    }

    /// Runs a call. Half of the latency passes before the work and half after it.
    async fn run_call<T>(
        &self,
        act: impl FnOnce(&mut ClusterState, Timestamp) -> Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        self.wait_half_latency().await;
        let result = self.shared.with_state(|inner, now| {
            inner.check_journal()?;
            act(inner, now)
        });
        self.wait_half_latency().await;
        result
    }

    async fn wait_half_latency(&self) {
        if !self.shared.latency.is_zero() {
            tokio::time::sleep(self.shared.latency / 2).await;
        }
    }
}

#[async_trait]
impl Cluster for SimCluster {
    async fn discover(&self) -> Result<Discovery, ClusterError> {
        self.run_call(|inner, now| inner.state.discover(now)).await
    }

    /// The simulation does not report a Kubernetes version.
    async fn version(&self) -> Result<Option<String>, ClusterError> {
        Ok(None)
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        self.run_call(|inner, now| inner.state.get(now, gvk, namespace, name)).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        let mut listing = self.run_call(|inner, now| inner.state.list(now, &scope.gvk)).await?;
        listing.objects.retain(|object| is_in_scope(object, scope));
        listing.objects.iter_mut().for_each(|object| reduce_detail(object, scope.detail));
        Ok(listing)
    }

    async fn list_live(&self, query: &LiveQuery) -> Result<LiveResult, ClusterError> {
        let objects = self.run_call(|inner, now| inner.state.list_live(now, query)).await?;
        Ok(LiveResult { objects, ..LiveResult::default() })
    }

    /// The simulation has no access control.
    async fn missing_rights(&self, _: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        Ok(BTreeSet::new())
    }

    async fn apply(&self, request: ApplyRequest) -> Result<ApplyResult, ClusterError> {
        self.apply_as(FIELD_MANAGER, request).await
    }

    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError> {
        match self.write(Write::Put { object, operation }).await? {
            WriteResult::Applied(applied) => Ok(applied.object),
            other => unreachable!("unexpected response to a put: {other:?}"),
        }
    }

    async fn put_status(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        match self.write(Write::PutStatus { object, operation }).await? {
            WriteResult::Applied(applied) => Ok(applied.object),
            other => unreachable!("unexpected response to a put of a status: {other:?}"),
        }
    }

    async fn delete(&self, request: DeleteRequest) -> Result<DeleteResult, ClusterError> {
        match self.write(Write::Delete { request }).await? {
            WriteResult::Deleted(deleted) => Ok(deleted),
            other => unreachable!("unexpected response to a delete: {other:?}"),
        }
    }

    async fn remove_finalizer(&self, request: FinalizerRemoval) -> Result<(), ClusterError> {
        let (key, FinalizerRemoval { uid, finalizer, operation, .. }) = (request.key(), request);
        self.write(Write::RemoveFinalizer { key, uid, finalizer, operation }).await.map(drop)
    }

    async fn start_job(&self, request: JobStart) -> Result<Object, ClusterError> {
        match self.write(Write::StartJob { request }).await? {
            WriteResult::Applied(applied) => Ok(applied.object),
            other => unreachable!("unexpected response to the start of a Job: {other:?}"),
        }
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        let started = self.run_call(|inner, now| {
            let cursor = inner.state.watch_since(now, &scope.gvk, resource_version)?;
            Ok((cursor, inner.subscribe(scope.gvk.group_kind())))
        });
        let (cursor, changed) = started.await?;
        let (changes, scope) =
            (watch_stream::stream_changes(self.shared.clone(), cursor, changed), scope.clone());
        Ok(Box::pin(changes.filter_map(move |change| std::future::ready(filter_by_scope(change, &scope)))))
    }

    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        self.run_call(|inner, now| inner.state.pods(now, owner)).await
    }

    async fn events(&self, object: &Object) -> Result<Vec<Object>, ClusterError> {
        self.run_call(|inner, now| inner.state.events(now, object)).await
    }

    async fn logs(&self, container: &Container, limit_bytes: usize) -> Result<String, ClusterError> {
        self.run_call(|inner, now| inner.state.read_logs(now, container, limit_bytes)).await
    }

    /// Streams the pod's log, because all containers of a pod write the same lines.
    async fn follow_logs(&self, container: &Container, from: LogStart) -> Result<LogStream, ClusterError> {
        self.wait_half_latency().await;
        let started = logs::follow_pod(&self.shared, container, from);
        self.wait_half_latency().await;
        started
    }

    /// Without access control, every user may write.
    fn as_user(&self, _: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        Ok(Arc::new(self.clone()))
    }

    /// Latency is fixed, and calls are never throttled.
    fn backpressure(&self) -> Option<Backpressure> {
        None
    }
}

fn is_in_scope(object: &Object, scope: &Scope) -> bool {
    scope.namespace.as_deref().is_none_or(|namespace| namespace == object.namespace())
}

/// Reduces an object to the requested level of detail.
fn reduce_detail(object: &mut Object, detail: Detail) {
    if detail == Detail::Metadata {
        object.fields_mut().retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    }
}

fn filter_by_scope(
    change: Result<WatchEvent, ClusterError>,
    scope: &Scope,
) -> Option<Result<WatchEvent, ClusterError>> {
    let mut change = change;
    if let Ok(WatchEvent::Applied(object) | WatchEvent::Deleted(object)) = &mut change {
        if !is_in_scope(object, scope) {
            return None;
        }
        reduce_detail(object, scope.detail);
    }
    Some(change)
}
