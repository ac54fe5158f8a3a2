//! What is known of what Applications refer to.

use tidegate_application::project::DEFAULT_PROJECT;
use tidegate_model::argo::{Application, ApplicationDestination, ApplicationSpec};

/// Projects and clusters, as they are now.
pub trait Known {
    /// Whether there is a project of this name. [`DEFAULT_PROJECT`] always is.
    fn has_project(&self, name: &str) -> bool;
    /// Whether a destination means one cluster. One that does not answer at present is one.
    ///
    /// # Errors
    /// Why not.
    fn destination(&self, destination: &ApplicationDestination) -> Result<(), NoCluster>;
}

/// Why a destination means no cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCluster {
    /// There is no such cluster, or not any more.
    #[error("{0}")]
    Gone(String),
    /// It could be one of several, or cannot be used as it is declared.
    #[error("{0}")]
    Unusable(String),
}

/// Why an Application cannot be as it is generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Its project is not there.
    #[error("application references project {0} which does not exist")]
    Project(String),
    /// It is not said which cluster is meant.
    #[error(
        "application destination spec is invalid: application destination can't have both name and server defined: {name} {server}; give it one of them"
    )]
    TwoDestinations {
        /// The name.
        name: String,
        /// The server.
        server: String,
    },
    /// Its cluster is not there.
    #[error("application destination spec is invalid: {0}")]
    Destination(NoCluster),
}

/// Whether what an Application refers to is there. What it may use is asked later, by whoever syncs it.
pub(crate) fn check(spec: &ApplicationSpec, known: &dyn Known) -> Result<(), Invalid> {
    if spec.project != DEFAULT_PROJECT && !known.has_project(&spec.project) {
        return Err(Invalid::Project(spec.project.clone()));
    }
    let ApplicationDestination { name, server, .. } = &spec.destination;
    if !name.is_empty() && !server.is_empty() {
        return Err(Invalid::TwoDestinations { name: name.clone(), server: server.clone() });
    }
    known.destination(&spec.destination).map_err(Invalid::Destination)
}

/// Whether the cluster of an Application is gone for good, so that nobody can delete what it has there.
pub(crate) fn lost_cluster(application: &Application, known: &dyn Known) -> Option<String> {
    match known.destination(&application.spec.destination) {
        Err(NoCluster::Gone(reason)) => Some(reason),
        Err(NoCluster::Unusable(_)) | Ok(()) => None,
    }
}
