//! Deletion of applications: the cascade and the next step.
//!
//! As in Argo CD, the finalizers determine how an application is deleted. With a resources finalizer, an
//! operation deletes the objects; with only hook finalizers, it just runs the hooks. Once the operation has
//! succeeded, the finalizers are removed and the Application disappears. An Application without finalizers is
//! simply no longer managed, and the cluster is left as it is.

mod requester;

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_model::annotations::{DELETION_APPROVED, is_finalizer_or_stage};
use tidegate_model::argo::{
    Application, ConditionType, OperationInitiator, OperationRequest, OperationState, ResourceStatus, Retry,
    Strategy, SyncOperation, SyncStatusCode, SyncStrategy,
};
use tidegate_model::{
    Cascade, ClaimRequest, Destination, Gvk, HealthStatus, OperationPhase, Requester, SyncOptions,
    SyncRequest, Timestamp,
};

use crate::comparison::set_health;
use crate::controller_info::{APPROVED_INFO, DELETION_INFO, REQUESTED_AT_INFO};
use crate::hook_finalizers::is_hook_finalizer;
use crate::operation::{self, OperationRefusal, REVISION_SEPARATOR, source_text};
use crate::sources::{Sources, revisions_of_fields};
use crate::{conditions, instance_name, refresh};

pub use requester::DeletionRequester;
pub use tidegate_model::annotations::RESOURCES_FINALIZER;

/// Tidegate-specific condition type: a deletion is waiting for something other than its own operation.
pub const DELETION_CONDITION: &str = "DeletionWarning";
/// Suffix of the resources finalizer for background deletion, where each object is deleted before its
/// dependents.
const BACKGROUND_SUFFIX: &str = "/background";
/// Requester of a deletion in the log if the resource doesn't record one. Followed by the time of the
/// request, if known.
pub(crate) const DELETION_REQUESTER: &str = "deletion of the application";
/// Separator between the requester and the time of the request.
const REQUESTED_AT: &str = ", requested at ";
/// Default number of immediate retries of a deletion.
const RETRY_LIMIT_DEFAULT: i64 = 2;
/// Delay before a failed deletion is retried automatically.
const RETRY_DELAY: Duration = Duration::from_secs(180);

/// Returns true if a finalizer determines how Tidegate deletes an application.
pub fn is_own_finalizer(finalizer: &str) -> bool {
    is_resources_finalizer(finalizer) || is_hook_finalizer(finalizer)
}

/// Returns true for all forms of the resources finalizer.
pub fn is_resources_finalizer(finalizer: &str) -> bool {
    is_finalizer_or_stage(finalizer, RESOURCES_FINALIZER)
}

/// Returns the cascade that the application's finalizers request, or `None` if the application is deleted
/// without an operation.
pub fn cascade_from_finalizers(application: &Application) -> Option<Cascade> {
    parse_finalizers(&application.metadata.finalizers)
}

fn parse_finalizers(finalizers: &[String]) -> Option<Cascade> {
    let mut own = finalizers.iter().filter(|one| is_own_finalizer(one));
    let resources = own.clone().find_map(|one| one.strip_prefix(RESOURCES_FINALIZER));
    match resources {
        Some(BACKGROUND_SUFFIX) => Some(Cascade::Background),
        Some(_) => Some(Cascade::Foreground),
        None => own.next().map(|_| Cascade::Orphan),
    }
}

/// Returns the finalizers to set for a deletion with this cascade. Foreground is the default, so an existing
/// resources finalizer is kept.
pub fn finalizers(application: &Application, cascade: Cascade) -> Vec<String> {
    let mut finalizers = application.metadata.finalizers.clone();
    if cascade == Cascade::Foreground && finalizers.iter().any(|one| is_resources_finalizer(one)) {
        return finalizers;
    }
    finalizers.retain(|one| !is_resources_finalizer(one));
    match cascade {
        Cascade::Foreground => finalizers.push(RESOURCES_FINALIZER.to_owned()),
        Cascade::Background => finalizers.push(format!("{RESOURCES_FINALIZER}{BACKGROUND_SUFFIX}")),
        Cascade::Orphan => {}
    }
    finalizers
}

/// Returns true if the application is being deleted with this cascade.
pub fn is_deleting_with(application: &Application, wanted: Cascade) -> bool {
    application.is_deleting()
        && parse_finalizers(&finalizers(application, wanted)) == cascade_from_finalizers(application)
}

