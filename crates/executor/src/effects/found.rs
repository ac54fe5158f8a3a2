//! What stands in the place of a task's object.

use tidegate_cluster::{Cluster, ClusterError, ErrorKind};
use tidegate_lifecycle::operation::{Applied, CallError};
use tidegate_model::Object;

use super::failures::call_error;
use super::subject::{Subject, written};

/// The object in the task's place.
pub(super) async fn find(cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<Option<Object>, CallError> {
    look(cluster, subject).await.map_err(|error| call_error(&error))
}

/// The same, for who makes something of a refusal.
pub(super) async fn look(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
) -> Result<Option<Object>, ClusterError> {
    let task = subject.task;
    match cluster.get(&task.gvk, &task.namespace, &task.name).await {
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::UnknownKind) => Ok(None),
        answer => answer,
    }
}

/// An object that this operation created before a crash, and did not record.
pub(super) async fn adopted(subject: &Subject<'_>, object: &Object) -> Applied {
    let message =
        format!("{} adopted: this operation created it before it was interrupted", subject.task.key());
    written(subject, object, message).await
}
