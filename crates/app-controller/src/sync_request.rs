//! Converts user requests from the command line and the API to operations on an Application.

use tidegate_application::supersede::{self, POLICY_INFO};
use tidegate_model::ClaimConflictPolicy;
use tidegate_model::argo::{Application, OperationRequest, OperationResource, SyncOperation};

/// A requested sync.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncParameters {
    /// Branch, tag or commit; empty for the Application's own revision.
    pub revision: String,
    /// Revisions for several sources, in source order, with an empty entry for a source's own revision. If
    /// the list is empty, `revision` is used.
    pub revisions: Vec<String>,
    /// True if the sync deletes objects that are no longer in the manifests.
    pub prune: bool,
    /// True for a dry run, which doesn't write anything.
    pub dry_run: bool,
    /// Resources to sync; empty for all resources.
    pub resources: Vec<OperationResource>,
    /// Action to take if another operation for the Application is running.
    pub policy: ClaimConflictPolicy,
}

/// Returns the operation for a sync that uses the Application's sync policy.
pub fn sync_operation(application: &Application, request: SyncParameters) -> OperationRequest {
    let policy = application.spec.sync_policy.clone().unwrap_or_default();
    let SyncParameters { revision, revisions, prune, dry_run, resources, policy: if_busy } = request;
    let mut operation = OperationRequest {
        sync: Some(SyncOperation {
            revision,
            revisions,
            prune,
            dry_run,
            resources,
            sync_options: policy.sync_options,
            ..SyncOperation::default()
        }),
        retry: policy.retry,
        ..OperationRequest::default()
    };
    if if_busy != ClaimConflictPolicy::Refuse {
        operation.set_info(POLICY_INFO, supersede::policy_name(if_busy));
    }
    operation
}

/// Returns an operation's policy for a conflict with a running operation, or `None` if the operation is
/// rejected in a conflict.
pub fn conflict_policy(request: &OperationRequest) -> Option<&str> {
    request.info_value(POLICY_INFO)
}
