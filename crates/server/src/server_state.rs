//! State of the API server: the process's handles, once they are available.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use http::Uri;

use tidegate_appset_controller::AppSetService;
use tidegate_daemon::queries::Queries;
use tidegate_executor::{Clock as _, Engine, SystemClock};
use tidegate_oplog::Shard;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::event_buffer::EventBuffer;
use crate::event_publisher::publish_events;
use crate::limits::Limits;
use crate::metrics::{Metrics, render_metrics};
use crate::owner::{Owner, OwnerWatch, ShardOwners};
use crate::problem::{Code, Problem};
use crate::session_store::{SessionStore, keep_sessions};
use crate::sessions::Sessions;

/// Process handles needed to answer requests.
struct ServiceHandles {
    queries: Arc<Queries>,
    engine: Engine,
}

/// Returns a number that identifies this process in the IDs of its events.
fn random_process_id() -> Option<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

fn other_services(owners: &ShardOwners) -> BTreeMap<String, Option<Uri>> {
    let mut others = BTreeMap::new();
    for owner in owners.values() {
        if let Owner::Other { name, address } = owner
            && !others.contains_key(name)
        {
            others.insert(name.clone(), address.clone());
        }
    }
    others
}

/// State of the API server. The server accepts requests before the handles are set; until then, its responses
/// say what is missing.
pub struct ServerState {
    handles: OnceLock<ServiceHandles>,
    shutdown: watch::Sender<bool>,
    /// Reason why the service is waiting, at startup or during an outage of the log's database, if it is.
    wait_reason: watch::Sender<Option<String>>,
    /// Leader of a shared operation log.
    leader: watch::Sender<Owner>,
    /// Owners of its shards, if the services share the work.
    shard_owners: watch::Sender<ShardOwners>,
    /// Reason why a standby can't forward requests to the leader, if it can't.
    leader_failure: watch::Sender<Option<String>>,
    sessions: Arc<Sessions>,
    event_buffer: Arc<EventBuffer>,
    pub(crate) metrics: Arc<Metrics>,
    /// Permits for event streams.
    stream_permits: Arc<Semaphore>,
    streams_max: usize,
}

impl Default for ServerState {
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

impl ServerState {
    /// Creates the state without handles.
    pub fn new(limits: &Limits) -> Self {
        let now = SystemClock.now();
        let process =
            random_process_id().unwrap_or_else(|| u64::try_from(now.as_millis()).unwrap_or_default());
        Self {
            handles: OnceLock::new(),
            shutdown: watch::Sender::new(false),
            wait_reason: watch::Sender::new(None),
            leader: watch::Sender::new(Owner::This),
            shard_owners: watch::Sender::default(),
            // The first check follows at once.
            leader_failure: watch::Sender::new(Some("the leader has not been checked yet".to_owned())),
            sessions: Arc::default(),
            event_buffer: Arc::new(EventBuffer::new(process, now)),
            metrics: Arc::new(Metrics::new(now)),
            stream_permits: Arc::new(Semaphore::new(limits.streams)),
            streams_max: limits.streams,
        }
    }

    /// Sets the handles. Called once the log is open and the engine is running.
    pub fn set_handles(&self, queries: Arc<Queries>, engine: Engine) {
        // Both tasks stop with the engine.
        let (event_buffer, metrics) = (Arc::clone(&self.event_buffer), Arc::clone(&self.metrics));
        tokio::spawn(publish_events(engine.clone(), Arc::clone(&queries), event_buffer, metrics));
        let (metrics, counted) = (Arc::clone(&self.metrics), engine.clone());
        tokio::spawn(async move {
            if let Err(error) = metrics.collect_events(&counted).await {
                tracing::error!(%error, "failed to read events; operation metrics are missing");
            }
        });
        // A process sets its handles only once.
        let _ = self.handles.set(ServiceHandles { queries, engine });
        self.leader.send_replace(Owner::This);
    }

    /// Restores the web page's sessions from a store, and stores later changes.
    pub async fn keep_sessions(&self, store: Arc<dyn SessionStore>) {
        keep_sessions(&self.sessions, store).await;
    }

    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Sets the leader that a standby forwards requests to. [`ServerState::set_handles`] makes this service the leader.
    pub fn set_leader(&self, leader: Owner) {
        self.leader.send_if_modified(|current| {
            let is_changed = *current != leader;
            *current = leader;
            is_changed
        });
    }

    pub(crate) fn set_leader_failure(&self, failure: Option<String>) {
        self.leader_failure.send_replace(failure);
    }

