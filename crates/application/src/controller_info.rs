//! Info items of operations that only the controller may set. They record the started operation, its
//! requester, and whether it deletes an application.

use tidegate_model::argo::OperationRequest;
use tidegate_model::{Cascade, OperationId};

/// Operation info item: the operation's ID in the engine. It is written before the engine receives the
/// operation, so the operation starts only once even if the process crashes in between.
pub const ID_INFO: &str = "tidegate.dev/operation-id";
/// Info item of an operation that deletes its application: the cascade.
pub(crate) const DELETION_INFO: &str = "tidegate.dev/deletion";
/// Info item of a deletion: the time at which the deletion of the resource was requested. It identifies the
/// deletion.
pub(crate) const REQUESTED_AT_INFO: &str = "tidegate.dev/deletion-asked-at";
/// Info item of a deletion: the approval annotation that existed before the deletion, if any. It doesn't
/// approve this deletion.
pub(crate) const APPROVED_INFO: &str = "tidegate.dev/deletion-approved-before";
/// Info item of an operation that belongs to a progressive sync. Identifies the progressive sync.
pub(crate) const ROLLOUT_INFO: &str = "tidegate.dev/rollout-of";
/// Operation info item: the stored plan, which the operation must execute or which is waiting for an
/// approval.
pub const PLAN_INFO: &str = "tidegate.dev/plan";
/// Operation info item: unrelated fields may have changed since the plan was computed.
pub const DRIFT_INFO: &str = "tidegate.dev/plan-allows-drift";
/// Operation info item: the revision names as requested, one per line.
pub(crate) const REVISION_NAMES_INFO: &str = "tidegate.dev/revisions";
/// Operation info item: the operation that this operation superseded.
pub const SUPERSEDES_INFO: &str = "tidegate.dev/supersedes";
/// Info item of an operation that isn't an attempt to sync the whole application: the last attempt before
/// this operation.
pub(crate) const ATTEMPT_INFO: &str = "tidegate.dev/last-attempt";
/// Info item of an operation that isn't in the log: the newest earlier operation that is in the log.
pub(crate) const AFTER_INFO: &str = "tidegate.dev/after-operation";
/// All info items that only the controller may set.
const CONTROLLER_INFOS: [&str; 11] = [
    ID_INFO,
    PLAN_INFO,
    DRIFT_INFO,
    DELETION_INFO,
    REQUESTED_AT_INFO,
    APPROVED_INFO,
    ROLLOUT_INFO,
    REVISION_NAMES_INFO,
    SUPERSEDES_INFO,
    ATTEMPT_INFO,
    AFTER_INFO,
];

/// Returns the operation's ID in the engine, if it has one.
pub fn engine_id(operation: &OperationRequest) -> Option<OperationId> {
    operation.info_value(ID_INFO)?.parse().ok()
}

/// Returns the cascade of an operation that deletes its application, or `None` for a sync.
pub fn deletion_cascade(operation: &OperationRequest) -> Option<Cascade> {
    operation.info_value(DELETION_INFO)?.parse().ok()
}

/// Removes the controller's info items from an operation that another client wrote.
pub fn remove_controller_infos(operation: &mut OperationRequest) {
    operation.info.retain(|info| !CONTROLLER_INFOS.contains(&info.name.as_str()));
}
