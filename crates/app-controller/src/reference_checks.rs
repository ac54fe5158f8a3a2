//! Projects and clusters that this process has loaded, used to check references in generated Applications.

use tidegate_applicationset::references::{References, UnresolvedCluster};
use tidegate_model::argo::ApplicationDestination;

use crate::projects::MissingProject;
use crate::shared_state::SharedState;

impl References for SharedState {
    fn has_project(&self, name: &str) -> bool {
        // A project that is unreadable or hasn't been loaded yet is assumed to exist.
        !matches!(self.projects.find(name), Err(MissingProject::Absent(_)))
    }

    fn check_destination(&self, destination: &ApplicationDestination) -> Result<(), UnresolvedCluster> {
        self.destinations.check_unambiguous(destination)
    }
}
