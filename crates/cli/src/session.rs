//! An engine at work in a state directory: log, cluster, actors, and the socket others ask at.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_executor::{Clock as _, Engine, EngineError, SystemClock};
use tidegate_health::HealthRules;
use tidegate_model::{Destination, Object};
use tidegate_oplog::{LogError, PrivateCopy, Retention};

use crate::clusters::Clusters;
use crate::control::{self, Asked, Request, Server};
use crate::desk::Desk;
use crate::error::CliError;
use crate::output::Printer;
use crate::request;
use crate::signals::Signals;
use crate::state_dir::StateDir;
use crate::store::{self, Log};
use crate::timeline;

/// How long the lock of the state directory is tried for. Commands that only look hold it for a moment.
const LOCK_WITHIN: Duration = Duration::from_secs(3);
const LOCK_AGAIN_AFTER: Duration = Duration::from_millis(25);

/// An engine at work.
pub struct Session {
    pub engine: Engine,
    server: Option<Server>,
}

impl Session {
    /// Opens the state directory for work; makes it when it is not there.
    pub async fn open(
        state_dir: &StateDir,
        clusters: Clusters,
        health: HealthRules,
        printer: &Printer,
    ) -> Result<Self, CliError> {
        state_dir.create(printer)?;
        let log = lock(state_dir, printer).await?;
        Self::with_log(log, clusters, health, state_dir, printer).await
    }

    /// As [`Session::open`], with the log opened already.
    pub async fn with_log(
        log: Log,
        clusters: Clusters,
        health: HealthRules,
        state_dir: &StateDir,
        printer: &Printer,
    ) -> Result<Self, CliError> {
        timeline::mark(state_dir);
        let mut builder = Engine::builder(Arc::clone(&log)).health(health).worker(request::worker());
        if clusters.simulated {
            let cluster = open_cluster(state_dir).await?;
            builder = builder.cluster(Destination::Simulated, Arc::new(cluster));
        }
        for (destination, cluster) in clusters.real {
            builder = builder.cluster(destination, cluster);
        }
        let engine = builder.start().await?;
        let desk = Arc::new(Desk::with_engine(log, engine.clone()));
        let server = match Server::listen(state_dir.socket(), desk) {
            Ok(server) => Some(server),
            Err(error) => {
                printer.warn(&format!(
                    "other tidegate processes cannot ask this one ({}: {error}); the sync itself is not affected",
                    state_dir.socket().display()
                ));
                None
            }
        };
        Ok(Self { engine, server })
    }

    /// Stops in order, resumable, and tidies the log: `keep` says what stays.
    /// A signal meanwhile ends the process at once.
    pub async fn close(self, keep: Retention, signals: &mut Signals) -> Result<(), CliError> {
        let stopping = async {
            if let Some(server) = &self.server {
                server.leave();
            }
            self.engine.shutdown().await;
            if let Some(server) = self.server {
                server.close().await;
            }
            match self.engine.compact(keep).await {
                // What was recorded last is found by nobody.
                Err(EngineError::Log(moved @ LogError::Moved { .. })) => Err(moved.into()),
                // What is not tidied now is tidied next time.
                Err(error) => {
                    tracing::warn!(%error, "the log could not be compacted");
                    Ok(())
                }
                Ok(_) => Ok(()),
            }
        };
        tokio::select! {
            stopped = stopping => stopped,
            _ = signals.next() => Err(CliError::Impatient),
        }
    }
}

/// Opens the log. While a command that only looks has it, waits a moment; a process at work is not waited for.
pub async fn lock(state_dir: &StateDir, printer: &Printer) -> Result<Log, CliError> {
    let give_up = tokio::time::Instant::now() + LOCK_WITHIN;
    loop {
        match open_log(state_dir, printer).await {
            Err(locked @ CliError::Log(LogError::Locked { .. })) => {
                let asked = control::ask(&state_dir.socket(), &Request::open()).await?;
                let at_work = !matches!(asked, Asked::Nobody);
                if at_work || tokio::time::Instant::now() > give_up {
                    return Err(locked);
                }
            }
            result => return result,
        }
        tokio::time::sleep(LOCK_AGAIN_AFTER).await;
    }
}

/// Opens the log, once.
pub async fn open_log(state_dir: &StateDir, printer: &Printer) -> Result<Log, CliError> {
    tokio::task::block_in_place(|| store::open(state_dir, printer))
}

/// Opens the simulated cluster. The caller holds the lock of the state directory.
pub async fn open_cluster(state_dir: &StateDir) -> Result<SimCluster, CliError> {
    let dir = state_dir.cluster();
    let open =
        move || SimCluster::open(&dir, SimConfig::default(), wall_clock()).map_err(CliError::simulated);
    tokio::task::spawn_blocking(open).await.map_err(CliError::simulated)?
}

/// What is in the simulated cluster, for those who may not write to it or do not have the lock.
pub async fn copied_cluster(state_dir: &StateDir) -> Result<Vec<Object>, CliError> {
    let dir = state_dir.cluster();
    let read = move || {
        let copy = PrivateCopy::of(&dir)?;
        let cluster = SimCluster::open(copy.path(), SimConfig::default(), wall_clock());
        Ok(cluster.map_err(CliError::simulated)?.objects())
    };
    tokio::task::spawn_blocking(read).await.map_err(CliError::simulated)?
}

/// An empty cluster that leaves nothing behind.
pub fn fresh_cluster() -> SimCluster {
    SimCluster::in_memory(SimConfig::default(), wall_clock())
}

fn wall_clock() -> SimClock {
    SimClock::wall(|| SystemClock.now())
}
