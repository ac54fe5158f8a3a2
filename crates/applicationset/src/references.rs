//! Checks that the projects and clusters of Applications exist.

use tidegate_application::project::DEFAULT_PROJECT;
use tidegate_model::argo::{Application, ApplicationDestination, ApplicationSpec};

/// Projects and clusters that currently exist.
pub trait References {
    /// Returns true if a project exists. [`DEFAULT_PROJECT`] always exists.
    fn has_project(&self, name: &str) -> bool;
    /// Checks that a destination identifies a single cluster, reachable or not.
    ///
    /// # Errors
    ///
    /// Fails if no cluster matches, several match, or the cluster's declaration is invalid.
    fn check_destination(&self, destination: &ApplicationDestination) -> Result<(), UnresolvedCluster>;
}

/// Error for a destination that doesn't identify a single cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnresolvedCluster {
    /// The cluster doesn't exist, or was removed.
    #[error("{0}")]
    NotFound(String),
    /// The destination is ambiguous, or the cluster's declaration is invalid.
    #[error("{0}")]
    Unusable(String),
}

/// Invalid reference in a generated Application.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidReference {
    /// The project doesn't exist.
    #[error("application references project {0} which does not exist")]
    Project(String),
    /// The destination cluster doesn't exist or is ambiguous.
    #[error("application destination spec is invalid: {0}")]
    Destination(UnresolvedCluster),
}

/// Checks that an Application's project and cluster exist. Permissions are checked later, when it is synced.
pub(crate) fn check_references(
    spec: &ApplicationSpec,
    known: &dyn References,
) -> Result<(), InvalidReference> {
    if spec.project != DEFAULT_PROJECT && !known.has_project(&spec.project) {
        return Err(InvalidReference::Project(spec.project.clone()));
    }
    known.check_destination(&spec.destination).map_err(InvalidReference::Destination)
}

/// Returns a message if an Application's cluster has been removed for good and its objects can't be deleted.
pub(crate) fn lost_cluster_reason(application: &Application, known: &dyn References) -> Option<String> {
    match known.check_destination(&application.spec.destination) {
        Err(UnresolvedCluster::NotFound(reason)) => Some(reason),
        Err(UnresolvedCluster::Unusable(_)) | Ok(()) => None,
    }
}
