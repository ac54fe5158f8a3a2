//! Clusters for commands: selection by arguments, and reconnection to the cluster of a recorded operation.
//!
//! ```text
//! arguments ───────────▶ select_cluster ──▶ SelectedCluster ──▶ Clusters ──▶ Session
//! arguments, record ───▶ reconnect ───────▶ verified cluster ────▲
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_cluster::{Backpressure, Cluster, ErrorKind};
use tidegate_executor::DEFAULT_IN_FLIGHT;
use tidegate_kube::{ConnectOptions, KubeCluster};
use tidegate_model::{Destination, Impersonation, OperationId};
use tidegate_oplog::Log;

use crate::error::ServiceError;
use crate::log::{self, ProcessQuery};
use crate::notices::Notices;
use crate::outage;
use crate::simulated;
use crate::state_dir::StateDir;
use crate::user;

/// Default namespace of objects, unless the arguments or the kubeconfig set one.
const DEFAULT_NAMESPACE: &str = "default";

/// Options for connecting to a real cluster. Unset options come from the kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Kubeconfig file. Takes precedence over the `KUBECONFIG` variable, the file in the home directory, and
    /// the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig context to use instead of the current context.
    pub context: Option<String>,
    /// User to impersonate.
    pub impersonate_user: Option<String>,
    /// Groups to impersonate.
    pub impersonate_groups: Vec<String>,
    /// Timeout for each request, except watches.
    pub request_timeout: Option<Duration>,
}

/// Cluster selected by the arguments. A real cluster has already responded to a request.
pub enum SelectedCluster {
    /// Simulated cluster in the state directory. It is opened together with the operation log and protected
    /// by the log's lock.
    Simulated,
    /// A real cluster.
    Real(ConnectedCluster),
}

/// A real cluster and its connection.
pub struct ConnectedCluster {
    /// Identity of the cluster, as recorded in operations.
    pub destination: Destination,
    /// Connection. Clones share the connection and its limit on concurrent calls.
    pub cluster: KubeCluster,
    /// Namespace of the context.
    pub namespace: String,
}

impl SelectedCluster {
    /// Returns the cluster identity to record in new operations.
    pub fn destination(&self) -> Destination {
        match self {
            Self::Simulated => Destination::Simulated,
            Self::Real(connected) => connected.destination.clone(),
        }
    }

    /// Returns the namespace for objects that don't specify one: `given` if set, otherwise the context's
    /// namespace.
    pub fn namespace(&self, given: Option<&str>) -> String {
        match (given, self) {
            (Some(given), _) => given.to_owned(),
            (None, Self::Simulated) => DEFAULT_NAMESPACE.to_owned(),
            (None, Self::Real(connected)) => connected.namespace.clone(),
        }
    }

    /// Opens the cluster for a read-only command. The caller must hold the returned lock while using the
    /// cluster. Without a state directory, the simulated cluster is empty and leaves no files behind.
    pub async fn open_read_only(
        &self,
        state_dir: &StateDir,
        notices: &dyn Notices,
        is_process_running: ProcessQuery,
    ) -> Result<(Arc<dyn Cluster>, Option<Log>), ServiceError> {
        match self {
            Self::Real(connected) => Ok((Arc::new(connected.cluster.clone()), None)),
            Self::Simulated if state_dir.cluster().is_dir() => {
                // The log's lock ensures that only one process at a time uses the cluster.
                let lock = log::open_locked(state_dir, notices, is_process_running).await?;
                let cluster = simulated::open(state_dir, &lock, notices).await?;
                Ok((Arc::new(cluster), Some(lock)))
            }
            Self::Simulated => {
                simulated::warn_if_missing_without_log(state_dir, notices)?;
                Ok((Arc::new(simulated::empty_cluster()), None))
            }
        }
    }
}

/// Returns the namespace for objects that don't specify one, for a plan without a cluster.
pub fn offline_namespace(given: Option<&str>) -> String {
    SelectedCluster::Simulated.namespace(given)
}

/// Selects the simulated cluster without connection options, otherwise a real cluster, which must respond.
pub async fn select_cluster(
    connection: Option<&Connection>,
    notices: &dyn Notices,
) -> Result<SelectedCluster, ServiceError> {
    let Some(connection) = connection else { return Ok(SelectedCluster::Simulated) };
    let mut connected = prepare_connection(connection).await?;
    read_identity(&mut connected, &ConnectionAttempt::default(), notices).await?;
    Ok(SelectedCluster::Real(connected))
}

/// Prepares a second connection to a cluster, so that calls on one don't delay the other. Doesn't call the
/// API server.
pub async fn open_second_connection(connection: &Connection) -> Result<Arc<dyn Cluster>, ServiceError> {
    Ok(Arc::new(prepare_connection(connection).await?.cluster))
}

