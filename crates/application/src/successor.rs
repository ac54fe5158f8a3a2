//! Successor of an operation: the next operation, which either waits for the running one to finish or
//! supersedes it.

use serde::{Deserialize, Serialize};
use tidegate_model::argo::{OperationRequest, OperationState};
use tidegate_model::{OperationPhase, SUPERSEDED_PREFIX, SafePoint, UNIDENTIFIED_OPERATION};

use crate::controller_info::{SUPERSEDES_INFO, engine_id, remove_controller_infos};

/// Operation info item: the successor.
const NEXT_INFO: &str = "tidegate.dev/next";

/// Successor of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Successor {
    /// The requested operation.
    pub operation: OperationRequest,
    /// Safe point at which the running operation makes way for its successor. `None` if the successor waits
    /// for it to finish on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<SafePoint>,
    /// True if the successor is a retry, which is dropped if the operation finishes on its own.
    #[serde(default)]
    pub is_retry: bool,
}

/// Returns the successor of an operation.
pub fn successor_of(operation: &OperationRequest) -> Option<Successor> {
    serde_json::from_str(operation.info_value(NEXT_INFO)?).ok()
}

/// Sets the successor of an operation.
pub(crate) fn set_successor(operation: &mut OperationRequest, next: &Successor) {
    // A value that was parsed from JSON can always be serialized as JSON.
    if let Ok(text) = serde_json::to_string(next) {
        operation.set_info(NEXT_INFO, text);
    }
}

/// Removes the successor of an operation.
pub(crate) fn remove_successor(operation: &mut OperationRequest) {
    operation.info.retain(|info| info.name != NEXT_INFO);
}

/// Moves an operation's successor to the operation that replaces it.
pub(crate) fn move_successor(from: &OperationRequest, to: &mut OperationRequest) {
    from.info_value(NEXT_INFO).into_iter().for_each(|next| to.set_info(NEXT_INFO, next));
}

/// Removes and returns the successor of an operation that finished with this message. Returns `None` if it is
/// no longer needed.
pub(crate) fn take_successor(
    operation: &mut OperationRequest,
    is_deleting: bool,
    message: &str,
) -> Option<OperationRequest> {
    let next = successor_of(operation);
    remove_successor(operation);
    let is_superseded = is_superseded(message);
    let mut next = next.filter(|next| !is_deleting && (is_superseded || !next.is_retry))?.operation;
    remove_controller_infos(&mut next);
    if is_superseded && let Some(id) = engine_id(operation) {
        next.set_info(SUPERSEDES_INFO, id.to_string());
    }
    Some(next)
}

fn is_superseded(message: &str) -> bool {
    message.strip_prefix(SUPERSEDED_PREFIX).is_some_and(|by| by.starts_with(UNIDENTIFIED_OPERATION))
}

/// Returns true if another sync superseded the application's last operation. A superseded operation says
/// nothing about whether its revision works.
pub fn was_superseded(last: &OperationState) -> bool {
    last.phase == OperationPhase::Failed && is_superseded(&last.message)
}
