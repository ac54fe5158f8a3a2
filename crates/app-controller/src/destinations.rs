//! Destination clusters: the managed cluster, and clusters that are declared by Secrets.
//!
//! A declared cluster's identity is verified before the cluster is used, and periodically after that. A
//! cluster that doesn't respond only blocks its own Applications, which show the reason.

pub mod cluster_status;
mod health_checks;
mod managed_cluster;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod resolution_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tidegate_application::impersonation::ImpersonationMode;
use tidegate_applicationset::references::UnresolvedCluster;
use tidegate_cluster::Cluster;
use tidegate_executor::Fence;
use tidegate_kube::{ClusterConnection, ClusterSecret, KubeCluster};
use tidegate_model::argo::ApplicationDestination;
use tidegate_model::{DeployTarget, Destination, canonical_server};
use tokio::sync::{Semaphore, watch};

use super::repositories::RepositoryFiles;

/// Name and URL that Applications use for the managed cluster.
const IN_CLUSTER_NAME: &str = "in-cluster";
const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
/// Default namespace for objects that don't specify a namespace.
const DEFAULT_NAMESPACE: &str = "default";
/// Maximum number of concurrent comparisons per cluster.
pub const CONCURRENT_COMPARISONS_MAX: usize = 8;

/// Clusters that Applications can be deployed to.
#[derive(Clone)]
pub struct Destinations(Arc<DestinationsInner>);

struct DestinationsInner {
    destination: Destination,
    cluster: Arc<dyn Cluster>,
    /// Default namespace for objects that don't specify a namespace.
    namespace: String,
    permits: Arc<Semaphore>,
    impersonation: ImpersonationMode,
    /// Exec credential plugins that cluster Secrets may use, as written in the Secrets.
    exec_plugins: BTreeSet<String>,
    /// Fence for writes to declared clusters, if this service holds a Lease.
    fence: Option<Fence>,
    files: Option<RepositoryFiles>,
    state: RwLock<DeclaredClusters>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct DeclaredClusters {
    declared: Vec<ClusterSecret>,
    /// True until the Secrets that declare clusters have been listed or access to them was denied.
    are_secrets_awaited: bool,
    /// True if a caller had to wait for the Secrets before using the managed cluster.
    is_managed_awaited: AtomicBool,
    /// True if the managed cluster's Secrets have just changed.
    has_managed_changed: bool,
    /// Connections, by server URL. Each server is declared by a single Secret. A connection outlives its
    /// declaration, which may come back.
    connections: BTreeMap<String, ServerConnection>,
}

struct ServerConnection {
    /// Client that identifies the cluster at the server's URL. `None` if it couldn't be created.
    probe: Option<KubeCluster>,
    declared: ClusterConnection,
    permits: Arc<Semaphore>,
    /// Identity of the cluster. `None` until it has been determined.
    destination: Option<Destination>,
    /// Clients for all clusters that have responded at this URL, by identity. Only the most recent cluster's
    /// client is open.
    clusters: BTreeMap<Destination, KubeCluster>,
    /// Reason why the server can't be used now.
    failure: Option<String>,
}

/// Resolved destination of an Application's objects.
#[derive(Clone)]
pub struct ResolvedDestination {
    pub destination: Destination,
    pub cluster: Arc<dyn Cluster>,
    pub namespace: String,
    /// Destination in the form that project rules match.
    pub target: DeployTarget,
}

/// Reason why a destination can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DestinationError {
    /// The configuration does not select a cluster.
    Invalid(String),
    /// The cluster is currently unreachable.
    Unreachable(String),
    /// Not known yet: the cluster hasn't been contacted since it was declared, or its Secret hasn't been
    /// read.
    Unchecked(String),
}

impl fmt::Display for DestinationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Invalid(text) | Self::Unreachable(text) | Self::Unchecked(text)) = self;
        f.write_str(text)
    }
}

