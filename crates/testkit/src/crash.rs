//! Process that crashes at a chosen point: before or after a log append or a cluster call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_cluster::{Call, Cluster, ClusterError, Layer, PendingCall};
use tidegate_model::{Digest, StreamId, Timestamp};
use tidegate_oplog::{
    ApplicationInventory, Blobs, CompactionResult, Damage, History, Inventories, InventoryUpdate, LogError,
    Lookup, MemoryLog, OperationLog, RawAppend, RawEntry, RawLoadedStream, Record, Retention,
};
use tokio::sync::Notify;

/// The process has crashed.
#[derive(Debug)]
pub struct ProcessCrash;

/// Counter of a process's crash points. Crashes the process at the chosen one.
#[derive(Debug, Default)]
pub struct CrashPoints {
    passed: AtomicU64,
    /// Number of the crash point, starting at 1; 0 never crashes.
    crash_point: u64,
    /// True if only file changes are crash points.
    only_file_changes: bool,
    has_crashed: AtomicBool,
    crash_notify: Notify,
}

impl CrashPoints {
    /// Creates the crash points of a process that crashes at this one, starting at 1. 0 never crashes.
    pub fn crash_at(crash_point: u64) -> Arc<Self> {
        Arc::new(Self { crash_point, ..Self::default() })
    }

    /// Creates the crash points of a process that crashes only at this file change, starting at 1. 0 never
    /// crashes.
    pub fn crash_at_file_change(crash_point: u64) -> Arc<Self> {
        Arc::new(Self { crash_point, only_file_changes: true, ..Self::default() })
    }

    /// Returns the number of crash points passed.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::SeqCst)
    }

    /// Waits until the process has crashed.
    pub async fn wait_for_crash(&self) {
        let death = self.crash_notify.notified();
        if !self.has_crashed.load(Ordering::SeqCst) {
            death.await;
        }
    }

    /// Returns true if the process has crashed.
    pub fn has_crashed(&self) -> bool {
        self.has_crashed.load(Ordering::SeqCst)
    }

    /// Counts a crash point, unless only file changes count. Returns true if the process has crashed.
    fn reach_point(&self) -> bool {
        if self.only_file_changes { self.has_crashed() } else { self.count_point() }
    }

    /// Passes a file change, or crashes the process there.
    ///
    /// # Errors
    ///
    /// Fails if the process crashes here or has crashed before.
    pub fn pass_file_change(&self) -> Result<(), ProcessCrash> {
        if self.count_point() { Err(ProcessCrash) } else { Ok(()) }
    }

    fn count_point(&self) -> bool {
        if self.has_crashed.load(Ordering::SeqCst) {
            return true;
        }
        let point = self.passed.fetch_add(1, Ordering::SeqCst) + 1;
        if point == self.crash_point {
            self.has_crashed.store(true, Ordering::SeqCst);
            self.crash_notify.notify_waiters();
            self.crash_notify.notify_one();
        }
        point == self.crash_point
    }

    /// Passes a crash point, or crashes the process there.
    pub fn try_pass(&self) -> Result<(), ProcessCrash> {
        if self.reach_point() { Err(ProcessCrash) } else { Ok(()) }
    }

    /// Passes a crash point. Never returns in a crashed process.
    async fn pass(&self) {
        if self.reach_point() {
            std::future::pending::<()>().await;
        }
    }
}

/// Cluster as seen by a process that may crash.
pub struct CrashCluster {
    /// The actual cluster.
    pub inner: Arc<dyn Cluster>,
    /// The process.
    pub points: Arc<CrashPoints>,
}

impl Layer for CrashCluster {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn intercept<T: Send>(&self, _: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        self.points.pass().await;
        let answer = answer.await;
        self.points.pass().await;
        answer
    }
}

/// Log as seen by a process that may crash. Appended records remain for the next process.
#[derive(Clone)]
pub struct CrashLog {
    /// Storage shared by all processes.
    pub inner: MemoryLog,
    /// The process.
    pub points: Arc<CrashPoints>,
}

impl CrashLog {
    fn pass(&self) -> Result<(), LogError> {
        if self.points.reach_point() { Err(LogError::Poisoned) } else { Ok(()) }
    }
}

impl OperationLog for CrashLog {
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError> {
        self.pass()?;
        self.inner.append(group)?;
        self.pass()
    }

    fn load(&self, stream: StreamId) -> Result<RawLoadedStream, LogError> {
        self.inner.load(stream)
    }

    fn events(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        self.inner.events(stream)
    }

    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError> {
        self.inner.entry(stream)
    }

    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        self.inner.find(lookup)
    }

    fn ids(&self) -> Result<Vec<StreamId>, LogError> {
        self.inner.ids()
    }

    fn schedule_compaction(&self) {
        self.inner.schedule_compaction();
    }

    fn compact_step(&self, keep: &Retention, now: Timestamp) -> Result<Option<CompactionResult>, LogError> {
        self.inner.compact_step(keep, now)
    }

    fn is_compaction_due(&self) -> bool {
        self.inner.is_compaction_due()
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
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<ApplicationInventory>, LogError> {
        self.inner.inventory(cluster, application)
    }

    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        self.inner.change_inventory(update)
    }
}
