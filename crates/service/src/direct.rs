//! The Applications of a cluster, for somebody who asks no service: their resources are read and written by the Kubernetes API
//! alone, and whoever serves them takes up what is written there.
//!
//! Every write is bound to the version that was read, and is made anew from what is there after a conflict, and so is a deletion.
//! An operation that is asked for is written over only where its service knows of it, which remembers it then.

mod asking;
mod finding;
mod resource;
mod watching;

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_cluster::{Cluster, ClusterError, ErrorKind, Scope};
use tidegate_model::argo::API_VERSION;
use tidegate_model::{Destination, Object};

use crate::applications::store::AppKey;
use crate::applications::store::kubernetes::site::{Site, kind};
use crate::applications::store::kubernetes::{Applications, Reach};
use crate::clusters::{self, Chosen, Connection};
use crate::error::ServiceError;
use crate::notices::Notices;

pub use asking::is_taken_up;
pub use resource::Resource;
pub use watching::Watching;

/// The Applications of a cluster.
pub struct Direct {
    site: Site,
    /// Who asks.
    by: String,
}

impl Direct {
    /// Those of these namespaces, of all where there are none, on the cluster that a connection leads to. `by` is who asks for
    /// what is asked for.
    ///
    /// # Errors
    ///
    /// There is no way to the cluster, or it does not answer.
    pub async fn open(
        connection: &Connection,
        namespaces: BTreeSet<String>,
        by: String,
        notices: &dyn Notices,
    ) -> Result<Self, ServiceError> {
        match clusters::choose(Some(connection), notices).await? {
            Chosen::Real(connected) => {
                let cluster = Arc::new(connected.cluster.for_command());
                Ok(Self::of(cluster, connected.destination, namespaces, by))
            }
            Chosen::Simulated => Err(ServiceError::refused("the simulated cluster serves no Applications")),
        }
    }

    /// The same on a cluster that is reached already.
    pub fn of(
        cluster: Arc<dyn Cluster>,
        destination: Destination,
        namespaces: BTreeSet<String>,
        by: String,
    ) -> Self {
        let reach = Reach { namespaces, ..Reach::default() };
        Self { site: Site { cluster, destination, reach }, by }
    }

    /// Where is looked, in words.
    pub fn place(&self) -> String {
        let namespaces: Vec<&str> = self.site.reach.namespaces.iter().map(String::as_str).collect();
        match namespaces.as_slice() {
            [] => "any namespace".to_owned(),
            [only] => format!("namespace {only}"),
            several => format!("namespaces {}", several.join(", ")),
        }
    }

    /// All applications, by name.
    ///
    /// # Errors
    ///
    /// The cluster serves none, or does not let us list them.
    pub async fn all(&self) -> Result<Vec<Resource>, ServiceError> {
        let mut all = Vec::new();
        for scope in self.site.scopes::<Applications>() {
            all.extend(self.list(&scope).await?.into_iter().map(Resource::from));
        }
        all.sort_by_key(Resource::key);
        Ok(all)
    }

    async fn list(&self, scope: &Scope) -> Result<Vec<Object>, ServiceError> {
        match self.site.cluster.list(scope).await {
            Ok(listing) => Ok(listing.objects),
            Err(error) if error.kind == ErrorKind::Forbidden && scope.namespace.is_none() => {
                let said = self.failed(&error);
                Err(ServiceError::Cluster {
                    message: format!("{said}; --app-namespace names the namespaces that may be read"),
                    is_passing: false,
                })
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    async fn get(&self, key: &AppKey) -> Result<Option<Resource>, ServiceError> {
        if !key.is_plain() {
            return Ok(None);
        }
        match self.site.cluster.get(&kind::<Applications>(), &key.namespace, &key.name).await {
            Ok(found) => Ok(found.map(Resource::from)),
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::NamespaceMissing) => Ok(None),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &ClusterError) -> ServiceError {
        match error.kind {
            ErrorKind::UnknownKind => ServiceError::refused(format!(
                "the {} serves no Applications ({API_VERSION}); --context names another cluster, and `tidegate crds` prints their definitions",
                self.site.destination
            )),
            _ => self.site.failed(error),
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