/// Error message for a destination that doesn't select exactly one cluster.
enum ClusterLookupError {
    /// The cluster doesn't exist.
    Unknown(String),
    /// The cluster is ambiguous, or its configuration is invalid.
    Invalid(String),
}

impl ClusterLookupError {
    fn message(self) -> String {
        let (Self::Unknown(text) | Self::Invalid(text)) = self;
        text
    }
}

/// Cluster that a destination refers to.
enum DestinationCluster {
    /// The managed cluster, with the project that it is restricted to (empty for all projects).
    Managed(String),
    Declared(Box<ClusterSecret>),
}

/// Returns the error for a cluster whose Secret can't be used.
fn unusable_error(requested: &str, one: &ClusterSecret, problem: &str) -> ClusterLookupError {
    ClusterLookupError::Invalid(format!(
        "the cluster {requested} in spec.destination cannot be used: Secret {}: {problem}",
        one.secret_name
    ))
}

/// Returns the error for a cluster that is declared by several Secrets.
fn ambiguous_error(requested: &str, all: &[&ClusterSecret]) -> ClusterLookupError {
    let secrets: Vec<&str> = all.iter().map(|one| one.secret_name.as_str()).collect();
    ClusterLookupError::Invalid(format!(
        "the cluster {requested} in spec.destination is declared by several Secrets: {}; keep only one of \
         them",
        secrets.join(", ")
    ))
}

impl DeclaredClusters {
    /// Records that the Secrets were listed or aren't accessible. Returns true if callers were waiting for
    /// this.
    fn mark_listed(&mut self) -> bool {
        let is_come = std::mem::take(&mut self.are_secrets_awaited);
        self.has_managed_changed |= is_come && self.is_managed_awaited.load(Ordering::Relaxed);
        is_come
    }

    /// Returns the matching declarations.
    fn matching(&self, is_it: impl Fn(&ClusterConnection) -> bool) -> Vec<&ClusterSecret> {
        self.declared.iter().filter(|one| is_it(&one.connection)).collect()
    }
}

impl ServerConnection {
    /// Returns the cluster that most recently responded at the server's URL.
    fn current(&self) -> Option<(&Destination, &KubeCluster)> {
        self.clusters.get_key_value(self.destination.as_ref()?)
    }
}

impl Destinations {
    /// Creates the destinations, starting with the managed cluster. `namespace` is the default namespace for
    /// objects that don't specify a namespace.
    pub fn new(destination: Destination, cluster: Arc<dyn Cluster>, namespace: String) -> Self {
        Self(Arc::new(DestinationsInner {
            destination,
            cluster,
            namespace,
            permits: Arc::new(Semaphore::new(CONCURRENT_COMPARISONS_MAX)),
            impersonation: ImpersonationMode::default(),
            exec_plugins: BTreeSet::new(),
            fence: None,
            files: None,
            state: RwLock::default(),
            changed: watch::Sender::new(()),
        }))
    }

    /// Adds the clusters that are declared by Secrets in files.
    #[must_use]
    pub fn with_files(self, files: RepositoryFiles) -> Self {
        self.update_inner(|inner| DestinationsInner { files: Some(files), ..inner })
    }

    /// Sets whether writes impersonate the service accounts that projects specify.
    #[must_use]
    pub fn with_impersonation(self, impersonation: ImpersonationMode) -> Self {
        self.update_inner(|inner| DestinationsInner { impersonation, ..inner })
    }

    /// Allows cluster Secrets to use these exec credential plugins.
    #[must_use]
    pub fn with_exec_plugins(self, exec_plugins: BTreeSet<String>) -> Self {
        self.update_inner(|inner| DestinationsInner { exec_plugins, ..inner })
    }

    /// Fences writes to declared clusters. The managed cluster has its own fence.
    #[must_use]
    pub fn with_fence(self, fence: Option<Fence>) -> Self {
        self.update_inner(|inner| DestinationsInner { fence, ..inner })
    }