/// Returns true if an Application's deletion has failed and is waiting to be retried.
pub fn has_failed_deletion(application: &Application) -> bool {
    let conditions = &application.status.conditions;
    application.is_deleting() && conditions.iter().any(|one| one.kind == ConditionType::DeletionError)
}

/// Returns true if an Application is being deleted, its operation deletes it, or a deletion has left a
/// condition.
pub fn has_deletion(application: &Application) -> bool {
    let deletes = |asked: &OperationRequest| operation::deletion_cascade(asked).is_some();
    let mut kinds = application.status.conditions.iter().map(|one| &one.kind);
    let is_left = |kind: &ConditionType| match kind {
        ConditionType::DeletionError => true,
        ConditionType::Other(kind) => kind == DELETION_CONDITION,
        _ => false,
    };
    application.is_deleting() || application.operation.as_ref().is_some_and(deletes) || kinds.any(is_left)
}

/// Returns the reason an application can't be deleted with this cascade right now, or `None` if it can.
/// `name` is the display name.
pub fn deletion_refusal(application: &Application, name: &str, wanted: Cascade) -> Option<String> {
    if is_deleting_with(application, wanted) {
        return None;
    }
    if let Some(why) = refresh::skip_reason(application) {
        return Some(why);
    }
    application.is_deleting().then(|| {
        let way = cascade_from_finalizers(application).unwrap_or(Cascade::Orphan);
        format!(
            "application {name} is already being deleted with --cascade {way}, and the cascade can no \
             longer be changed; to wait for the deletion, use `tidegate app delete {name} --cascade {way} --yes`"
        )
    })
}

/// Returns a message if the current operation deletes an application that isn't being deleted.
pub fn unfounded_deletion_message(application: &Application) -> Option<String> {
    let deletes =
        application.operation.as_ref().is_some_and(|asked| operation::deletion_cascade(asked).is_some());
    (deletes && !application.is_deleting()).then(|| {
        format!(
            "application {} is not being deleted, so none of its objects were deleted",
            application.metadata.name
        )
    })
}

/// Next step of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum NextDeletionStep {
    /// Waits for the next event.
    Nothing,
    /// Starts the operation.
    Start(Box<OperationRequest>),
    /// Waits until this time before it starts another operation, because the last one failed.
    Wait(Timestamp),
    /// Removes the finalizers, because the deletion is complete.
    Release,
}

/// Decides on the next step, and sets conditions that explain why the application still exists. `asked` is
/// true if a retry was requested.
pub fn decide_deletion(application: &mut Application, asked: bool, now: Timestamp) -> NextDeletionStep {
    let (next, error) = decide_step(application, asked, now);
    let held = ConditionType::Other(DELETION_CONDITION.to_owned());
    let kinds = [ConditionType::DeletionError, held.clone()];
    let found = error.map(|error| (ConditionType::DeletionError, error));
    let found = found.into_iter().chain(describe_delay(application).map(|why| (held, why)));
    conditions::set_conditions(&mut application.status.conditions, &kinds, found, now);
    if are_objects_deleted(application) {
        clear_resources(application, now);
    }
    next
}

/// Describes the reason for a delayed deletion, or the consequence of a canceled one.
fn describe_delay(application: &Application) -> Option<String> {
    let name = &application.metadata.name;
    let Some(asked) = &application.operation else {
        let others = &application.metadata.finalizers;
        let is_kept =
            application.is_deleting() && cascade_from_finalizers(application).is_none() && !others.is_empty();
        let objects = if are_objects_deleted(application) {
            "the application's objects have been deleted"
        } else {
            "the application's objects are kept"
        };
        return is_kept.then(|| {
            format!(
                "{objects}; the Application will be deleted once other controllers remove their finalizers: \
                 {}",
                others.join(", ")
            )
        });
    };
    let operation = operation::engine_id(asked).map_or_else(String::new, |id| format!(" {id}"));
    match (application.is_deleting(), operation::deletion_cascade(asked)) {
        (true, None) => Some(format!(
            "the Application will be deleted when operation{operation} ends; `tidegate app terminate {name}` \
             terminates that operation"
        )),
        (false, Some(_)) => Some(format!(
            "the Application was recreated, but operation{operation} is still deleting its objects; the \
             Application will be synced when that operation ends; `tidegate app terminate {name}` terminates \
             that operation"
        )),
        _ => None,
    }
}

