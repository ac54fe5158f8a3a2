//! What the Applications of sets refer to: the projects and clusters that this process knows.

use tidegate_applicationset::known::{Known, NoCluster};
use tidegate_model::argo::ApplicationDestination;

use crate::applications::{Missing, Shared};

impl Known for Shared {
    fn has_project(&self, name: &str) -> bool {
        // One that cannot be read, or is not known yet, is there.
        !matches!(self.projects.find(name), Err(Missing::Absent(_)))
    }

    fn destination(&self, destination: &ApplicationDestination) -> Result<(), NoCluster> {
        self.places.means_one(destination)
    }
}
