//! The clusters a command works on: which one the arguments mean, and the way back to where an operation was begun.
//!
//! ```text
//! arguments ───────────▶ choose ────▶ Chosen ───▶ Clusters ──▶ Session
//! arguments, record ───▶ reconnect ──▶ checked: is it the cluster of the record? ──▲
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_cluster::{Cluster, Strain};
use tidegate_executor::IN_FLIGHT;
use tidegate_kube::{ConnectOptions, KubeCluster};
use tidegate_model::{Destination, Impersonation, OperationId};
use tidegate_oplog::Log;

use crate::error::ServiceError;
use crate::log;
use crate::notices::Notices;
use crate::outage;
use crate::simulated;
use crate::state_dir::StateDir;

/// Namespace of objects that name none, when neither the arguments nor the kubeconfig do.
const DEFAULT_NAMESPACE: &str = "default";

/// The way to a real cluster, as far as it is named; the rest is in the kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The kubeconfig, instead of `KUBECONFIG`, the one at home, or the service account of a pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context, instead of its current one.
    pub context: Option<String>,
    /// The user to act as.
    pub impersonate_user: Option<String>,
    /// The groups to act as a member of.
    pub impersonate_groups: Vec<String>,
    /// Longest time of one request, watches apart.
    pub request_timeout: Option<Duration>,
}

/// The cluster the arguments mean. A real one has answered.
pub enum Chosen {
    /// That of the state directory. It is opened with the log, whose lock guards it.
    Simulated,
    /// A real one.
    Real(Connected),
}

/// A real cluster.
pub struct Connected {
    /// What is recorded about it.
    pub destination: Destination,
    /// One connection; its clones share it, and the limit of calls on their way.
    pub cluster: KubeCluster,
    /// Namespace of the context.
    pub namespace: String,
}

impl Chosen {
    /// What is recorded in an operation that is begun here.
    pub fn destination(&self) -> Destination {
        match self {
            Self::Simulated => Destination::Simulated,
            Self::Real(connected) => connected.destination.clone(),
        }
    }

    /// The namespace of objects that name none: as given, else that of the context.
    pub fn namespace(&self, given: Option<&str>) -> String {
        match (given, self) {
            (Some(given), _) => given.to_owned(),
            (None, Self::Simulated) => DEFAULT_NAMESPACE.to_owned(),
            (None, Self::Real(connected)) => connected.namespace.clone(),
        }
    }

    /// The cluster for a command that only looks, and the lock to hold meanwhile. The simulated cluster of a state
    /// directory that is not there is empty, and leaves nothing behind.
    pub async fn look(
        &self,
        state_dir: &StateDir,
        notices: &dyn Notices,
    ) -> Result<(Arc<dyn Cluster>, Option<Log>), ServiceError> {
        match self {
            Self::Real(connected) => Ok((Arc::new(connected.cluster.clone()), None)),
            Self::Simulated if state_dir.cluster().is_dir() => {
                // Only one process at a time may have the cluster open, and the log has the lock.
                let lock = log::lock(state_dir, notices).await?;
                let cluster = simulated::open(state_dir, &lock, notices).await?;
                Ok((Arc::new(cluster), Some(lock)))
            }
            Self::Simulated => {
                simulated::tell_missing_beside(state_dir, notices)?;
                Ok((Arc::new(simulated::empty()), None))
            }
        }
    }
}

/// The cluster of a plan that is compared with nothing has a default namespace as well.
pub fn namespace_offline(given: Option<&str>) -> String {
    Chosen::Simulated.namespace(given)
}

/// Finds the cluster that is meant: the simulated one, without a connection. A real one must answer.
pub async fn choose(connection: Option<&Connection>, notices: &dyn Notices) -> Result<Chosen, ServiceError> {
    let Some(connection) = connection else { return Ok(Chosen::Simulated) };
    let mut way = way(connection).await?;
    ask(&mut way, &Approach::default(), notices).await?;
    Ok(Chosen::Real(way))
}