/// Returns true if the objects are gone and only other controllers' finalizers keep the Application around.
fn are_objects_deleted(application: &Application) -> bool {
    application.is_deleting()
        && cascade_from_finalizers(application).is_none()
        && last_deletion_operation(application)
            .is_some_and(|(last, done)| last.phase == OperationPhase::Succeeded && done.deletes_objects())
}

/// Removes the objects from the application's status, where they are no longer updated.
fn clear_resources(application: &mut Application, now: Timestamp) {
    let status = &mut application.status;
    status.resources.clear();
    if let Some(sync) = &mut status.sync {
        sync.status = SyncStatusCode::Unknown;
    }
    set_health(status, HealthStatus::Missing, String::new(), now);
}

fn decide_step(application: &Application, asked: bool, now: Timestamp) -> (NextDeletionStep, Option<String>) {
    let wanted = cascade_from_finalizers(application).filter(|_| application.is_deleting());
    let Some(wanted) = wanted else { return (NextDeletionStep::Nothing, None) };
    if application.operation.is_some() {
        // The current operation must finish before the deletion starts.
        return (NextDeletionStep::Nothing, None);
    }
    let begin = || NextDeletionStep::Start(Box::new(deletion_operation(application, wanted)));
    let Some((last, done)) = last_deletion_operation(application) else { return (begin(), None) };
    if last.phase == OperationPhase::Succeeded {
        // If the objects must go, an operation that kept them doesn't complete the deletion.
        let is_done = done == wanted || done.deletes_objects();
        return (if is_done { NextDeletionStep::Release } else { begin() }, None);
    }
    let due = last.finished_at.map_or(now, |at| at.timestamp() + RETRY_DELAY);
    if asked || due <= now {
        return (begin(), None);
    }
    let name = &application.metadata.name;
    let stay = match wanted {
        Cascade::Orphan => "",
        _ => " and keep the objects",
    };
    let error = format!(
        "deletion failed: {}; the next attempt is at {due}, or immediately with `tidegate app refresh {name}`; to end the deletion{stay}, remove the Application's finalizers (if its file no longer exists, restore the file without finalizers)",
        last.message.trim_end_matches('.')
    );
    (NextDeletionStep::Wait(due), Some(error))
}

/// Returns the last operation if it is part of this deletion, without comparing times from different clocks.
fn last_deletion_operation(application: &Application) -> Option<(&OperationState, Cascade)> {
    let last = application.status.operation_state.as_ref().filter(|last| last.phase.is_completed())?;
    let done = operation::deletion_cascade(&last.operation)?;
    is_of_current_deletion(application, &last.operation).then_some((last, done))
}

/// Returns true if an operation is part of the resource's current deletion.
fn is_of_current_deletion(application: &Application, operation: &OperationRequest) -> bool {
    let asked_at = application.metadata.deletion_timestamp.map(|at| at.to_string());
    asked_at.is_some() && operation.info_value(REQUESTED_AT_INFO) == asked_at.as_deref()
}

/// Parses a deletion's requester from the log into the name (empty if unknown) and the time of the request.
/// Returns `None` if the text isn't a deletion requester.
pub(crate) fn parse_requester(initiated_by: &str) -> Option<(&str, Option<&str>)> {
    let (who, at) = match initiated_by.rsplit_once(REQUESTED_AT) {
        Some((who, at)) => (who, Some(at)),
        None => (initiated_by, None),
    };
    if who == DELETION_REQUESTER {
        return Some(("", at));
    }
    Requester::deletion_requester(who).map(|_| (who, at))
}

/// Returns true if a user approved the deletion after it was requested: the annotation's time is later than
/// the request, or the annotation has changed since the deletion started. The latter doesn't depend on the
/// approver's clock.
pub fn is_approved(application: &Application, operation: &OperationRequest) -> bool {
    let Some(approved) = application.annotation(DELETION_APPROVED) else { return false };
    let Some(at) = approved_at(application) else { return false };
    let Some(asked) = application.metadata.deletion_timestamp else { return false };
    let is_begun = is_of_current_deletion(application, operation);
    let is_new = operation.info_value(APPROVED_INFO).is_some_and(|before| before != approved);
    at >= asked.timestamp() || is_begun && is_new
}

/// Returns the time in an application's approval annotation, if it is valid.
pub(crate) fn approved_at(application: &Application) -> Option<Timestamp> {
    application.annotation(DELETION_APPROVED)?.parse().ok()
}

