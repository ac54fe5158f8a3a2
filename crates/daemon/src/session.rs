//! An engine running in a state directory, with its log, clusters, actors and control socket. A process that
//! must connect to clusters opens the socket first.

use std::sync::Arc;
use std::time::Duration;

use tidegate_executor::{Engine, EngineError};
use tidegate_health::HealthRules;
use tidegate_model::Destination;
use tidegate_oplog::{Log, LogError, Retention};
use tidegate_state::clock;
use tidegate_state::clusters::Clusters;
use tidegate_state::error::ServiceError;
use tidegate_state::log;
use tidegate_state::notices::Notices;
use tidegate_state::simulated;
use tidegate_state::state_dir::StateDir;
use tidegate_state::user;

use crate::control::client;
use crate::control::server::ControlServer;
use crate::queries::{PendingResume, Queries};

/// Compaction interval of a long-lived process.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(3600);

/// A running engine.
pub struct Session {
    /// The engine.
    pub engine: Engine,
    /// Handler for queries from the control socket.
    pub queries: Arc<Queries>,
    server: Option<ControlServer>,
}

impl Session {
    /// Opens the state directory to run operations, creating it if necessary.
    pub async fn open(
        state_dir: &StateDir,
        clusters: Clusters,
        health: HealthRules,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        state_dir.create(notices)?;
        let log = log::open_locked(state_dir, notices, client::is_process_running).await?;
        Self::open_with_log(log, clusters, health, state_dir, notices).await
    }

    /// Like [`Session::open`], but with an already open log.
    pub async fn open_with_log(
        log: Log,
        clusters: Clusters,
        health: HealthRules,
        state_dir: &StateDir,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        Self::open_long_lived(log, clusters, health, None, state_dir, notices).await
    }

    /// Like [`Session::open_with_log`], but for a long-lived process. With `keep`, compacts the log every
    /// hour. Queries for Applications wait until those are managed.
    pub async fn open_long_lived(
        log: Log,
        clusters: Clusters,
        health: HealthRules,
        keep: Option<Retention>,
        state_dir: &StateDir,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        let lives_long = keep.is_some();
        let engine = start_engine(&log, clusters, health, keep, state_dir, notices).await?;
        let queries = Arc::new(Queries::with_engine(log, engine.clone()));
        if lives_long {
            queries.expect_applications();
        }
        let server = open_control_socket(state_dir, &queries, notices);
        Ok(Self { engine, queries, server })
    }

    /// Like [`Session::open_with_log`], but for a process whose socket is already open.
    pub async fn open_behind_socket(
        entrance: EarlySocket,
        clusters: Clusters,
        health: HealthRules,
        state_dir: &StateDir,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        let EarlySocket { log, queries, server } = entrance;
        let engine = start_engine(&log, clusters, health, None, state_dir, notices).await?;
        queries.set_engine(engine.clone());
        Ok(Self { engine, queries, server })
    }

    /// Stops all components in order, so that operations can be resumed, and compacts the log as `keep` says.
    ///
    /// # Errors
    ///
    /// Returns an error if the state directory has been moved away, because later processes won't find the
    /// most recent records.
    pub async fn close(self, keep: Retention) -> Result<(), ServiceError> {
        if let Some(server) = &self.server {
            server.reject_requests();
        }
        self.engine.shutdown().await;
        if let Some(server) = self.server {
            server.close().await;
        }
        match self.engine.compact(keep).await {
            Err(EngineError::Log(moved @ LogError::Moved { .. })) => Err(moved.into()),
            // Not an error, because the next compaction makes up for it.
            Err(error) => {
                tracing::warn!(%error, "failed to compact the log");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

/// Control socket of a process that is still connecting to clusters and has no engine yet. Closed on drop.
pub struct EarlySocket {
    log: Log,
    queries: Arc<Queries>,
    server: Option<ControlServer>,
}

impl EarlySocket {
    /// Opens the socket for queries about these operations.
    pub fn open(log: &Log, ahead: PendingResume, state_dir: &StateDir, notices: &dyn Notices) -> Self {
        let queries = Arc::new(Queries::before_engine(Arc::clone(log), ahead));
        let server = open_control_socket(state_dir, &queries, notices);
        Self { log: Arc::clone(log), queries, server }
    }
}

async fn start_engine(
    log: &Log,
    clusters: Clusters,
    health: HealthRules,
    keep: Option<Retention>,
    state_dir: &StateDir,
    notices: &dyn Notices,
) -> Result<Engine, ServiceError> {
    clock::write_mark(state_dir);
    let mut builder = Engine::builder(Arc::clone(log)).health(health).worker(user::worker_name());
    if let Some(keep) = keep {
        builder = builder.compact_every(COMPACTION_INTERVAL, keep);
    }
    if clusters.simulated {
        let cluster = simulated::open(state_dir, log, notices).await?;
        builder = builder.cluster(Destination::Simulated, Arc::new(cluster));
    }
    for (destination, cluster) in clusters.real {
        builder = builder.cluster(destination, cluster);
    }
    Ok(builder.start().await?)
}

fn open_control_socket(
    state_dir: &StateDir,
    queries: &Arc<Queries>,
    notices: &dyn Notices,
) -> Option<ControlServer> {
    match ControlServer::listen(state_dir.socket(), Arc::clone(queries)) {
        Ok(server) => Some(server),
        Err(error) => {
            notices.warn(&format!(
                "other tidegate processes cannot connect to this process ({}: {error}); the sync itself is \
                 not affected",
                state_dir.socket().display()
            ));
            None
        }
    }
}
