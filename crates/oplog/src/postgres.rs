//! The operation log in PostgreSQL, shared by several replicas.
//!
//! ```text
//! replicas      joining, heartbeats, ownership of the shards
//! replica_list  replica list and requests to hand over
//! watch         pure detection of dead replicas
//! distribution  pure distribution of the shards among replicas that share the work
//! sharing       taking, requesting and handing over shards
//! writer        the writer of a process: groups, retries, unknown outcomes
//! append        one fenced transaction per group
//! read          streams and lookups
//! blobs         sealed content
//! compact       retention
//! kept          small named values, such as stored plans
//! images        streams for copies of a log
//! schema        tables and migrations
//! connection    TLS, time limits, errors
//! ```
//!
//! Every call blocks its thread, as with the other logs, but only for a limited time, with one exception: while the
//! database is unavailable, appends and new blobs wait. Nothing can start without being recorded, so the engine
//! has nothing else to do, and it continues by itself when the database is back. [`PostgresLog::outage`] reports
//! the wait.
//!
//! Only the owner of a shard can append to its streams. Either one replica owns all shards ([`PostgresLog::try_lead`])
//! and the others wait to take over, or the replicas share them ([`PostgresLog::share_shards`]). Every replica can
//! read.

mod append;
mod blobs;
mod compact;
mod connection;
mod distribution;
mod images;
mod kept;
mod read;
mod replica_list;
mod replicas;
mod schema;
mod sharing;
mod watch;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tidegate_model::{Digest, StreamId, Timestamp};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex as AsyncMutex, Semaphore, watch as channel};
use tokio::time::Instant;
use tokio_postgres::Client;
use uuid::Uuid;

use self::compact::Compaction;
use self::schema::Joining;
use self::sharing::Sharing;
use self::writer::Writer;
use crate::append_checks::check_blob_size;
use crate::blobs::Sealing;
use crate::{
    ApplicationInventory, Blobs, Codecs, CompactionResult, Damage, History, Inventories, InventoryUpdate,
    LogError, LogKey, Lookup, OperationLog, RawAppend, RawEntry, RawLoadedStream, Record, Retention,
};

pub use self::connection::PostgresTarget;
pub use self::distribution::Shard;
pub use self::kept::KeptKind;
pub use self::replica_list::{DrainRequest, ListedReplica, ReplicaState};
pub use self::replicas::Replica;
pub use self::sharing::Ownership;

/// Maximum number of connections for reads.
const READERS: usize = 4;
/// Time after which a read fails if the database is unavailable.
const READ_DEADLINE: Duration = Duration::from_secs(10);
/// Delay before another attempt to reach the database.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Number of streams whose end is checked on a new connection.
const RECENT_MAX: usize = 1_000;
/// Interval between heartbeats.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Time after the start of a successful heartbeat during which this replica may write to clusters. Shorter than
/// the time after which another replica declares it dead.
pub const TENURE_COVERAGE: Duration = Duration::from_secs(5);
/// Message of PostgreSQL to a session that it ends.
const SESSION_END: &str = "terminating connection";
/// Maximum time for leaving the log on drop.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Options for joining a log in PostgreSQL.
pub struct PostgresOptions {
    /// Location of the log.
    pub target: PostgresTarget,
    /// Name of this process for messages to others, such as `pid 41 on node-1`.
    pub replica: String,
    /// URL of this process's API for the other replicas, if they can reach it.
    pub address: Option<String>,
    /// Key that seals the blobs. All replicas need the same one.
    pub key: LogKey,
    /// Stream kinds that this program knows.
    pub codecs: Codecs,
    /// Observer of the heartbeats, if any.
    pub observer: Option<Arc<dyn HeartbeatObserver>>,
    /// True if this replica shares the shards with others ([`PostgresLog::share_shards`]), instead of owning all of
    /// them or none.
    pub shares: bool,
}

/// Observer of a replica's heartbeats. Writes to clusters are safe for a while after the start of each successful
/// heartbeat, because no other replica can have declared this one dead by then.
pub trait HeartbeatObserver: Send + Sync + 'static {
    /// Called at the start of a heartbeat. The returned function is called if the heartbeat succeeds.
    fn begin(&self) -> Box<dyn FnOnce() + Send>;
}

