//! Projects that are being deleted: each is kept by its finalizer as long as an Application names it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_model::argo::AppProject;

use super::Projects;

/// How long until it is tried again to let a project go.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Whether a project is being deleted, and kept by the finalizer that is taken off when no Application names it.
fn is_kept(project: &AppProject) -> bool {
    let metadata = &project.metadata;
    metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().any(|one| one == RESOURCES_FINALIZER)
}

impl Projects {
    /// Those that are being deleted, are kept by their finalizer, and are none of these, which Applications name.
    pub fn to_release(&self, named: impl FnOnce() -> BTreeSet<String>) -> Vec<Arc<AppProject>> {
        let mut kept: Vec<Arc<AppProject>> =
            self.written(|all| all.values().flatten().filter(|project| is_kept(project)).cloned().collect());
        if !kept.is_empty() {
            let named = named();
            kept.retain(|project| !named.contains(&project.metadata.name));
        }
        kept
    }
}
