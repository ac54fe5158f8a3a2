//! Deleting what is no longer wanted: an object, or where the application is deleted also what is left of a hook.

use tidegate_cluster::Cluster;
use tidegate_lifecycle::operation::{CallError, Pruning};

use super::subject::Subject;
use super::{hooks, resources};

/// Deletes the object with this UID, if it is still ours and to be deleted.
pub(super) async fn prune(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
) -> Result<Pruning, CallError> {
    let pruning = resources::prune(cluster, subject, uid).await?;
    if pruning == Pruning::Begun && subject.request.deletion.is_some() {
        hooks::let_go(cluster, subject, uid).await?;
    }
    Ok(pruning)
}