/// A log in PostgreSQL. Dropping it gives up the shards and leaves.
pub struct PostgresLog {
    inner: Arc<Inner>,
    runtime: Option<Runtime>,
}

impl std::fmt::Debug for PostgresLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresLog").field("target", &self.inner.target).finish_non_exhaustive()
    }
}

/// Result of an attempt to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeadAttempt {
    /// This replica owns all shards.
    Leading,
    /// Another replica is the leader, or was the last one and may be dead. `is_alive` is true if its heartbeats
    /// were seen to continue.
    Held {
        /// The other replica.
        replica: Replica,
        /// True if a heartbeat of it was seen since this replica started to watch it.
        is_alive: bool,
    },
}

/// Reason why a replica can never write again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The replica with this name has declared it dead.
    Evicted(String),
    /// The database has lost acknowledged events of these streams.
    Events(String),
}

impl Loss {
    /// Returns the error for all later writes.
    pub fn error(&self) -> LogError {
        match self {
            Self::Evicted(by) => LogError::Evicted { by: by.clone() },
            Self::Events(streams) => LogError::LostEnd { streams: streams.clone() },
        }
    }
}

struct Inner {
    target: PostgresTarget,
    incarnation: Uuid,
    name: String,
    address: Option<String>,
    codecs: Codecs,
    sealing: Sealing,
    shares: bool,
    writer: AsyncMutex<Writer>,
    /// Locked before the writer.
    sharing: AsyncMutex<Sharing>,
    idle_readers: Mutex<Vec<Client>>,
    reader_places: Semaphore,
    /// Blobs that this replica has stored and not referred to yet, and how often.
    holds: Mutex<BTreeMap<Digest, u64>>,
    /// Progress of the compaction, and the growth since the last one.
    compaction: Mutex<Compaction>,
    is_compaction_due: AtomicBool,
    /// Reason why the database is unavailable, if it is.
    outage: channel::Sender<Option<String>>,
    /// Reason why this replica can never write again, if there is one.
    loss: channel::Sender<Option<Loss>>,
    /// True once this replica was asked to hand over and stop.
    drain_request: channel::Sender<bool>,
    observer: Option<Arc<dyn HeartbeatObserver>>,
    /// ID of the log, once joined.
    log_id: OnceLock<Uuid>,
    is_closing: AtomicBool,
    /// Start of the monotonic time for the watch.
    started_at: Instant,
}

impl PostgresLog {
    /// Joins a log. Creates or migrates its tables if necessary. The new replica can read, and owns no shard yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be reached or used, or if the log is encrypted with another key.
    pub fn join(options: PostgresOptions) -> Result<Self, LogError> {
        Self::join_as(options, false)
    }

    /// Joins a log as the target of a copy. The log may be an incomplete copy.
    pub fn join_for_copy(options: PostgresOptions) -> Result<Self, LogError> {
        Self::join_as(options, true)
    }

    fn join_as(options: PostgresOptions, is_copy: bool) -> Result<Self, LogError> {
        let (fingerprint, new_log) = (options.key.fingerprint(), random_id()?);
        let log = Self::new(options)?;
        log.wait(move |inner| {
            async move {
                let client = inner.target.connect(inner.incarnation).await?;
                let target = inner.target.to_string();
                if connection::has_only_asynchronous_standbys(&client).await? {
                    tracing::warn!(
                        "the standbys of the database {target} replicate asynchronously, so a failover can lose the \
                         newest events; set synchronous_standby_names in PostgreSQL"
                    );
                }
                let schema = inner.target.schema();
                let joining = Joining { target: &target, schema, key: fingerprint, new_log, is_copy };
                let id = schema::migrate(&client, joining).await?;
                let _ = inner.log_id.set(id);
                inner.join(&client).await?;
                tokio::spawn(Arc::clone(&inner).keep_beating());
                Ok(())
            }
            .boxed()
        })??;
        Ok(log)
    }

