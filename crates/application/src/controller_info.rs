//! Operation info items that only the controller may set. They record the started operation, its requester,
//! and whether it deletes an application.

use tidegate_model::argo::OperationRequest;
use tidegate_model::{Cascade, OperationId};

/// The operation's ID in the engine. Written before the engine receives the operation, so that it starts only
/// once even if the process crashes in between.
pub const ID_INFO: &str = "tidegate.dev/operation-id";
/// Cascade of an operation that deletes its application.
pub(crate) const DELETION_INFO: &str = "tidegate.dev/deletion";
/// The time at which the resource's deletion was requested. It identifies the deletion.
pub(crate) const REQUESTED_AT_INFO: &str = "tidegate.dev/deletion-asked-at";
/// The approval annotation from before the deletion, if any. It doesn't approve this deletion.
pub(crate) const APPROVED_INFO: &str = "tidegate.dev/deletion-approved-before";
/// The progressive sync that an operation is part of.
pub(crate) const ROLLOUT_INFO: &str = "tidegate.dev/rollout-of";
/// The stored plan that the operation must execute or that is waiting for approval.
pub const PLAN_INFO: &str = "tidegate.dev/plan";
/// Allows unrelated fields to have changed since the plan was computed.
pub const DRIFT_INFO: &str = "tidegate.dev/plan-allows-drift";
/// The revision names as requested, one per line.
pub(crate) const REVISION_NAMES_INFO: &str = "tidegate.dev/revisions";
/// The operation that was superseded by this one.
pub const SUPERSEDES_INFO: &str = "tidegate.dev/supersedes";
/// The last attempt before an operation that isn't itself an attempt to sync the whole application.
pub(crate) const ATTEMPT_INFO: &str = "tidegate.dev/last-attempt";
/// For an operation that isn't in the log: the newest earlier one that is.
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

/// Removes the controller's info items from an operation written by another client.
pub fn remove_controller_infos(operation: &mut OperationRequest) {
    operation.info.retain(|info| !CONTROLLER_INFOS.contains(&info.name.as_str()));
}
