//! Information that would be lost when a new operation starts, because the status has room for only one.

use std::borrow::Cow;

use tidegate_model::OperationId;
use tidegate_model::argo::{OperationRequest, OperationState, SyncOperation};

use crate::controller_info::{AFTER_INFO, ATTEMPT_INFO, deletion_cascade, engine_id};
use crate::sources::{is_commit, revisions_of_fields};

/// Returns true if an operation says nothing about whether its revision was synced: a dry run, or a sync of
/// resources that a user selected. Self-heal operations don't qualify, because their resources are part of a
/// complete sync.
pub(crate) fn is_not_deployment(operation: &OperationRequest) -> bool {
    let by_person = !operation.initiated_by.automated;
    let is_part = |one: &SyncOperation| by_person && !one.resources.is_empty();
    operation.sync.as_ref().is_some_and(|sync| sync.dry_run || is_part(sync))
}

/// Returns true if an operation isn't an attempt to sync the application: it isn't a deployment, or it
/// finished before its commit was known.
fn is_not_attempt(operation: &OperationRequest) -> bool {
    let has_commit = |one: &SyncOperation| {
        revisions_of_fields(&one.revision, &one.revisions).iter().any(|revision| is_commit(revision))
    };
    let is_unbegun = !operation.initiated_by.automated
        && engine_id(operation).is_none()
        && deletion_cascade(operation).is_none()
        && !operation.sync.as_ref().is_some_and(has_commit);
    is_unbegun || is_not_deployment(operation)
}

/// Returns the last attempt to sync the application, according to the status.
pub(crate) fn last_attempt(last: &OperationState) -> Option<Cow<'_, OperationState>> {
    match is_not_attempt(&last.operation) {
        true => serde_json::from_str(last.operation.info_value(ATTEMPT_INFO)?).ok().map(Cow::Owned),
        // Borrowed, because an operation may contain thousands of objects.
        false => Some(Cow::Borrowed(last)),
    }
}

/// Returns the newest logged operation, according to the status.
pub(crate) fn newest_logged_operation(last: &OperationState) -> Option<OperationId> {
    let before = || last.operation.info_value(AFTER_INFO)?.parse().ok();
    engine_id(&last.operation).or_else(before)
}

/// Stores information about `last` in the new operation that replaces it in the status. The last attempt is
/// stored only if automated sync is on, because nothing else needs it.
pub(crate) fn store_previous(
    operation: &mut OperationRequest,
    last: Option<&OperationState>,
    is_automated: bool,
) {
    remove_previous(operation);
    let Some(last) = last else { return };
    if engine_id(operation).is_none()
        && let Some(newest) = newest_logged_operation(last)
    {
        operation.set_info(AFTER_INFO, newest.to_string());
    }
    if is_automated
        && is_not_attempt(operation)
        && let Some(text) = previous_attempt(last)
    {
        operation.set_info(ATTEMPT_INFO, text);
    }
}

fn previous_attempt(last: &OperationState) -> Option<String> {
    // An operation that hasn't finished, or that isn't an attempt itself, already stores the attempt before
    // it.
    if last.finished_at.is_none() || is_not_attempt(&last.operation) {
        return last.operation.info_value(ATTEMPT_INFO).map(str::to_owned);
    }
    let mut attempt = last.clone();
    remove_previous(&mut attempt.operation);
    attempt.rest.clear();
    attempt.sync_result.iter_mut().for_each(|result| result.resources.clear());
    serde_json::to_string(&attempt).ok()
}

fn remove_previous(operation: &mut OperationRequest) {
    operation.info.retain(|info| ![ATTEMPT_INFO, AFTER_INFO].contains(&info.name.as_str()));
}

/// Returns true if two operations are the same request, apart from what `store_previous` adds.
pub fn is_same_request(one: &OperationRequest, other: &OperationRequest) -> bool {
    let bare = |operation: &OperationRequest| {
        let mut bare = operation.clone();
        remove_previous(&mut bare);
        bare
    };
    one == other || bare(one) == bare(other)
}
