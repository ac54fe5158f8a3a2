//! Deletion of projects. A finalizer keeps a deleted project while an Application refers to it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_model::argo::AppProject;

use super::Projects;

/// Delay before retrying to release a project.
pub const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Returns true if a project is being deleted and still has its finalizer.
fn is_awaiting_release(project: &AppProject) -> bool {
    let metadata = &project.metadata;
    metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().any(|one| one == RESOURCES_FINALIZER)
}

impl Projects {
    /// Returns the projects that are being deleted, still have their finalizer, and aren't used by any
    /// Application.
    pub fn releasable(&self, named: impl FnOnce() -> BTreeSet<String>) -> Vec<Arc<AppProject>> {
        let mut remaining: Vec<Arc<AppProject>> = self.with_declared(|all| {
            all.values().flatten().filter(|project| is_awaiting_release(project)).cloned().collect()
        });
        if !remaining.is_empty() {
            let named = named();
            remaining.retain(|project| !named.contains(&project.metadata.name));
        }
        remaining
    }
}