/// Goes back to the cluster of a recorded operation. Arguments say how to get there; where the record names another
/// server, nothing is done, and where the server is that of another cluster now, nothing but what `purpose` allows.
async fn reconnect(
    operation: OperationId,
    recorded: &Destination,
    args: &Connection,
    purpose: Purpose,
    approach: &Approach,
    notices: &dyn Notices,
) -> Result<Arc<dyn Cluster>, ServiceError> {
    let Destination::Kubernetes { context, kubeconfig, impersonate, .. } = recorded else {
        return Err(ServiceError::refused(format!("operation {operation} works on the simulated cluster")));
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
    let mut connected = way(&args).await?;
    // Before anything is sent: neither requests nor credentials are for another cluster.
    if !connected.destination.is_same_cluster(recorded) {
        return Err(ServiceError::Elsewhere {
            operation,
            recorded: recorded.to_string(),
            found: connected.destination.to_string(),
        });
    }
    ask(&mut connected, approach, notices).await?;
    if purpose == Purpose::GoOn && connected.destination.is_replaced(recorded) {
        return Err(ServiceError::Replaced { operation, recorded: recorded.to_string() });
    }
    Ok(Arc::new(connected.cluster))
}

/// What a cluster is gone back to for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The operation goes on.
    GoOn,
    /// The operation is ended: what it still deletes bears its id, so another cluster in the place of its own takes no
    /// harm.
    End,
}

/// One that does not answer is better told of before anything is recorded; and one that does is asked which it is.
async fn ask(
    connected: &mut Connected,
    approach: &Approach,
    notices: &dyn Notices,
) -> Result<(), ServiceError> {
    let Connected { destination, cluster, .. } = connected;
    let asking = async { tokio::join!(cluster.reach(), cluster.identity()) };
    approach.is_to(Some(cluster.clone()));
    let (reached, identity) = outage::explained(cluster, notices, asking).await;
    approach.is_to(None);
    let identity = reached.and(identity);
    let found = identity.map_err(|error| ServiceError::of_cluster(destination, &error.message))?;
    if let Destination::Kubernetes { uid, .. } = destination {
        *uid = found.unwrap_or_default();
    }
    Ok(())
}

/// Finds the way to a cluster, without going it.
async fn way(args: &Connection) -> Result<Connected, ServiceError> {
    let by_default = ConnectOptions::default();
    let options = ConnectOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        impersonate_user: args.impersonate_user.clone(),
        impersonate_groups: args.impersonate_groups.clone(),
        call_timeout: args.request_timeout.unwrap_or(by_default.call_timeout),
        in_flight: IN_FLIGHT,
        watch_duration: by_default.watch_duration,
    };
    let cluster = tidegate_kube::connect(&options).await?;
    let destination = Destination::Kubernetes {
        context: cluster.context().to_owned(),
        server: cluster.server().trim_end_matches('/').to_owned(),
        kubeconfig: args.kubeconfig.as_deref().map(absolute).transpose()?,
        impersonate: Impersonation {
            user: args.impersonate_user.clone().unwrap_or_default(),
            groups: args.impersonate_groups.clone(),
        },
        // Told when it is asked.
        uid: String::new(),
    };
    let namespace = cluster.default_namespace().to_owned();
    Ok(Connected { destination, cluster, namespace })
}

/// A kubeconfig that is named by the folder we are in must be found again from another one.
fn absolute(path: &Path) -> Result<String, ServiceError> {
    let full = std::path::absolute(path).map_err(|source| ServiceError::Io {
        action: "find",
        path: path.to_path_buf(),
        source,
    })?;
    Ok(full.to_string_lossy().into_owned())
}

/// The cluster that somebody connects to now, so that others learn what keeps it waiting.
#[derive(Default)]
pub struct Approach(Mutex<Option<KubeCluster>>);

impl Approach {
    fn is_to(&self, cluster: Option<KubeCluster>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = cluster;
    }

    /// What keeps it waiting.
    pub fn strain(&self) -> Option<Strain> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.strain()
    }
}

/// The clusters an engine works on, by what operations have recorded of them.
#[derive(Clone, Default)]
pub struct Clusters {
    /// Whether the simulated one is among them.
    pub simulated: bool,
    /// The real ones, each by what was recorded of it first.
    pub real: BTreeMap<Destination, Arc<dyn Cluster>>,
}

impl Clusters {
    /// Adds the cluster an operation was begun on, unless it is there. `approach` tells others of it meanwhile.
    pub async fn add(
        &mut self,
        operation: OperationId,
        recorded: &Destination,
        args: &Connection,
        purpose: Purpose,
        approach: &Approach,
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

impl From<Chosen> for Clusters {
    fn from(chosen: Chosen) -> Self {
        match chosen {
            Chosen::Simulated => Self { simulated: true, real: BTreeMap::new() },
            Chosen::Real(connected) => {
                let cluster: Arc<dyn Cluster> = Arc::new(connected.cluster);
                Self { simulated: false, real: BTreeMap::from([(connected.destination, cluster)]) }
            }
        }
    }
}
