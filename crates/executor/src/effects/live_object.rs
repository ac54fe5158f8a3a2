//! The existing object of a task.

use tidegate_cluster::{Cluster, ClusterError, ErrorKind};
use tidegate_lifecycle::operation::{ApplyResponse, CallError};
use tidegate_model::Object;

use super::call_errors::call_error;
use super::subject::{Subject, applied_result};

/// Returns the existing object of a task.
pub(super) async fn find_object(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
) -> Result<Option<Object>, CallError> {
    read_object(cluster, subject).await.map_err(|error| call_error(&error))
}

/// Like [`find_object`], but returns errors unconverted.
pub(super) async fn read_object(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
) -> Result<Option<Object>, ClusterError> {
    let task = subject.task;
    match cluster.get(&task.gvk, &task.namespace, &task.name).await {
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::UnknownKind) => Ok(None),
        answer => answer,
    }
}

/// Returns the result for an object that this operation created before a crash but couldn't record.
pub(super) async fn adoption_result(subject: &Subject<'_>, object: &Object) -> ApplyResponse {
    let message = format!(
        "{} adopted: this operation had created the object before the interruption",
        subject.task.key()
    );
    applied_result(subject, object, message).await
}
