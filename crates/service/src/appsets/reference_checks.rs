//! Projects and clusters known to this process, to check the references of generated Applications.

use tidegate_applicationset::references::{References, UnresolvedCluster};
use tidegate_model::argo::ApplicationDestination;

use crate::applications::{MissingProject, SharedState};

impl References for SharedState {
    fn has_project(&self, name: &str) -> bool {
        // A project that is unreadable or not loaded yet counts as existing.
        !matches!(self.projects.find(name), Err(MissingProject::Absent(_)))
    }

    fn check_destination(&self, check_destination: &ApplicationDestination) -> Result<(), UnresolvedCluster> {
        self.destinations.check_unambiguous(check_destination)
    }
}