    /// Returns true if this service holds a Lease, which ensures that no other service is running.
    pub fn is_fenced(&self) -> bool {
        self.0.fence.is_some()
    }

    /// Adds the fence to a declared cluster.
    fn wrap_in_fence(&self, cluster: KubeCluster) -> Arc<dyn Cluster> {
        let cluster: Arc<dyn Cluster> = Arc::new(cluster);
        match &self.0.fence {
            Some(fence) => fence.wrap(cluster),
            None => cluster,
        }
    }

    fn update_inner(self, change: impl FnOnce(DestinationsInner) -> DestinationsInner) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => Self(Arc::new(change(inner))),
            Err(shared) => Self(shared),
        }
    }

    /// Returns whether writes impersonate the service accounts that projects specify.
    pub fn impersonation(&self) -> ImpersonationMode {
        self.0.impersonation
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &Arc<dyn Cluster> {
        &self.0.cluster
    }

    /// Returns the managed cluster.
    pub fn managed(&self) -> &Destination {
        &self.0.destination
    }

    /// Returns true for the simulated cluster.
    pub fn is_simulated(&self) -> bool {
        self.0.destination == Destination::Simulated
    }

    /// Returns true if the clusters are declared in files.
    pub fn has_files(&self) -> bool {
        self.0.files.is_some()
    }

    fn state(&self) -> RwLockReadGuard<'_, DeclaredClusters> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, DeclaredClusters> {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn managed_server(&self) -> &str {
        match &self.0.destination {
            Destination::Simulated => IN_CLUSTER_SERVER,
            Destination::Kubernetes { server, .. } => server.trim_end_matches('/'),
        }
    }

    /// Returns the managed cluster's URL, unless it is the in-cluster URL.
    fn other_managed_server(&self) -> Option<&str> {
        Some(self.managed_server()).filter(|server| *server != IN_CLUSTER_SERVER)
    }

    fn is_managed_server(&self, server: &str) -> bool {
        let server = canonical_server(server);
        server == IN_CLUSTER_SERVER || server == canonical_server(self.managed_server())
    }

    /// Replaces the declared clusters.
    pub fn declare(&self, declared: Vec<ClusterSecret>) {
        self.declare_all(declared, false);
    }

    /// Replaces the declared clusters. `have_come` is true if the list of Secrets is complete.
    fn declare_all(&self, mut declared: Vec<ClusterSecret>, have_come: bool) {
        declared.iter_mut().for_each(|one| self.check_settings(one));
        let mut state = self.state_mut();
        let is_come = have_come && state.mark_listed();
        let is_other = state.declared != declared;
        if is_other {
            let is_own_other = self.has_managed_changed(&state.declared, &declared);
            state.has_managed_changed |= is_own_other;
            state.declared = declared;
        }
        drop(state);
        if is_other || is_come {
            self.0.changed.send_replace(());
        }
    }

    /// Rejects a Secret with an exec credential plugin that wasn't allowed at startup. Secrets must not be
    /// able to run arbitrary programs.
    fn reject_exec_plugins(&self, declaration: &mut ClusterSecret) {
        let Some(plugin) = &declaration.connection.exec else { return };
        let command = &plugin.provider().command;
        if self.0.exec_plugins.contains(command) {
            return;
        }
        declaration.problem = Some(format!(
            "config contains execProviderConfig with the command {command:?}, which is not allowed; start `tidegate serve` with \
             --allow-exec-credentials {command}, or set a bearerToken"
        ));
        declaration.connection.exec = None;
    }

    /// Returns all clusters declared by Secrets, including those that can't be used, or `None` until the
    /// Secrets have been read.
    pub fn declared(&self) -> Option<Vec<ClusterSecret>> {
        let state = self.state();
        (!state.are_secrets_awaited).then(|| state.declared.clone())
    }

    /// Returns true if a destination isn't the managed cluster. Also returns true for every destination
    /// shortly after the managed cluster's Secrets have changed.
    pub fn is_other_cluster(&self, destination: &ApplicationDestination) -> bool {
        let is_news = self.state().has_managed_changed;
        is_news || !matches!(self.find_cluster(destination), Ok(DestinationCluster::Managed(_)))
    }

    fn find_cluster(
        &self,
        destination: &ApplicationDestination,
    ) -> Result<DestinationCluster, ClusterLookupError> {
        let state = self.state();
        let (name, server) = (destination.name.as_str(), destination.server.trim_end_matches('/'));
        let canonical = canonical_server(server);
        let is_at = |one: &ClusterConnection, server: &str| {
            one.server == server || canonical_server(&one.server) == server
        };
        let is_own = |one: &ClusterConnection| self.is_managed_server(&one.server);
        destination.check().map_err(|problem| ClusterLookupError::Invalid(problem.message))?;
        match (name, server) {
            (IN_CLUSTER_NAME, "") => {
                let is_it = |one: &ClusterConnection| {
                    is_at(one, IN_CLUSTER_SERVER) || (one.name == IN_CLUSTER_NAME && is_own(one))
                };
                return Self::managed_for(name, &state.matching(is_it));
            }
            ("", server) if self.is_managed_server(server) => {
                return Self::managed_for(server, &state.matching(|one| is_at(one, &canonical)));
            }
            _ => {}
        }
        let requested = if name.is_empty() { server } else { name };
        let mut found = match server {
            "" => state.matching(|one| one.name == name),
            _ => state.matching(|one| is_at(one, &canonical)),
        };
        if let [one] = found.as_slice() {
            // A server's credentials must be unambiguous, whatever name selects the server.
            let server = canonical_server(&one.connection.server);
            found = state.matching(|one| is_at(one, &server));
        }
        match found.as_slice() {
            // The managed cluster's Secret specifies a different name for the cluster.
            [_, ..] if found.iter().all(|one| is_own(&one.connection)) => {
                Self::managed_for(requested, &found)
            }
            [one] => match &one.problem {
                None => Ok(DestinationCluster::Declared(Box::new((*one).clone()))),
                Some(problem) => Err(unusable_error(requested, one, problem)),
            },
            [] => Err(ClusterLookupError::Unknown(format!(
                "the cluster {requested} in spec.destination is unknown; this process manages the {} (named \
                 {IN_CLUSTER_NAME} or {IN_CLUSTER_SERVER}){}",
                self.0.destination,
                format_names(&state.declared)
            ))),
            several_of => Err(ambiguous_error(requested, several_of)),
        }
    }

    /// Checks that a destination refers to exactly one cluster, which may be unreachable.
    pub fn check_unambiguous(&self, destination: &ApplicationDestination) -> Result<(), UnresolvedCluster> {
        let is_waited_for = self.state().are_secrets_awaited;
        match self.find_cluster(destination) {
            Ok(_) => Ok(()),
            Err(ClusterLookupError::Unknown(text)) if !is_waited_for => {
                Err(UnresolvedCluster::NotFound(text))
            }
            Err(other) => Err(UnresolvedCluster::Unusable(other.message())),
        }
    }

    /// Resolves a destination, or returns the reason why it can't be used.
    pub fn resolve(&self, wanted: &ApplicationDestination) -> Result<ResolvedDestination, DestinationError> {
        let wrong = |text| match self.state().are_secrets_awaited {
            true => DestinationError::Unchecked(text),
            false => DestinationError::Invalid(text),
        };
        let matching = self.find_cluster(wanted).map_err(|none| wrong(none.message()))?;
        let namespace = |otherwise: &str| match wanted.namespace.as_str() {
            "" => otherwise.to_owned(),
            namespace => namespace.to_owned(),
        };
        let ClusterSecret { connection, project, .. } = match matching {
            // A Secret may declare that the managed cluster must not be used.
            DestinationCluster::Managed(_) if self.awaits_secrets() => {
                let text = "the Secrets that declare clusters, which have not been read yet".to_owned();
                return Err(DestinationError::Unchecked(text));
            }
            DestinationCluster::Managed(project) => {
                return Ok(self.managed_destination(namespace(&self.0.namespace), project));
            }
            DestinationCluster::Declared(declaration) => *declaration,
        };
        let ClusterConnection { name, server, .. } = &connection;
        let away = |reason: &str| {
            let text = format!("the cluster {name} at {server} is unreachable: {reason}; retrying");
            Err(DestinationError::Unreachable(text))
        };
        let state = self.state();
        let known_server = state.connections.get(&connection.server);
        let (cluster, destination) =
            match known_server.map(|known_server| (known_server.current(), &known_server.failure)) {
                Some((_, Some(reason))) => return away(reason),
                Some((Some((destination, cluster)), None)) => (cluster.clone(), destination.clone()),
                _ => {
                    let text = format!("the cluster {name} at {server}, which has not been contacted yet");
                    return Err(DestinationError::Unchecked(text));
                }
            };
        let namespace = namespace(DEFAULT_NAMESPACE);
        let target = DeployTarget {
            servers: vec![connection.server.clone()],
            name: connection.name.clone(),
            project,
            namespace: namespace.clone(),
        };
        Ok(ResolvedDestination { destination, cluster: self.wrap_in_fence(cluster), namespace, target })
    }

    /// Returns the semaphore that limits comparisons with a destination's cluster.
    pub fn comparison_permits(&self, destination: &ApplicationDestination) -> Arc<Semaphore> {
        let own = || Arc::clone(&self.0.permits);
        match self.find_cluster(destination) {
            Ok(DestinationCluster::Declared(declaration)) => self
                .state()
                .connections
                .get(&declaration.connection.server)
                .map_or_else(own, |known_server| Arc::clone(&known_server.permits)),
            Ok(DestinationCluster::Managed(_)) | Err(_) => own(),
        }
    }

    /// Returns the reason why a destination's availability is still unknown, if it is.
    pub fn unchecked_reason(&self, destination: &ApplicationDestination) -> Option<String> {
        match self.resolve(destination) {
            Err(DestinationError::Unchecked(text)) => Some(text),
            _ => None,
        }
    }

    /// Waits until a destination is either reachable or invalid.
    pub async fn await_reachable(&self, destination: &ApplicationDestination) {
        let is_away = |places: &Self| {
            matches!(
                places.resolve(destination),
                Err(DestinationError::Unreachable(_) | DestinationError::Unchecked(_))
            )
        };
        self.await_condition(|places| !is_away(places)).await;
    }

    /// Waits until an operation's cluster is reachable. This cluster may differ from the Application's
    /// current destination.
    pub async fn await_recorded(&self, recorded: &Destination) {
        self.await_condition(|places| places.is_reachable(recorded)).await;
    }

    /// Returns true if an operation's cluster is reachable.
    pub fn is_reachable(&self, recorded: &Destination) -> bool {
        let is_it = |known_server: &ServerConnection| {
            known_server.failure.is_none() && known_server.destination.as_ref() == Some(recorded)
        };
        let is_own = match recorded {
            Destination::Simulated => true,
            Destination::Kubernetes { server, .. } => self.is_managed_server(server.trim_end_matches('/')),
        };
        is_own || self.state().connections.values().any(is_it)
    }

    /// Subscribes to changes to the declared clusters and to their reachability.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    /// Waits until a condition is true.
    async fn await_condition(&self, is_so: impl Fn(&Self) -> bool) {
        let mut changes = self.subscribe();
        while !is_so(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

fn format_names(declared: &[ClusterSecret]) -> String {
    let names: BTreeSet<&str> = declared.iter().map(|one| one.connection.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { String::new() } else { format!(", and {}", names.join(", ")) }
}