    /// Opens an existing log for reading. The process neither joins the log nor changes it. Returns `None` if the log
    /// doesn't exist. With `is_copy`, the log may be an incomplete copy.
    pub fn open_read_only(options: PostgresOptions, is_copy: bool) -> Result<Option<Self>, LogError> {
        let fingerprint = options.key.fingerprint();
        let log = Self::new(options)?;
        // A reader has nothing to leave.
        log.inner.is_closing.store(true, Ordering::SeqCst);
        let id = log.wait(move |inner| {
            async move {
                let client = inner.target.connect(inner.incarnation).await?;
                let target = inner.target.to_string();
                let schema = inner.target.schema();
                let joining =
                    Joining { target: &target, schema, key: fingerprint, new_log: Uuid::nil(), is_copy };
                schema::check_existing(&client, joining).await
            }
            .boxed()
        })??;
        let Some(id) = id else { return Ok(None) };
        let _ = log.inner.log_id.set(id);
        Ok(Some(log))
    }

    fn new(options: PostgresOptions) -> Result<Self, LogError> {
        let PostgresOptions { target, replica, address, key, codecs, observer, shares } = options;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tidegate-log")
            .enable_all()
            .build()
            .map_err(|error| LogError::Database { action: "start a thread", reason: error.to_string() })?;
        let inner = Arc::new(Inner {
            target,
            incarnation: random_id()?,
            name: replica,
            address,
            codecs,
            sealing: Sealing::new(key),
            shares,
            writer: AsyncMutex::default(),
            sharing: AsyncMutex::default(),
            idle_readers: Mutex::default(),
            reader_places: Semaphore::new(READERS),
            holds: Mutex::default(),
            compaction: Mutex::default(),
            is_compaction_due: AtomicBool::new(false),
            outage: channel::Sender::new(None),
            loss: channel::Sender::new(None),
            drain_request: channel::Sender::new(false),
            observer,
            log_id: OnceLock::new(),
            is_closing: AtomicBool::new(false),
            started_at: Instant::now(),
        });
        Ok(Self { inner, runtime: Some(runtime) })
    }

    /// Tries to become the leader: the owner of all shards. A standby calls this about once a second until it
    /// leads, because dead replicas are recognized by their heartbeats standing still.
    pub fn try_lead(&self) -> Result<LeadAttempt, LogError> {
        self.wait(|inner| async move { inner.try_lead().await }.boxed())?
    }

    /// Returns all replicas of this log.
    pub fn replicas(&self) -> Result<Vec<Replica>, LogError> {
        self.read(|inner, client| async move { inner.read_replicas(client).await }.boxed())
    }

    /// Returns the time of the database. It is the same for all replicas, unlike the clocks of their machines.
    pub fn time(&self) -> Result<Timestamp, LogError> {
        const QUERY: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        self.read(|_, client| {
            connection::within("read the time", async {
                client.query_typed_one(QUERY, &[]).await?.try_get(0).map(Timestamp::from_millis)
            })
            .boxed()
        })
    }

    /// Returns the incarnation of this replica.
    pub fn incarnation(&self) -> Uuid {
        self.inner.incarnation
    }

    /// Returns the reason why the database is unavailable, if it is.
    pub fn outage(&self) -> channel::Receiver<Option<String>> {
        self.inner.outage.subscribe()
    }

    /// Returns the reason why this replica can never write again, if there is one.
    pub fn loss(&self) -> channel::Receiver<Option<Loss>> {
        self.inner.loss.subscribe()
    }

    /// Returns true once `tidegate replicas drain` has asked this replica to hand over and stop.
    pub fn drain_request(&self) -> channel::Receiver<bool> {
        self.inner.drain_request.subscribe()
    }

    /// Returns the ID of the log, which is the same for all its replicas.
    pub fn log_id(&self) -> Uuid {
        self.inner.log_id.get().copied().unwrap_or_default()
    }

    /// Gives up all shards and leaves, so that a standby can take over at once.
    pub fn leave(&self) -> Result<(), LogError> {
        self.inner.is_closing.store(true, Ordering::SeqCst);
        self.wait(|inner| {
            async move {
                let work = async {
                    let mut writer = inner.writer.lock().await;
                    writer.tenure.clear();
                    let client = inner.target.connect(inner.incarnation).await?;
                    inner.leave(&client).await
                };
                tokio::time::timeout(LEAVE_TIMEOUT, work).await.unwrap_or(Ok(()))
            }
            .boxed()
        })?
    }