    /// Returns the reason why the service is waiting, if it is.
    pub(crate) fn wait_reason(&self) -> Option<String> {
        self.wait_reason.borrow().clone()
    }

    /// Lets requests wait for this service, which is taking over as the leader.
    pub fn take_over(&self) {
        self.set_wait_reason(None);
        self.set_leader(Owner::Changing);
    }

    /// Sets the owners of the shards. This service must own only shards whose Applications and ApplicationSets it
    /// manages.
    pub fn set_shard_owners(&self, owners: ShardOwners) {
        self.shard_owners.send_if_modified(|current| {
            let is_changed = *current != owners;
            *current = owners;
            is_changed
        });
    }

    /// Returns the other services that own shards, by name, with the URLs of their APIs.
    pub(crate) fn other_services(&self) -> BTreeMap<String, Option<Uri>> {
        other_services(&self.shard_owners.borrow())
    }

    /// Waits until other services own the shards.
    pub(crate) fn wait_for_other_services(
        &self,
        current: BTreeMap<String, Option<Uri>>,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut owners = self.shard_owners.subscribe();
        async move {
            if owners.wait_for(|owners| other_services(owners) != current).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Returns true if this service is the leader, or shares the work with other services.
    pub(crate) fn handles_requests(&self) -> bool {
        *self.leader.borrow() == Owner::This
    }

    /// Returns a watch of the leader.
    pub(crate) fn leader(&self) -> OwnerWatch {
        OwnerWatch::Leader(self.leader.subscribe())
    }

    /// Returns a watch of a shard's owner.
    pub(crate) fn shard_owner(&self, shard: Shard) -> OwnerWatch {
        OwnerWatch::Shard { owners: self.shard_owners.subscribe(), shard }
    }

    /// Sets or clears the reason why the service is waiting.
    pub fn set_wait_reason(&self, reason: Option<String>) {
        self.wait_reason.send_replace(reason);
    }

    /// Ends event streams. Requests in progress still complete.
    pub fn shut_down(&self) {
        self.shutdown.send_replace(true);
    }

    /// Returns a receiver that becomes true on shutdown.
    pub(crate) fn shutdown_signal(&self) -> watch::Receiver<bool> {
        self.shutdown.subscribe()
    }

    pub(crate) fn event_buffer(&self) -> &Arc<EventBuffer> {
        &self.event_buffer
    }

    /// Renders all metrics as text.
    pub(crate) fn render_metrics(&self) -> String {
        let parts = self.handles.get();
        let service = parts.and_then(|parts| parts.queries.applications_if_ready());
        let listening = self.streams_max.saturating_sub(self.stream_permits.available_permits());
        let listening = u64::try_from(listening).unwrap_or(u64::MAX);
        let appsets = parts.and_then(|parts| parts.queries.appsets_if_ready());
        render_metrics(&self.metrics, parts.map(|parts| &parts.engine), service.as_ref(), appsets, listening)
    }

    /// Returns a permit for an event stream, if available.
    pub(crate) fn acquire_stream_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.stream_permits).try_acquire_owned().ok()
    }

    /// Returns the query handler.
    pub(crate) fn queries(&self) -> Result<&Arc<Queries>, Problem> {
        let missing = || {
            let reason = self.wait_reason().unwrap_or_else(|| "the operation log is not open yet".to_owned());
            Problem::new(Code::NotReady, reason)
        };
        self.handles.get().map(|parts| &parts.queries).ok_or_else(missing)
    }

    /// Returns the failure reason of the engine or a service, if one has failed.
    pub(crate) fn failure_reason(&self) -> Option<String> {
        let parts = self.handles.get()?;
        let service = parts.queries.applications_if_ready();
        let appsets = || parts.queries.appsets_if_ready().and_then(AppSetService::failure);
        let failure = service.and_then(|service| service.failure()).or_else(appsets);
        let failure = failure.or_else(|| parts.engine.failure());
        Some(failure?.to_string())
    }

    /// Returns the reason why the server is not ready, if any.
    pub(crate) fn missing_part(&self) -> Option<String> {
        if *self.shutdown.borrow() {
            return Some("the process is shutting down".to_owned());
        }
        if self.leader.borrow().has_address() {
            return self.leader_failure.borrow().clone();
        }
        match self.queries() {
            Err(problem) => Some(problem.message),
            Ok(queries) if !queries.has_observed_applications() => {
                Some("the first comparison of the applications is in progress".to_owned())
            }
            Ok(_) => self.wait_reason().or_else(|| self.failure_reason()),
        }
    }
}
