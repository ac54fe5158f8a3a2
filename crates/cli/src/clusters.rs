//! The clusters a command works on: which one the arguments mean, and the way back to where an operation was begun.
//!
//! ```text
//! arguments ───────────▶ choose ────▶ Chosen ───▶ Clusters ──▶ Session
//! arguments, record ───▶ reconnect ──▶ checked: is it the cluster of the record? ──▲
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_cluster::Cluster;
use tidegate_executor::IN_FLIGHT;
use tidegate_kube::{ConnectOptions, KubeCluster};
use tidegate_model::{Destination, Impersonation, OperationId};

use crate::args::{ClusterArgs, ConnectionArgs};
use crate::error::CliError;
use crate::output::Printer;
use crate::patience;
use crate::session;
use crate::state_dir::StateDir;
use crate::store::Log;

/// Namespace of objects that name none, when neither the arguments nor the kubeconfig do.
const DEFAULT_NAMESPACE: &str = "default";

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
    /// The way there.
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
        printer: &Printer,
    ) -> Result<(Arc<dyn Cluster>, Option<Log>), CliError> {
        match self {
            Self::Real(connected) => Ok((Arc::new(connected.cluster.clone()), None)),
            Self::Simulated if state_dir.cluster().is_dir() => {
                // Only one process at a time may have the cluster open, and the log has the lock.
                let lock = session::lock(state_dir, printer).await?;
                Ok((Arc::new(session::open_cluster(state_dir).await?), Some(lock)))
            }
            Self::Simulated => Ok((Arc::new(session::fresh_cluster()), None)),
        }
    }
}

/// The cluster of a plan that is compared with nothing has a default namespace as well.
pub fn namespace_offline(given: Option<&str>) -> String {
    Chosen::Simulated.namespace(given)
}

/// Finds the cluster that the arguments mean; a real one must answer.
pub async fn choose(args: &ClusterArgs, printer: &Printer) -> Result<Chosen, CliError> {
    if args.sim {
        return Ok(Chosen::Simulated);
    }
    let mut way = way(&args.connection).await?;
    ask(&mut way, printer).await?;
    Ok(Chosen::Real(way))
}

/// Goes back to the cluster of a recorded operation. Arguments say how to get there; where the record names another
/// server, nothing is done, and where the server is that of another cluster now, nothing but what `purpose` allows.
async fn reconnect(
    operation: OperationId,
    recorded: &Destination,
    args: &ConnectionArgs,
    purpose: Purpose,
    printer: &Printer,
) -> Result<Arc<dyn Cluster>, CliError> {
    let Destination::Kubernetes { context, kubeconfig, impersonate, .. } = recorded else {
        return Err(CliError::refused(format!("operation {operation} works on the simulated cluster")));
    };
    let recorded_user =
        (args.impersonate_user.is_none() && !impersonate.user.is_empty()).then_some(impersonate);
    let args = ConnectionArgs {
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
        return Err(CliError::Elsewhere {
            operation,
            recorded: recorded.to_string(),
            found: connected.destination.to_string(),
        });
    }
    ask(&mut connected, printer).await?;
    if purpose == Purpose::GoOn && connected.destination.is_replaced(recorded) {
        return Err(CliError::Replaced { operation, recorded: recorded.to_string() });
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
async fn ask(connected: &mut Connected, printer: &Printer) -> Result<(), CliError> {
    let Connected { destination, cluster, .. } = connected;
    let asking = async { tokio::join!(cluster.reach(), cluster.identity()) };
    let (reached, identity) = patience::explained(cluster, printer, asking).await;
    let identity = reached.and(identity);
    let found = identity.map_err(|error| CliError::of_cluster(destination, &error.message))?;
    if let Destination::Kubernetes { uid, .. } = destination {
        *uid = found.unwrap_or_default();
    }
    Ok(())
}

/// Finds the way to a cluster, without going it.
async fn way(args: &ConnectionArgs) -> Result<Connected, CliError> {
    let by_default = ConnectOptions::default();
    let options = ConnectOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        impersonate_user: args.impersonate_user.clone(),
        impersonate_groups: args.impersonate_groups.clone(),
        call_timeout: args.request_timeout.unwrap_or(by_default.call_timeout),
        in_flight: IN_FLIGHT,
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
fn absolute(path: &Path) -> Result<String, CliError> {
    let full = std::path::absolute(path).map_err(|source| CliError::Io {
        action: "find",
        path: path.to_path_buf(),
        source,
    })?;
    Ok(full.to_string_lossy().into_owned())
}

/// The clusters an engine works on, by what operations have recorded of them.
#[derive(Default)]
pub struct Clusters {
    /// Whether the simulated one is among them.
    pub simulated: bool,
    /// The real ones.
    pub real: BTreeMap<Destination, Arc<dyn Cluster>>,
}

impl Clusters {
    /// Adds the cluster an operation was begun on, unless it is there.
    pub async fn add(
        &mut self,
        operation: OperationId,
        recorded: &Destination,
        args: &ConnectionArgs,
        purpose: Purpose,
        printer: &Printer,
    ) -> Result<(), CliError> {
        if *recorded == Destination::Simulated {
            self.simulated = true;
        } else if !self.real.contains_key(recorded) {
            let cluster = reconnect(operation, recorded, args, purpose, printer).await?;
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
