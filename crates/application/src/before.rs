//! What the status knew before its last operation, where that says less than the one before: the status has room for one.

use std::borrow::Cow;

use tidegate_model::OperationId;
use tidegate_model::argo::{OperationRequest, OperationState, SyncOperation};

use crate::operation;
use crate::sources::{is_commit, revisions};

/// The remark of an operation that was no attempt to sync all of the application: the one before it that was.
pub(crate) const ATTEMPT_REMARK: &str = "tidegate.dev/last-attempt";
/// The remark of an operation that the log does not have: the newest before it that the log has.
pub(crate) const AFTER_REMARK: &str = "tidegate.dev/after-operation";

/// Whether an operation says nothing of whether its revision was synced: it writes nothing, or somebody has selected what it is
/// about. What puts the cluster right by itself is a part of what was synced.
pub(crate) fn is_aside(operation: &OperationRequest) -> bool {
    let by_person = !operation.initiated_by.automated;
    let is_part = |one: &SyncOperation| by_person && !one.resources.is_empty();
    operation.sync.as_ref().is_some_and(|sync| sync.dry_run || is_part(sync))
}

/// Whether an operation is no attempt to sync the application: it is aside, or somebody has asked for it, and it never came so far
/// that it had a commit.
fn is_no_attempt(operation: &OperationRequest) -> bool {
    let has_commit = |one: &SyncOperation| {
        revisions(&one.revision, &one.revisions).iter().any(|revision| is_commit(revision))
    };
    let is_unbegun = !operation.initiated_by.automated
        && operation::id(operation).is_none()
        && operation::cascade(operation).is_none()
        && !operation.sync.as_ref().is_some_and(has_commit);
    is_unbegun || is_aside(operation)
}

/// The last attempt to sync the application as it is wanted, of which the status knows.
pub(crate) fn attempt(last: &OperationState) -> Option<Cow<'_, OperationState>> {
    match is_no_attempt(&last.operation) {
        true => serde_json::from_str(last.operation.remark(ATTEMPT_REMARK)?).ok().map(Cow::Owned),
        // It may name thousands of objects.
        false => Some(Cow::Borrowed(last)),
    }
}

/// The newest operation of the log that the status knows.
pub(crate) fn newest(last: &OperationState) -> Option<OperationId> {
    let before = || last.operation.remark(AFTER_REMARK)?.parse().ok();
    operation::id(&last.operation).or_else(before)
}

/// Has an operation say what the status forgets when it tells of that one in the place of `last`. What was tried before counts
/// only where syncs begin by themselves.
pub(crate) fn remember(operation: &mut OperationRequest, last: Option<&OperationState>, is_automated: bool) {
    forget(operation);
    let Some(last) = last else { return };
    if operation::id(operation).is_none()
        && let Some(newest) = newest(last)
    {
        operation.set_remark(AFTER_REMARK, newest.to_string());
    }
    if is_automated
        && is_no_attempt(operation)
        && let Some(text) = attempt_before(last)
    {
        operation.set_remark(ATTEMPT_REMARK, text);
    }
}

fn attempt_before(last: &OperationState) -> Option<String> {
    // Of the same operation it is known already.
    if last.finished_at.is_none() || is_no_attempt(&last.operation) {
        return last.operation.remark(ATTEMPT_REMARK).map(str::to_owned);
    }
    let mut attempt = last.clone();
    forget(&mut attempt.operation);
    attempt.rest.clear();
    attempt.sync_result.iter_mut().for_each(|result| result.resources.clear());
    serde_json::to_string(&attempt).ok()
}

fn forget(operation: &mut OperationRequest) {
    operation.info.retain(|info| ![ATTEMPT_REMARK, AFTER_REMARK].contains(&info.name.as_str()));
}

/// Whether two are one request, whatever the status has to remember with it.
pub fn is_same(one: &OperationRequest, other: &OperationRequest) -> bool {
    let bare = |operation: &OperationRequest| {
        let mut bare = operation.clone();
        forget(&mut bare);
        bare
    };
    one == other || bare(one) == bare(other)
}
