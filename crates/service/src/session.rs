//! An engine at work in a state directory: log, cluster, actors, and the socket others ask at. A process that has to connect
//! first opens the socket before that.

use std::sync::Arc;
use std::time::Duration;

use tidegate_executor::{Engine, EngineError};
use tidegate_health::HealthRules;
use tidegate_model::Destination;
use tidegate_oplog::{Log, LogError, Retention};

use crate::clock;
use crate::clusters::Clusters;
use crate::control::server::Server;
use crate::error::ServiceError;
use crate::log;
use crate::notices::Notices;
use crate::queries::{Ahead, Queries};
use crate::simulated;
use crate::state_dir::StateDir;
use crate::user;

/// How often a process that lives for long makes its log smaller.
const COMPACT_EVERY: Duration = Duration::from_secs(3600);

/// An engine at work.
pub struct Session {
    /// The engine.
    pub engine: Engine,
    /// What answers those who ask at the socket.
    pub queries: Arc<Queries>,
    server: Option<Server>,
}

impl Session {
    /// Opens the state directory for work; makes it when it is not there.
    pub async fn open(
        state_dir: &StateDir,
        clusters: Clusters,
        health: HealthRules,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        state_dir.create(notices)?;
        let log = log::lock(state_dir, notices).await?;
        Self::with_log(log, clusters, health, state_dir, notices).await
    }

    /// As [`Session::open`], with the log opened already.
    pub async fn with_log(
        log: Log,
        clusters: Clusters,
        health: HealthRules,
        state_dir: &StateDir,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        Self::for_long(log, clusters, (health, None), state_dir, notices).await
    }

    /// As [`Session::with_log`], for a process that lives for long: the log is made smaller every hour, and whoever asks
    /// for applications waits until they are served.
    pub async fn for_long(
        log: Log,
        clusters: Clusters,
        (health, keep): (HealthRules, Option<Retention>),
        state_dir: &StateDir,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        let lives_long = keep.is_some();
        let engine = engine(&log, clusters, (health, keep), state_dir, notices).await?;
        let queries = Arc::new(Queries::with_engine(log, engine.clone()));
        if lives_long {
            queries.expect();
        }
        let server = listen(state_dir, &queries, notices);
        Ok(Self { engine, queries, server })
    }

    /// As [`Session::with_log`], for a process that others could ask already.
    pub async fn behind(
        entrance: Entrance,
        clusters: Clusters,
        health: HealthRules,
        state_dir: &StateDir,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        let Entrance { log, queries, server } = entrance;
        let engine = engine(&log, clusters, (health, None), state_dir, notices).await?;
        queries.begin(engine.clone());
        Ok(Self { engine, queries, server })
    }

    /// Stops in order, resumable, and tidies the log: `keep` says what stays.
    ///
    /// # Errors
    ///
    /// The state directory was moved away meanwhile, so that what was recorded last is found by nobody.
    pub async fn close(self, keep: Retention) -> Result<(), ServiceError> {
        if let Some(server) = &self.server {
            server.leave();
        }
        self.engine.shutdown().await;
        if let Some(server) = self.server {
            server.close().await;
        }
        match self.engine.compact(keep).await {
            Err(EngineError::Log(moved @ LogError::Moved { .. })) => Err(moved.into()),
            // What is not tidied now is tidied next time.
            Err(error) => {
                tracing::warn!(%error, "the log could not be compacted");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

/// The socket of a process that has no engine yet, because it connects to clusters. Dropped, it is closed.
pub struct Entrance {
    log: Log,
    queries: Arc<Queries>,
    server: Option<Server>,
}

impl Entrance {
    /// From now on, others can ask about these operations.
    pub fn open(log: &Log, ahead: Ahead, state_dir: &StateDir, notices: &dyn Notices) -> Self {
        let queries = Arc::new(Queries::ahead_of_engine(Arc::clone(log), ahead));
        let server = listen(state_dir, &queries, notices);
        Self { log: Arc::clone(log), queries, server }
    }
}

async fn engine(
    log: &Log,
    clusters: Clusters,
    (health, keep): (HealthRules, Option<Retention>),
    state_dir: &StateDir,
    notices: &dyn Notices,
) -> Result<Engine, ServiceError> {
    clock::mark(state_dir);
    let mut builder = Engine::builder(Arc::clone(log)).health(health).worker(user::worker());
    if let Some(keep) = keep {
        builder = builder.compact_every(COMPACT_EVERY, keep);
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

fn listen(state_dir: &StateDir, queries: &Arc<Queries>, notices: &dyn Notices) -> Option<Server> {
    match Server::listen(state_dir.socket(), Arc::clone(queries)) {
        Ok(server) => Some(server),
        Err(error) => {
            notices.warn(&format!(
                "other tidegate processes cannot ask this one ({}: {error}); the sync itself is not affected",
                state_dir.socket().display()
            ));
            None
        }
    }
}
