//! Periodic health checks of declared clusters, using their current credentials.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tidegate_cluster::{Detail, Scope, ScopeChange, WatchBackoff, list_and_watch};
use tidegate_executor::{DEFAULT_IN_FLIGHT, Engine, EngineError};
use tidegate_kube::{
    ClusterConnection, ClusterSecret, ConnectError, ConnectOptions, KubeCluster, connect_to_cluster,
};
use tidegate_model::{Destination, Gvk, Impersonation, Object, canonical_server};
use tidegate_state::error::ServiceError;
use tokio::sync::Semaphore;

use super::{CONCURRENT_COMPARISONS_MAX, Destinations, ServerConnection};
use crate::repositories::RepositoryFiles;

/// Delays before listing the Secrets again.
const RELIST_DELAYS: WatchBackoff =
    WatchBackoff { min: Duration::from_millis(500), max: Duration::from_secs(60) };
/// Interval between health checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout for a health check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

impl Destinations {
    /// Checks the declared clusters while the future is polled. Calls `notify` whenever a cluster becomes
    /// usable or unusable. Adds each cluster to the engine once it is first usable.
    pub async fn run_health_checks(&self, engine: &Engine, notify: impl Fn()) {
        let mut changes = self.0.changed.subscribe();
        let mut is_first = true;
        loop {
            if let Err(error) = self.read_files().await {
                tracing::warn!(%error, "failed to read the declared clusters; using the previously declared clusters");
            }
            // Always report the first result, because callers are waiting for it.
            if self.check_all(engine).await | std::mem::take(&mut is_first) {
                self.0.changed.send_replace(());
            }
            tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) => notify(),
                    Err(_) => return,
                },
                // By now, all Applications have been notified of the change.
                () = tokio::time::sleep(CHECK_INTERVAL) => {
                    self.state_mut().has_managed_changed = false;
                }
            }
        }
    }

    /// Records that Secrets will be watched. The clusters aren't known until the Secrets have been read.
    pub fn await_secrets(&self) {
        self.state_mut().are_secrets_awaited = true;
    }

    pub(super) fn mark_secrets_listed(&self) {
        if self.state_mut().mark_listed() {
            self.0.changed.send_replace(());
        }
    }

    /// Watches the Secrets in a namespace of the managed cluster while the future is polled.
    pub async fn watch_secrets(&self, namespace: String) {
        let scope =
            Scope { gvk: Gvk::new("", "v1", "Secret"), namespace: Some(namespace), detail: Detail::Full };
        let mut followed = list_and_watch(Arc::clone(&self.0.cluster), scope, RELIST_DELAYS);
        let mut secrets: BTreeMap<String, ClusterSecret> = BTreeMap::new();
        let mut was_warned = false;
        while let Some(what) = followed.next().await {
            let mut take = |object: &Object| match ClusterSecret::from_object(object) {
                Some(declaration) => drop(secrets.insert(object.name().to_owned(), declaration)),
                None => drop(secrets.remove(object.name())),
            };
            match what {
                ScopeChange::Applied(object) => take(&object),
                ScopeChange::Deleted(object) => drop(secrets.remove(object.name())),
                ScopeChange::Listed(objects) => {
                    secrets = objects
                        .iter()
                        .filter_map(|one| Some((one.name().to_owned(), ClusterSecret::from_object(one)?)))
                        .collect();
                }
                ScopeChange::Failing(error) => {
                    // Without permission to read Secrets, there are no declared clusters.
                    if !std::mem::replace(&mut was_warned, true) {
                        tracing::warn!(%error, "failed to watch the Secrets that declare clusters; retrying");
                    }
                    self.mark_secrets_listed();
                    continue;
                }
            }
            was_warned = false;
            self.declare_all(secrets.values().cloned().collect(), true);
        }
    }

    /// Reads the cluster files again.
    ///
    /// # Errors
    ///
    /// If a file is unreadable, returns an error, and the previous clusters remain in use. The error doesn't
    /// contain Secret values.
    pub async fn read_files(&self) -> Result<(), ServiceError> {
        let Some(files) = self.0.files.clone() else { return Ok(()) };
        let reading = tokio::task::spawn_blocking(move || read_declarations(&files)).await;
        let declared = reading.map_err(|_| {
            ServiceError::refused("reading the cluster Secrets failed with an internal error")
        })?;
        self.declare(declared?);
        Ok(())
    }

    /// Checks all clusters. Returns true if anything has changed.
    pub(super) async fn check_all(&self, engine: &Engine) -> bool {
        let declared = self.state().declared.clone();
        // The same server URL can be spelled in different ways.
        let servers: Vec<String> =
            declared.iter().map(|one| canonical_server(&one.connection.server)).collect();
        let of_server = |server: &str| -> Vec<&ClusterSecret> {
            let server = canonical_server(server);
            let all = declared.iter().zip(&servers);
            all.filter(|(_, other)| **other == server).map(|(one, _)| one).collect()
        };
        let usable: Vec<&ClusterSecret> = declared
            .iter()
            .filter(|one| {
                let server = one.connection.server.as_str();
                one.problem.is_none() && of_server(server).len() == 1 && !self.is_managed_server(server)
            })
            .collect();
        for (server, connection) in &mut self.state_mut().connections {
            if usable.iter().any(|one| one.connection.server == *server) {
                continue;
            }
            let secrets: Vec<&str> =
                of_server(server).into_iter().map(|one| one.secret_name.as_str()).collect();
            // If the URL is now spelled differently, the cluster gets a new connection.
            let is_declared = declared.iter().any(|one| one.connection.server == *server);
            let reason = match secrets.as_slice() {
                [one] if is_declared => {
                    format!("Secret {one} for the cluster at {server} is invalid")
                }
                [] | [_] => format!("no Secret declares the cluster at {server} anymore"),
                several => format!("several Secrets declare the cluster at {server}: {}", several.join(", ")),
            };
            // Work in progress waits and shows this reason, because the credentials are no longer valid.
            connection.clusters.values().for_each(|cluster| cluster.block_calls(reason.clone()));
            connection.failure = Some(reason);
        }
        let results =
            join_all(usable.into_iter().map(|one| self.check_cluster(engine, &one.connection))).await;
        results.into_iter().any(|is_news| is_news)
    }

    async fn check_cluster(&self, engine: &Engine, declared: &ClusterConnection) -> bool {
        let answer = async {
            let unready = || format!("no credentials within {} s", CHECK_TIMEOUT.as_secs());
            let scout = tokio::time::timeout(CHECK_TIMEOUT, self.identity_client(declared)).await;
            let scout = scout.map_err(|_| unready())??;
            let identity = tokio::time::timeout(CHECK_TIMEOUT, scout.identity()).await;
            let silent = || format!("no response within {} s", CHECK_TIMEOUT.as_secs());
            let uid = identity.map_err(|_| silent())?.map_err(|error| error.message)?;
            let destination = Destination::Kubernetes {
                // Renaming a cluster must not make it a different cluster.
                context: String::new(),
                server: declared.server.clone(),
                kubeconfig: None,
                impersonate: Impersonation::default(),
                uid: uid.unwrap_or_default(),
            };
            let cluster = self.cluster_client(&destination, declared).await?;
            match engine.add_cluster(destination.clone(), self.wrap_in_fence(cluster)).await {
                Ok(()) | Err(EngineError::DuplicateCluster { .. }) => Ok(destination),
                Err(error) => Err(error.to_string()),
            }
        };
        let answer: Result<Destination, String> = answer.await;
        let mut state = self.state_mut();
        let Some(connection) = state.connections.get_mut(&declared.server) else { return false };
        let (destination, failing) = match answer {
            Ok(destination) => (Some(destination), None),
            Err(reason) => (connection.destination.clone(), Some(reason)),
        };
        let is_news = (&connection.destination, &connection.failure) != (&destination, &failing);
        (connection.destination, connection.failure) = (destination, failing);
        if is_news {
            let ClusterConnection { name, server, .. } = declared;
            match &connection.failure {
                None => tracing::info!(name, server, "declared cluster is reachable"),
                Some(reason) => tracing::warn!(name, server, reason, "declared cluster is unreachable"),
            }
            drop(state);
            // Report this immediately, so that the cluster's Applications don't wait for slower clusters.
            self.0.changed.send_replace(());
        }
        is_news
    }

    /// Returns a client that accepts any cluster, with the current credentials, to determine the cluster's
    /// identity.
    async fn identity_client(&self, declared: &ClusterConnection) -> Result<KubeCluster, String> {
        let (existing, is_same, clusters) = {
            let mut state = self.state_mut();
            let connection =
                state.connections.entry(declared.server.clone()).or_insert_with(|| ServerConnection {
                    probe: None,
                    declared: declared.clone(),
                    permits: Arc::new(Semaphore::new(CONCURRENT_COMPARISONS_MAX)),
                    destination: None,
                    clusters: BTreeMap::new(),
                    failure: None,
                });
            let clusters: Vec<KubeCluster> = connection.clusters.values().cloned().collect();
            (connection.probe.clone(), connection.declared == *declared, clusters)
        };
        let made = match existing {
            Some(scout) if is_same => return Ok(scout),
            Some(scout) => {
                let changing = clusters.iter().chain([&scout]).map(|one| one.change_credentials(declared));
                join_all(changing).await.into_iter().collect::<Result<(), _>>().map(|()| scout)
            }
            None => connect(declared).await,
        };
        let scout = made.map_err(|error| error.to_string())?;
        if let Some(connection) = self.state_mut().connections.get_mut(&declared.server) {
            (connection.probe, connection.declared) = (Some(scout.clone()), declared.clone());
        }
        Ok(scout)
    }

    /// Returns a client that accepts only the cluster that is currently responding. Clients for other
    /// clusters at the same URL are closed, and their work waits until those clusters respond again.
    async fn cluster_client(
        &self,
        destination: &Destination,
        declared: &ClusterConnection,
    ) -> Result<KubeCluster, String> {
        let Destination::Kubernetes { uid, server, .. } = destination else {
            return Err("the server is not a Kubernetes API server".to_owned());
        };
        let existing = self
            .state()
            .connections
            .get(server)
            .and_then(|connection| connection.clusters.get(destination).cloned());
        let cluster = match existing {
            Some(cluster) if cluster.blocked_reason().is_none() => cluster,
            Some(cluster) => {
                // Existing connections may lead to a different cluster, so open new connections.
                cluster.change_credentials(declared).await.map_err(|error| error.to_string())?;
                cluster.unblock_calls();
                cluster
            }
            None => {
                let cluster = connect(declared).await.map_err(|error| error.to_string())?;
                if !uid.is_empty() {
                    cluster.expect_identity(uid);
                }
                cluster
            }
        };
        if let Some(connection) = self.state_mut().connections.get_mut(server) {
            connection.clusters.insert(destination.clone(), cluster.clone());
            for (other, closing) in &connection.clusters {
                if other.is_replaced_by(destination) {
                    closing.block_calls(format!("a different cluster responds at {server}"));
                }
            }
        }
        Ok(cluster)
    }
}

async fn connect(declared: &ClusterConnection) -> Result<KubeCluster, ConnectError> {
    let cluster =
        connect_to_cluster(declared, ConnectOptions::default().call_timeout, DEFAULT_IN_FLIGHT).await?;
    Ok(cluster.with_shared_searches())
}

fn read_declarations(files: &RepositoryFiles) -> Result<Vec<ClusterSecret>, ServiceError> {
    let mut declared = Vec::new();
    files.for_each_object(|object| {
        declared.extend(ClusterSecret::from_object(object));
        Ok(())
    })?;
    Ok(declared)
}
