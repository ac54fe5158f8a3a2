//! Deletion of extra objects, and of hook objects when the application is deleted.

use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::{CallError, PruneResult};

use super::subject::Subject;
use super::{hooks, resources};

/// Deletes the object with this UID if it still belongs to the application and must still be pruned. During
/// the deletion of the application, also removes the finalizer of a hook object.
pub(super) async fn prune(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
) -> Result<PruneResult, CallError> {
    let pruning = resources::prune(cluster, subject, uid).await?;
    if pruning == PruneResult::DeletionStarted && subject.request.deletion.is_some() {
        hooks::release_orphaned(cluster, subject, uid).await?;
    }
    Ok(pruning)
}
