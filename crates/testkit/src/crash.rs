//! A process that dies at a chosen point: before or after a log append or a cluster call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use tidegate_cluster::{
    Applied, ApplyRequest, Cluster, ClusterError, DeleteRequest, Deleted, Listing, LiveQuery, Scope,
    WatchStream,
};
use tidegate_lifecycle::operation::{Fact, State};
use tidegate_model::{Digest, Discovery, Gvk, Object, ObjectKey, OperationId};
use tidegate_oplog::{Append, Compacted, Damage, Known, Loaded, LogError, MemoryLog, OperationLog, Summary};
use tokio::sync::Notify;

/// Counts the points of one process, and kills it at the chosen one.
#[derive(Debug, Default)]
pub struct Points {
    passed: AtomicU64,
    /// The process dies at this point, counted from 1; 0 for never.
    dies_at: u64,
    dead: AtomicBool,
    death: Notify,
}

impl Points {
    /// A process that dies at point `dies_at`, counted from 1; 0 for never.
    pub fn dying_at(dies_at: u64) -> Arc<Self> {
        Arc::new(Self { dies_at, ..Self::default() })
    }

    /// How many points were passed.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    /// Returns when the process has died.
    pub async fn death(&self) {
        let death = self.death.notified();
        if !self.dead.load(Ordering::SeqCst) {
            death.await;
        }
    }

    /// Whether the process has died.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Whether the process is dead from here on.
    fn hit(&self) -> bool {
        if self.dead.load(Ordering::SeqCst) {
            return true;
        }
        let point = self.passed.fetch_add(1, Ordering::SeqCst) + 1;
        if point == self.dies_at {
            self.dead.store(true, Ordering::SeqCst);
            self.death.notify_waiters();
            self.death.notify_one();
        }
        point == self.dies_at
    }

    /// A dead process does nothing ever again.
    async fn pass(&self) {
        if self.hit() {
            std::future::pending::<()>().await;
        }
    }
}

/// A cluster as a dying process sees it.
pub struct CrashCluster {
    /// The real one.
    pub inner: Arc<dyn Cluster>,
    /// The process.
    pub points: Arc<Points>,
}

macro_rules! around {
    ($self:ident, $call:expr) => {{
        $self.points.pass().await;
        let answer = $call.await;
        $self.points.pass().await;
        answer
    }};
}

#[async_trait]
impl Cluster for CrashCluster {
    async fn discover(&self) -> Result<Discovery, ClusterError> {
        around!(self, self.inner.discover())
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        around!(self, self.inner.get(gvk, namespace, name))
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        around!(self, self.inner.list(scope))
    }

    async fn live(&self, query: &LiveQuery) -> Result<Vec<Object>, ClusterError> {
        around!(self, self.inner.live(query))
    }

    async fn apply(&self, request: ApplyRequest) -> Result<Applied, ClusterError> {
        around!(self, self.inner.apply(request))
    }

    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError> {
        around!(self, self.inner.put(object, operation))
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Deleted, ClusterError> {
        around!(self, self.inner.delete(request))
    }

    async fn remove_finalizer(
        &self,
        key: &ObjectKey,
        gvk: &Gvk,
        uid: &str,
        finalizer: &str,
        operation: Option<OperationId>,
    ) -> Result<(), ClusterError> {
        around!(self, self.inner.remove_finalizer(key, gvk, uid, finalizer, operation))
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        around!(self, self.inner.watch(scope, resource_version))
    }

    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        around!(self, self.inner.pods(owner))
    }

    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        around!(self, self.inner.logs(namespace, pod, container, limit_bytes))
    }
}

/// A log as a dying process sees it. What was appended stays for the next process.
#[derive(Clone)]
pub struct CrashLog {
    /// The storage, shared by all processes.
    pub inner: MemoryLog<Fact, State>,
    /// The process.
    pub points: Arc<Points>,
}

impl CrashLog {
    fn pass(&self) -> Result<(), LogError> {
        if self.points.hit() { Err(LogError::Poisoned) } else { Ok(()) }
    }
}

impl OperationLog<Fact, State> for CrashLog {
    fn append(&self, group: Vec<Append<Fact, State>>) -> Result<(), LogError> {
        self.pass()?;
        self.inner.append(group)?;
        self.pass()
    }

    fn load(&self, operation: OperationId) -> Result<Loaded<Fact, State>, LogError> {
        self.inner.load(operation)
    }

    fn facts(&self, operation: OperationId) -> Result<Vec<Fact>, LogError> {
        self.inner.facts(operation)
    }

    fn summaries(&self) -> Result<Vec<Summary>, LogError> {
        self.inner.summaries()
    }

    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError> {
        self.inner.inventory(cluster, application)
    }

    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        self.pass()?;
        let digest = self.inner.put_blob(content)?;
        self.pass()?;
        Ok(digest)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.inner.blob(digest)
    }

    fn compact(&self, history: usize) -> Result<Compacted, LogError> {
        self.inner.compact(history)
    }

    fn damage(&self) -> Vec<Damage> {
        self.inner.damage()
    }
}
