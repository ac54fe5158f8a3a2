//! Access to a cluster's Applications without a service. The client only reads and writes resources through
//! the Kubernetes API, and the service that manages the Applications reacts to the changes.
//!
//! Every write and deletion is bound to the version that was read. After a conflict, the client recomputes
//! the change from the current version. It replaces a requested operation only once a service has accepted
//! it; otherwise, the operation would be lost.

mod lookup;
mod requests;
mod resource;
mod watch;

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_cluster::{Cluster, ClusterError, ErrorKind, Scope};
use tidegate_model::argo::API_VERSION;
use tidegate_model::{Destination, Object};

use tidegate_application::AppKey;
use tidegate_state::clusters::{self, Connection, SelectedCluster};
use tidegate_state::error::ServiceError;
use tidegate_state::notices::Notices;
use tidegate_state::user::user_name;
use tidegate_stores::applications::kubernetes::resource_client::{ResourceClient, managed_kind};
use tidegate_stores::applications::kubernetes::{ApplicationKind, ManagedScope};

pub use requests::is_operation_accepted;
pub use resource::Resource;
pub use watch::ApplicationWatch;

/// Client for a cluster's Applications.
pub struct DirectClient {
    resource_client: ResourceClient,
    /// Name to record as the requester.
    requester: String,
}

impl DirectClient {
    /// Opens the Applications in these namespaces, or in all namespaces if `namespaces` is empty.
    /// `connection` selects the cluster. The requester is the user who runs this process.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is invalid or the cluster does not respond.
    pub async fn connect(
        connection: &Connection,
        namespaces: BTreeSet<String>,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        match clusters::select_cluster(Some(connection), notices).await? {
            SelectedCluster::Real(connected) => {
                let cluster = Arc::new(connected.cluster.for_command());
                // Read the user name only now, because it may come from the cluster.
                Ok(Self::new(cluster, connected.destination, namespaces, user_name()))
            }
            SelectedCluster::Simulated => {
                Err(ServiceError::refused("the simulated cluster does not serve Applications"))
            }
        }
    }

    /// Creates a client for an already connected cluster.
    pub fn new(
        cluster: Arc<dyn Cluster>,
        destination: Destination,
        namespaces: BTreeSet<String>,
        requester: String,
    ) -> Self {
        let scope = ManagedScope { namespaces, ..ManagedScope::default() };
        Self { resource_client: ResourceClient { cluster, destination, scope }, requester }
    }

    /// Describes the selected namespaces.
    pub fn describe_namespaces(&self) -> String {
        let namespaces: Vec<&str> =
            self.resource_client.scope.namespaces.iter().map(String::as_str).collect();
        match namespaces.as_slice() {
            [] => "any namespace".to_owned(),
            [only] => format!("namespace {only}"),
            several => format!("namespaces {}", several.join(", ")),
        }
    }

    /// Returns all Applications, sorted by name.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster doesn't have the kind or doesn't permit listing it.
    pub async fn list_applications(&self) -> Result<Vec<Resource>, ServiceError> {
        let mut all = Vec::new();
        for scope in self.resource_client.watched_scopes::<ApplicationKind>() {
            all.extend(self.list_objects(&scope).await?.into_iter().map(Resource::from));
        }
        all.sort_by_key(Resource::key);
        Ok(all)
    }

    async fn list_objects(&self, scope: &Scope) -> Result<Vec<Object>, ServiceError> {
        match self.resource_client.cluster.list(scope).await {
            Ok(listing) => Ok(listing.objects),
            Err(error) if error.kind == ErrorKind::Forbidden && scope.namespace.is_none() => {
                let error_text = self.cluster_error(&error);
                Err(ServiceError::Cluster {
                    message: format!(
                        "{error_text}; use --app-namespace to select namespaces that you can read"
                    ),
                    is_transient: false,
                })
            }
            Err(error) => Err(self.cluster_error(&error)),
        }
    }

    async fn get(&self, key: &AppKey) -> Result<Option<Resource>, ServiceError> {
        if !key.is_valid() {
            return Ok(None);
        }
        match self
            .resource_client
            .cluster
            .get(&managed_kind::<ApplicationKind>(), &key.namespace, &key.name)
            .await
        {
            Ok(found) => Ok(found.map(Resource::from)),
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::NamespaceMissing) => Ok(None),
            Err(error) => Err(self.cluster_error(&error)),
        }
    }

    fn cluster_error(&self, error: &ClusterError) -> ServiceError {
        match error.kind {
            ErrorKind::UnknownKind => ServiceError::refused(format!(
                "the {} does not serve Applications ({API_VERSION}); select another cluster with --context, or apply the output \
                 of `tidegate crds`",
                self.resource_client.destination
            )),
            _ => self.resource_client.store_error(error),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