    fn seal(&self, name: Digest, content: &[u8]) -> Result<Vec<u8>, LogError> {
        self.inner
            .sealing
            .pack(name, content)
            .map_err(|reason| LogError::Database { action: "encrypt content", reason })
    }

    /// Runs a call in the log's runtime and blocks until it returns.
    fn wait<T: Send + 'static>(
        &self,
        call: impl FnOnce(Arc<Inner>) -> BoxFuture<'static, T> + Send + 'static,
    ) -> Result<T, LogError> {
        let (send, receive) = mpsc::sync_channel(1);
        let call = call(Arc::clone(&self.inner));
        self.runtime.as_ref().ok_or(LogError::Poisoned)?.spawn(async move {
            let _ = send.send(call.await);
        });
        // The sender is dropped only if the call panics or the runtime has stopped.
        receive.recv().map_err(|_| LogError::Poisoned)
    }

    /// Runs a read, and repeats it for a while if the database is unavailable.
    fn read<T: Send + 'static>(
        &self,
        call: impl for<'a> Fn(&'a Inner, &'a Client) -> BoxFuture<'a, Result<T, LogError>> + Send + Sync + 'static,
    ) -> Result<T, LogError> {
        self.wait(move |inner| {
            async move {
                let started = Instant::now();
                loop {
                    match inner.read_once(&call).await {
                        Err(error) if error.is_outage() && started.elapsed() < READ_DEADLINE => {
                            tokio::time::sleep(RETRY_DELAY).await;
                        }
                        result => return result,
                    }
                }
            }
            .boxed()
        })?
    }
}

impl Drop for PostgresLog {
    fn drop(&mut self) {
        if !self.inner.is_closing.load(Ordering::SeqCst)
            && let Err(error) = self.leave()
        {
            tracing::debug!(%error, "failed to leave the log");
        }
        if let Some(runtime) = self.runtime.take() {
            // A runtime must not wait for its threads inside another runtime.
            runtime.shutdown_background();
        }
    }
}

/// Returns a random ID.
fn random_id() -> Result<Uuid, LogError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| LogError::Database { action: "create an ID", reason: error.to_string() })?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

impl Inner {
    fn unseal(&self, name: Digest, sealed: &[u8]) -> Result<Vec<u8>, LogError> {
        self.sealing.unpack(name, sealed, || std::path::PathBuf::from(self.target.to_string()))
    }

    fn lock_holds(&self) -> MutexGuard<'_, BTreeMap<Digest, u64>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_compaction(&self) -> MutexGuard<'_, Compaction> {
        self.compaction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of the stream kinds that this program knows.
    fn known_kinds(&self) -> Vec<i32> {
        self.codecs.kinds().map(|kind| i32::from(kind.number())).collect()
    }

    /// Returns the protected blobs that these references release.
    fn released_holds(&self, claimed: &[Digest]) -> BTreeSet<Digest> {
        let holds = self.lock_holds();
        let times = |digest: &Digest| {
            u64::try_from(claimed.iter().filter(|other| *other == digest).count()).unwrap_or(u64::MAX)
        };
        claimed
            .iter()
            .filter(|digest| holds.get(digest).is_some_and(|held| *held <= times(digest)))
            .copied()
            .collect()
    }

    async fn read_once<T>(
        &self,
        call: &(impl for<'a> Fn(&'a Inner, &'a Client) -> BoxFuture<'a, Result<T, LogError>> + Send + Sync),
    ) -> Result<T, LogError> {
        // The semaphore is never closed.
        let _place = self.reader_places.acquire().await.map_err(|_| LogError::Poisoned)?;
        let idle = self.idle_readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let client = match idle.filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.target.connect(self.incarnation).await?,
        };
        let result = call(self, &client).await;
        if !client.is_closed() && !result.as_ref().is_err_and(LogError::is_outage) {
            self.idle_readers.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        }
        result
    }