/// Returns the kind, namespace and name of all objects in the application's status, except those that need
/// pruning, which may belong to another application.
pub fn owned_objects(application: &Application) -> BTreeSet<(Gvk, String, String)> {
    let resources = application.status.resources.iter();
    let own = resources.filter(|one| !one.requires_pruning && !one.hook && !one.name.is_empty());
    let place = |one: &ResourceStatus| {
        (Gvk::new(&one.group, &one.version, &one.kind), one.namespace.clone(), one.name.clone())
    };
    own.map(place).collect()
}

/// Returns the engine request that deletes an application from a destination.
pub fn deletion_request(
    application: &Application,
    operation: &OperationRequest,
    destination: Destination,
    namespace: String,
) -> Result<SyncRequest, OperationRefusal> {
    let cascade = operation::deletion_cascade(operation).ok_or(OperationRefusal::Empty)?;
    let sync = operation.sync.clone().unwrap_or_default();
    let is_shared = matches!(destination, Destination::Kubernetes { .. });
    let who = match operation.initiated_by.username.as_str() {
        "" => DELETION_REQUESTER,
        known => known,
    };
    Ok(SyncRequest {
        revision: revisions_of_fields(&sync.revision, &sync.revisions).join(REVISION_SEPARATOR),
        options: SyncOptions {
            prune: true,
            prune_confirmed: is_approved(application, operation),
            skip_hooks: skips_hooks(operation),
            flags: sync.sync_options,
            ..SyncOptions::default()
        },
        retry: operation.retry.as_ref().map(Retry::to_policy).transpose()?.unwrap_or_default(),
        initiated_by: match operation.info_value(REQUESTED_AT_INFO) {
            Some(at) => format!("{who}{REQUESTED_AT}{at}"),
            None => who.to_owned(),
        },
        sources: Sources::from_application(application).as_slice().iter().map(source_text).collect(),
        claim: is_shared.then(ClaimRequest::default),
        deletion: Some(cascade),
        ..SyncRequest::new(instance_name(application), namespace, destination)
    })
}

/// Returns the operation that deletes an application.
pub fn deletion_operation(application: &Application, cascade: Cascade) -> OperationRequest {
    let policy = application.spec.sync_policy.clone().unwrap_or_default();
    let sources = Sources::from_application(application).without_credentials();
    let sync = SyncOperation {
        source: sources.single_field(),
        sources: sources.list_field(),
        prune: true,
        sync_options: policy.sync_options,
        ..SyncOperation::default()
    };
    let mut operation = OperationRequest {
        sync: Some(sync),
        initiated_by: OperationInitiator {
            username: DeletionRequester::from_metadata(&application.metadata)
                .map(|asker| asker.describe())
                .unwrap_or_default(),
            automated: true,
            ..OperationInitiator::default()
        },
        retry: Some(policy.retry.unwrap_or_else(|| Retry { limit: RETRY_LIMIT_DEFAULT, ..Retry::default() })),
        ..OperationRequest::default()
    };
    operation.set_info(DELETION_INFO, cascade.as_str());
    if let Some(at) = application.metadata.deletion_timestamp {
        operation.set_info(REQUESTED_AT_INFO, at.to_string());
    }
    if DeletionRequester::from_metadata(&application.metadata).is_some_and(|asker| asker.skips_hooks()) {
        skip_hooks(&mut operation);
    }
    // An annotation from before this deletion doesn't approve it.
    let before =
        last_deletion_operation(application).and_then(|(last, _)| last.operation.info_value(APPROVED_INFO));
    let now = application.annotation(DELETION_APPROVED);
    operation.set_info(APPROVED_INFO, before.or(now).unwrap_or_default());
    operation
}

/// Makes an operation skip the deletion hooks.
pub fn skip_hooks(operation: &mut OperationRequest) {
    let sync = operation.sync.get_or_insert_default();
    sync.sync_strategy = Some(SyncStrategy { apply: Some(Strategy::default()), ..SyncStrategy::default() });
}

/// Returns true if an operation that deletes an application runs its hooks.
pub fn runs_hooks(operation: &OperationRequest) -> bool {
    operation::deletion_cascade(operation) != Some(Cascade::Orphan) && !skips_hooks(operation)
}

fn skips_hooks(operation: &OperationRequest) -> bool {
    let strategy = operation.sync.as_ref().and_then(|sync| sync.sync_strategy.as_ref());
    strategy.is_some_and(|strategy| strategy.apply.is_some())
}

#[cfg(test)]
mod tests;
