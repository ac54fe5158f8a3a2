//! A process that dies at a chosen point: before or after a log append or a cluster call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_cluster::{Call, Cluster, ClusterError, Layer};
use tidegate_model::{Digest, StreamId, Timestamp};
use tidegate_oplog::{
    Blobs, Compacted, Damage, History, Inventories, InventoryUpdate, Known, LogError, Lookup, MemoryLog,
    OperationLog, RawAppend, RawEntry, RawLoaded, Record, Retention,
};
use tokio::sync::Notify;

/// The process has died.
#[derive(Debug)]
pub struct Died;

/// Counts the points of one process, and kills it at the chosen one.
#[derive(Debug, Default)]
pub struct Points {
    passed: AtomicU64,
    /// The process dies at this point, counted from 1; 0 for never.
    dies_at: u64,
    /// Only changes of files are points.
    of_files: bool,
    dead: AtomicBool,
    death: Notify,
}

impl Points {
    /// A process that dies at point `dies_at`, counted from 1; 0 for never.
    pub fn dying_at(dies_at: u64) -> Arc<Self> {
        Arc::new(Self { dies_at, ..Self::default() })
    }

    /// A process that dies at a change of a file, counted from 1, and nowhere else; 0 for never.
    pub fn dying_at_file(dies_at: u64) -> Arc<Self> {
        Arc::new(Self { dies_at, of_files: true, ..Self::default() })
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
        if self.of_files { self.is_dead() } else { self.count() }
    }

    /// A change of a file, which the process survives, or dies at.
    ///
    /// # Errors
    ///
    /// It dies there, or is dead.
    pub fn change(&self) -> Result<(), Died> {
        if self.count() { Err(Died) } else { Ok(()) }
    }

    fn count(&self) -> bool {
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

    /// A point that the process passes, or dies at.
    pub fn survive(&self) -> Result<(), Died> {
        if self.hit() { Err(Died) } else { Ok(()) }
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

impl Layer for CrashCluster {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn around<T: Send>(
        &self,
        _: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        self.points.pass().await;
        let answer = answer.await;
        self.points.pass().await;
        answer
    }
}

/// A log as a dying process sees it. What was appended stays for the next process.
#[derive(Clone)]
pub struct CrashLog {
    /// The storage, shared by all processes.
    pub inner: MemoryLog,
    /// The process.
    pub points: Arc<Points>,
}

impl CrashLog {
    fn pass(&self) -> Result<(), LogError> {
        if self.points.hit() { Err(LogError::Poisoned) } else { Ok(()) }
    }
}

impl OperationLog for CrashLog {
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError> {
        self.pass()?;
        self.inner.append(group)?;
        self.pass()
    }

    fn load(&self, stream: StreamId) -> Result<RawLoaded, LogError> {
        self.inner.load(stream)
    }

    fn facts(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        self.inner.facts(stream)
    }

    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError> {
        self.inner.entry(stream)
    }

    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        self.inner.find(lookup)
    }

    fn ids(&self) -> Vec<StreamId> {
        self.inner.ids()
    }

    fn compact(&self, keep: &Retention, now: Timestamp) -> Result<Compacted, LogError> {
        self.inner.compact(keep, now)
    }

    fn damage(&self) -> Vec<Damage> {
        self.inner.damage()
    }
}

impl Blobs for CrashLog {
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        self.pass()?;
        let digest = self.inner.put_blob(content)?;
        self.pass()?;
        Ok(digest)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.inner.blob(digest)
    }
}

impl Inventories for CrashLog {
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError> {
        self.inner.inventory(cluster, application)
    }

    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        self.inner.change_inventory(update)
    }
}