    fn report_outage(&self, reason: Option<String>) {
        self.outage.send_if_modified(|current| {
            // The session ends because of the outage, often by this replica itself.
            let is_consequence = |reason: &String| reason.contains(SESSION_END);
            if current.is_some() && reason.as_ref().is_some_and(is_consequence) {
                return false;
            }
            let changes = *current != reason;
            if current.is_some() != reason.is_some() {
                match &reason {
                    Some(reason) => tracing::warn!(
                        reason,
                        "the database of the operation log is unavailable; operations start once it is available again"
                    ),
                    None => tracing::info!("the database of the operation log is available again"),
                }
            }
            *current = reason;
            changes
        });
    }

    /// Reports that the database has confirmed a heartbeat. While the writer waits, the outage continues, because a full
    /// disk, for example, can prevent larger writes only.
    fn report_heartbeat(&self) {
        if let Ok(_writer) = self.writer.try_lock() {
            self.report_outage(None);
        }
    }

    fn lose(&self, reason: Loss) {
        self.loss.send_if_modified(|current| {
            let is_first = current.is_none();
            current.get_or_insert(reason);
            is_first
        });
    }

    fn check_usable(&self) -> Result<(), LogError> {
        if let Some(reason) = self.loss.borrow().as_ref() {
            return Err(reason.error());
        }
        if self.is_closing.load(Ordering::SeqCst) { Err(LogError::Poisoned) } else { Ok(()) }
    }
}

impl OperationLog for PostgresLog {
    fn append(&self, group: Vec<RawAppend>) -> Result<(), LogError> {
        self.wait(move |inner| async move { inner.append(&group).await }.boxed())?
    }

    fn load(&self, stream: StreamId) -> Result<RawLoadedStream, LogError> {
        self.read(move |inner, client| inner.load_stream(client, stream).boxed())
    }

    fn events(&self, stream: StreamId) -> Result<History<Record>, LogError> {
        self.read(move |inner, client| inner.read_all_events(client, stream).boxed())
    }

    fn entry(&self, stream: StreamId) -> Result<Option<RawEntry>, LogError> {
        self.read(move |inner, client| inner.read_entry(client, stream).boxed())
    }

    fn find(&self, lookup: &Lookup) -> Result<Vec<RawEntry>, LogError> {
        let lookup = Arc::new(lookup.clone());
        self.read(move |inner, client| {
            let lookup = Arc::clone(&lookup);
            async move { inner.find_entries(client, &lookup).await }.boxed()
        })
    }

    fn ids(&self) -> Result<Vec<StreamId>, LogError> {
        self.read(|inner, client| inner.read_ids(client).boxed())
    }

    fn schedule_compaction(&self) {
        self.inner.lock_compaction().is_scheduled = true;
        self.inner.is_compaction_due.store(true, Ordering::SeqCst);
    }

    fn compact_step(&self, keep: &Retention, now: Timestamp) -> Result<Option<CompactionResult>, LogError> {
        let keep = *keep;
        self.wait(move |inner| async move { inner.compact_step(&keep, now).await }.boxed())?
    }

    fn is_compaction_due(&self) -> bool {
        self.inner.is_compaction_due.load(Ordering::SeqCst)
    }

    fn damage(&self) -> Vec<Damage> {
        Vec::new()
    }

    fn replica_id(&self) -> Option<Uuid> {
        Some(self.inner.incarnation)
    }
}

impl Blobs for PostgresLog {
    fn put_blob(&self, content: &[u8]) -> Result<Digest, LogError> {
        check_blob_size(content)?;
        let name = self.inner.sealing.name_of(content);
        let sealed = self.seal(name, content)?;
        self.wait(move |inner| async move { inner.put_blob(name, &sealed).await }.boxed())??;
        Ok(name)
    }

    fn blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        let sealed = self.read(move |inner, client| inner.read_blob(client, digest).boxed())?;
        self.inner.unseal(digest, &sealed)
    }
}

impl Inventories for PostgresLog {
    fn inventory(&self, cluster: &str, application: &str) -> Result<Option<ApplicationInventory>, LogError> {
        let key = Arc::new((cluster.to_owned(), application.to_owned()));
        self.read(move |_, client| {
            let key = Arc::clone(&key);
            async move { append::read_inventory(client, &key.0, &key.1).await }.boxed()
        })
    }

    fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        let update = update.clone();
        self.wait(move |inner| async move { inner.change_inventory(&update).await }.boxed())?
    }
}