/// Reconnects to a recorded operation's cluster with the given options. Rejects a different server. If the
/// server now serves a different cluster, permits only the actions that `purpose` allows.
async fn reconnect(
    operation: OperationId,
    recorded: &Destination,
    args: &Connection,
    purpose: ReconnectPurpose,
    approach: &ConnectionAttempt,
    notices: &dyn Notices,
) -> Result<Arc<dyn Cluster>, ServiceError> {
    let Destination::Kubernetes { context, kubeconfig, impersonate, .. } = recorded else {
        return Err(ServiceError::refused(format!("operation {operation} runs on the simulated cluster")));
    };
    let recorded_user =
        (args.impersonate_user.is_none() && !impersonate.user.is_empty()).then_some(impersonate);
    let args = Connection {
        kubeconfig: args.kubeconfig.clone().or_else(|| kubeconfig.as_ref().map(PathBuf::from)),
        context: args.context.clone().or_else(|| (!context.is_empty()).then(|| context.clone())),
        impersonate_user: recorded_user
            .map(|user| user.user.clone())
            .or_else(|| args.impersonate_user.clone()),
        impersonate_groups: recorded_user
            .map_or_else(|| args.impersonate_groups.clone(), |user| user.groups.clone()),
        request_timeout: args.request_timeout,
    };
    let mut connected = prepare_connection(&args).await?;
    // Compare the URLs before sending anything: a different cluster must not receive requests or credentials.
    if !connected.destination.is_same_cluster(recorded) {
        return Err(ServiceError::DifferentCluster {
            operation,
            recorded: recorded.to_string(),
            found: connected.destination.to_string(),
        });
    }
    read_identity(&mut connected, approach, notices).await?;
    if purpose == ReconnectPurpose::Resume && connected.destination.is_replaced_by(recorded) {
        return Err(ServiceError::ClusterReplaced { operation, recorded: recorded.to_string() });
    }
    Ok(Arc::new(connected.cluster))
}

/// Purpose of a reconnection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconnectPurpose {
    /// Resume the operation.
    Resume,
    /// Terminate the operation. Its remaining deletions are bound to its ID, so they can't harm a cluster
    /// that replaced the original.
    Terminate,
}

/// Connects to the cluster and determines its identity before anything is recorded, so that failures surface
/// early.
async fn read_identity(
    connected: &mut ConnectedCluster,
    approach: &ConnectionAttempt,
    notices: &dyn Notices,
) -> Result<(), ServiceError> {
    let ConnectedCluster { destination, cluster, .. } = connected;
    let asking = async { tokio::join!(cluster.check_connection(), cluster.identity()) };
    approach.set_cluster(Some(cluster.clone()));
    let (reached, identity) = outage::with_delay_notices(cluster, notices, asking).await;
    approach.set_cluster(None);
    let identity = reached.and(identity);
    let found = identity.map_err(|error| {
        let is_passing = error.kind.is_transient() && error.kind != ErrorKind::Unauthorized;
        ServiceError::from_cluster_message(destination, &error.message).with_transient(is_passing)
    })?;
    if let Destination::Kubernetes { uid, .. } = destination {
        *uid = found.unwrap_or_default();
    }
    user::read_cluster_user(cluster).await;
    Ok(())
}

/// Prepares the connection without calling the API server.
async fn prepare_connection(args: &Connection) -> Result<ConnectedCluster, ServiceError> {
    let by_default = ConnectOptions::default();
    let options = ConnectOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        impersonate_user: args.impersonate_user.clone(),
        impersonate_groups: args.impersonate_groups.clone(),
        call_timeout: args.request_timeout.unwrap_or(by_default.call_timeout),
        in_flight: DEFAULT_IN_FLIGHT,
        watch_duration: by_default.watch_duration,
    };
    let cluster = tidegate_kube::connect(&options).await?;
    let destination = Destination::Kubernetes {
        context: cluster.context().to_owned(),
        server: cluster.server_url().trim_end_matches('/').to_owned(),
        kubeconfig: args.kubeconfig.as_deref().map(absolute_path).transpose()?,
        impersonate: Impersonation {
            user: args.impersonate_user.clone().unwrap_or_default(),
            groups: args.impersonate_groups.clone(),
        },
        // Set when the cluster responds.
        uid: String::new(),
    };
    let namespace = cluster.default_namespace().to_owned();
    Ok(ConnectedCluster { destination, cluster, namespace })
}

/// Makes a kubeconfig path absolute, so that later commands find the file from other directories.
fn absolute_path(path: &Path) -> Result<String, ServiceError> {
    let full = std::path::absolute(path).map_err(|source| ServiceError::Io {
        action: "find",
        path: path.to_path_buf(),
        source,
    })?;
    Ok(full.to_string_lossy().into_owned())
}

/// Connection attempt in progress. Other tasks can use it to find the cause of a delay.
#[derive(Default)]
pub struct ConnectionAttempt(Mutex<Option<KubeCluster>>);

impl ConnectionAttempt {
    fn set_cluster(&self, cluster: Option<KubeCluster>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = cluster;
    }

    /// Returns the cause of the delay, if any.
    pub fn backpressure(&self) -> Option<Backpressure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.backpressure()
    }
}

/// An engine's clusters, by the identity recorded in operations.
#[derive(Clone, Default)]
pub struct Clusters {
    /// True if the simulated cluster is included.
    pub simulated: bool,
    /// Real clusters, by the identity under which they were first added.
    pub real: BTreeMap<Destination, Arc<dyn Cluster>>,
}

impl Clusters {
    /// Adds an operation's cluster if missing. `approach` lets other tasks observe the connection attempt.
    pub async fn add(
        &mut self,
        operation: OperationId,
        recorded: &Destination,
        args: &Connection,
        purpose: ReconnectPurpose,
        approach: &ConnectionAttempt,
        notices: &dyn Notices,
    ) -> Result<(), ServiceError> {
        if *recorded == Destination::Simulated {
            self.simulated = true;
        } else if !self.real.contains_key(recorded) {
            let cluster = reconnect(operation, recorded, args, purpose, approach, notices).await?;
            self.real.insert(recorded.clone(), cluster);
        }
        Ok(())
    }
}

impl From<SelectedCluster> for Clusters {
    fn from(chosen: SelectedCluster) -> Self {
        match chosen {
            SelectedCluster::Simulated => Self { simulated: true, real: BTreeMap::new() },
            SelectedCluster::Real(connected) => {
                let cluster: Arc<dyn Cluster> = Arc::new(connected.cluster);
                Self { simulated: false, real: BTreeMap::from([(connected.destination, cluster)]) }
            }
        }
    }
}
