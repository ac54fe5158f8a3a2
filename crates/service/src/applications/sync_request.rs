//! Conversion of user requests to operations of an Application, for the command line and the API.

use tidegate_application::supersede::{self, POLICY_INFO};
use tidegate_model::ClaimConflictPolicy;
use tidegate_model::argo::{Application, OperationRequest, OperationResource, SyncOperation};

/// A requested sync.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncParameters {
    /// Branch, tag or commit. Empty for the Application's revision.
    pub revision: String,
    /// Revisions for several sources, in source order. An empty entry selects the source's own revision. If
    /// the list is empty, `revision` applies.
    pub revisions: Vec<String>,
    /// Deletes objects that are no longer in the manifests.
    pub prune: bool,
    /// Runs without writing anything.
    pub dry_run: bool,
    /// Resources to sync. Empty for all.
    pub resources: Vec<OperationResource>,
    /// Behavior if another operation of the Application is running.
    pub policy: ClaimConflictPolicy,
}

/// Returns the operation for a sync, using the Application's sync policy.
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

/// Returns how an operation behaves if another one is running, or `None` if it is rejected in this case.
pub fn conflict_policy(request: &OperationRequest) -> Option<&str> {
    request.info_value(POLICY_INFO)
}
