//! What people ask of an application, as the operation that it is: for the command line and the API.

use tidegate_application::superseding::{self, POLICY_REMARK};
use tidegate_model::IfTaken;
use tidegate_model::argo::{Application, OperationRequest, OperationResource, SyncOperation};

/// A sync that somebody asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncWish {
    /// Branch, tag or commit; that of the application where it is empty.
    pub revision: String,
    /// The same of several sources, in their order; one that is empty is that of its source. Empty where `revision` is meant.
    pub revisions: Vec<String>,
    /// Objects that are no longer in the manifests are deleted.
    pub prune: bool,
    /// Nothing is written.
    pub dry_run: bool,
    /// Only these; empty for all.
    pub resources: Vec<OperationResource>,
    /// What happens while another operation of the application is under way.
    pub policy: IfTaken,
}

/// The operation: what is wished, by the policy of the application.
pub fn sync(application: &Application, wish: SyncWish) -> OperationRequest {
    let policy = application.spec.sync_policy.clone().unwrap_or_default();
    let SyncWish { revision, revisions, prune, dry_run, resources, policy: if_busy } = wish;
    let mut asked = OperationRequest {
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
    if if_busy != IfTaken::Refuse {
        asked.set_remark(POLICY_REMARK, superseding::word(if_busy));
    }
    asked
}

/// What such an operation says of one that is under way; nothing where it is refused then.
pub fn policy(asked: &OperationRequest) -> Option<&str> {
    asked.remark(POLICY_REMARK)
}
