//! The life of a hook object: make room, create, release, delete, stop.

use tidegate_cluster::{ApplyRequest, Cluster, ErrorKind, WriteMode};
use tidegate_health::HealthError;
use tidegate_lifecycle::operation::{Answer, CallError, Clearing, Stopped, hook_phase};
use tidegate_model::{DeletePolicy, Health, Object, OperationPhase, SyncRequest, TaskOptions, annotations};

use super::failures::call_error;
use super::found::{adopted, find, look};
use super::resources;
use super::subject::{Subject, manifest};
use crate::judging;

/// Marks a hook as created by this operation, in this phase and attempt.
fn mark(subject: &Subject<'_>, object: &mut Object) {
    object.set_annotation(annotations::OPERATION_ID, subject.operation.to_string());
    object.set_annotation(annotations::HOOK_ATTEMPT, subject.attempt.to_string());
    object.set_annotation(annotations::HOOK_PHASE, subject.task.phase.to_string());
}

/// Whether the hook was created by this operation, in this phase and attempt. Since it was not recorded, a crash lies
/// between.
fn is_ours(subject: &Subject<'_>, object: &Object) -> bool {
    let phase = subject.task.phase.to_string();
    is_of_operation(subject, object)
        // A hook that somebody has had tried again runs anew, within the same attempt.
        && subject.leftover != Some(object.uid())
        && object.annotation(annotations::HOOK_ATTEMPT) == Some(subject.attempt.to_string().as_str())
        // Earlier programs did not write the phase.
        && object.annotation(annotations::HOOK_PHASE).is_none_or(|created_for| created_for == phase)
}

/// Whether this operation created the hook, in whatever phase and attempt.
fn is_of_operation(subject: &Subject<'_>, object: &Object) -> bool {
    object.annotation(annotations::OPERATION_ID) == Some(subject.operation.to_string().as_str())
}

/// Whether an object may be deleted to make room: it is a hook, or belongs to the application.
fn is_hook_of_application(subject: &Subject<'_>, object: &Object) -> bool {
    let SyncRequest { application, tracking, .. } = subject.request;
    let hook = [annotations::HOOK, annotations::HELM_HOOK, annotations::OPERATION_ID];
    tracking.is_owner(application, object) || hook.iter().any(|name| object.annotation(name).is_some())
}

/// The other operation for which a hook object is still at work. Only that one may end it, whatever the hook's policy:
/// what it does would be cut off in the middle.
async fn at_work_for(subject: &Subject<'_>, found: &Object) -> Option<String> {
    let other = found.annotation(annotations::OPERATION_ID)?;
    // Whoever has it deleted has decided that.
    if is_of_operation(subject, found) || found.is_deleting() || has_ended_once(found) {
        return None;
    }
    let health = judging::assess(subject.health, found, subject.now).await?.ok()?;
    (hook_phase(health.status) == OperationPhase::Running).then(|| other.to_owned())
}

/// Whether its operation has seen the hook end, and took the finalizer off. What can end but once tells by itself; the
/// others may look busy again.
fn has_ended_once(found: &Object) -> bool {
    !found.has_finalizer(annotations::HOOK_FINALIZER) && !matches!(found.kind(), "Job" | "Pod")
}

/// What is to be done about the object in a hook's place.
enum Place {
    /// The hook's policy keeps it, and nobody runs it: the hook is applied to it.
    Kept,
    /// This, before the hook can be created.
    Not(Clearing),
}

/// Makes room for a hook.
pub(super) async fn clear(cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<Clearing, CallError> {
    let Some(found) = look_if_allowed(cluster, subject).await? else { return Ok(Clearing::Clear) };
    match make_room(cluster, subject, &found).await? {
        Place::Kept => Ok(Clearing::Clear),
        Place::Not(clearing) => Ok(clearing),
    }
}

/// The object in the task's place. The plan saw nothing there where it has no live object, so what may not be read then
/// is in nobody's way.
async fn look_if_allowed(cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<Option<Object>, CallError> {
    match look(cluster, subject).await {
        Err(error) if error.kind == ErrorKind::Forbidden && subject.task.live.is_none() => Ok(None),
        found => found.map_err(|error| call_error(&error)),
    }
}

/// Decides about the object in a hook's place, and deletes it where it has to go.
async fn make_room(cluster: &dyn Cluster, subject: &Subject<'_>, found: &Object) -> Result<Place, CallError> {
    if is_ours(subject, found) && !found.is_deleting() {
        return Ok(Place::Not(Clearing::Adopted(Box::new(adopted(subject, found).await))));
    }
    if let Some(operation) = at_work_for(subject, found).await {
        let (uid, resource_version) = (found.uid().to_owned(), found.resource_version().to_owned());
        return Ok(Place::Not(Clearing::Taken { operation, uid, resource_version }));
    }
    if !is_hook_of_application(subject, found) {
        return Err(CallError::permanent(format!(
            "{} is in the cluster, belongs to no application and has the name of a hook of {}; rename the hook or \
             remove the object",
            subject.task.key(),
            subject.request.application
        )));
    }
    // What this operation created for another phase or attempt says nothing about this one, whatever its policy.
    if keeps_older(subject) && !is_of_operation(subject, found) && !found.is_deleting() {
        return Ok(Place::Kept);
    }
    remove(cluster, subject, found).await.map(Place::Not)
}

/// Whether the hook's policy keeps the object of an earlier operation.
fn keeps_older(subject: &Subject<'_>) -> bool {
    !subject.task.hook.as_ref().is_some_and(|hook| hook.deletes(DeletePolicy::BeforeHookCreation))
}

/// Begins a hook: creates its object. The place was cleared, but whatever stands there by now is not written over:
/// the answer says what has to be done about it first.
pub(super) async fn create(cluster: &dyn Cluster, subject: &Subject<'_>) -> Answer {
    let mut object = match manifest(subject) {
        Ok(object) => object,
        Err(error) => return Answer::Applied(Err(error)),
    };
    mark(subject, &mut object);
    let is_clear = !(subject.again || keeps_older(subject));
    let found = if is_clear { Ok(None) } else { look_if_allowed(cluster, subject).await };
    match found {
        Ok(Some(found)) => return begin_at(cluster, subject, object, &found).await,
        Ok(None) => {}
        Err(error) => return Answer::Applied(Err(error)),
    }
    let TaskOptions { server_side, replace, .. } = subject.task.options;
    let mode = WriteMode::Create { client_side: !(server_side || replace) };
    let request =
        ApplyRequest { mode, take_over: None, ..resources::request(subject, object.clone(), false) };
    match cluster.apply(request).await {
        Err(error) if error.kind == ErrorKind::AlreadyExists => match look(cluster, subject).await {
            Ok(Some(found)) => begin_at(cluster, subject, object, &found).await,
            // It has just gone again.
            Ok(None) => Answer::Applied(Err(CallError::transient(error.message))),
            Err(unseen) => {
                let failure = call_error(&unseen);
                let message = format!("{}, and cannot be read: {}", error.message, failure.message);
                Answer::Applied(Err(CallError { message, ..failure }))
            }
        },
        answer => Answer::Applied(resources::applied(cluster, subject, answer).await.map(Box::new)),
    }
}

/// Begins a hook where an object stands in its place: with that very object if the policy keeps it, or not yet.
async fn begin_at(cluster: &dyn Cluster, subject: &Subject<'_>, object: Object, found: &Object) -> Answer {
    match make_room(cluster, subject, found).await {
        Ok(Place::Kept) => {
            let resource_version = found.resource_version().to_owned();
            let request = ApplyRequest { resource_version, ..resources::request(subject, object, false) };
            resources::answer(cluster, subject, request).await
        }
        Ok(Place::Not(Clearing::Adopted(applied))) => Answer::Applied(Ok(applied)),
        Ok(Place::Not(clearing)) => Answer::Cleared(Ok(clearing)),
        Err(error) => Answer::Cleared(Err(error)),
    }
}

/// Takes the finalizer off an older hook and deletes it.
async fn remove(cluster: &dyn Cluster, subject: &Subject<'_>, found: &Object) -> Result<Clearing, CallError> {
    let uid = found.uid().to_owned();
    if found.has_finalizer(annotations::HOOK_FINALIZER) {
        release(cluster, subject, &uid).await?;
    }
    let known = (!found.is_deleting()).then_some("");
    let gone = resources::delete(cluster, subject, &uid, known).await?;
    Ok(if gone { Clearing::Clear } else { Clearing::Deleting { uid } })
}

/// Takes the hook finalizer off. An object that is gone needs nothing.
pub(super) async fn release(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
) -> Result<(), CallError> {
    let (task, finalizer) = (subject.task, annotations::HOOK_FINALIZER);
    match cluster.remove_finalizer(&task.key(), &task.gvk, uid, finalizer, Some(subject.operation)).await {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::UnknownKind) => Ok(()),
        Err(error) => Err(call_error(&error)),
    }
}

/// Takes the hook finalizer off what an earlier operation left, whose application is deleted: nobody else will.
pub(super) async fn let_go(cluster: &dyn Cluster, subject: &Subject<'_>, uid: &str) -> Result<(), CallError> {
    match look(cluster, subject).await {
        Ok(Some(found)) if found.uid() == uid && found.has_finalizer(annotations::HOOK_FINALIZER) => {
            release(cluster, subject, uid).await
        }
        Ok(_) => Ok(()),
        // What may not be seen is awaited as it is.
        Err(error) if error.kind == ErrorKind::Forbidden => Ok(()),
        Err(error) => Err(call_error(&error)),
    }
}

/// Deletes a hook by its policy.
pub(super) async fn delete(cluster: &dyn Cluster, subject: &Subject<'_>, uid: &str) -> Result<(), CallError> {
    let Some(found) = find(cluster, subject).await?.filter(|found| found.uid() == uid) else { return Ok(()) };
    if at_work_for(subject, &found).await.is_some() {
        return Ok(());
    }
    remove(cluster, subject, &found).await.map(|_| ())
}

/// Ends a hook: how it stands is read once more, and it is deleted if it is still at work (spec: terminate).
pub(super) async fn stop(cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<Stopped, CallError> {
    let absent =
        || Stopped { phase: OperationPhase::Succeeded, message: "Terminated".to_owned(), gone: true };
    let Some(found) = find(cluster, subject).await?.filter(|found| is_ours(subject, found)) else {
        return Ok(absent());
    };
    let (phase, message) = match judging::assess(subject.health, &found, subject.now).await {
        None => (OperationPhase::Succeeded, String::new()),
        Some(Err(error @ HealthError::NoStatus { .. })) => {
            let health = Health::from(error);
            (hook_phase(health.status), health.message)
        }
        Some(Err(error)) => (OperationPhase::Error, format!("Failed to get hook health: {error}")),
        Some(Ok(health)) => (hook_phase(health.status), health.message),
    };
    let policy = subject.task.hook.as_ref().is_some_and(|hook| hook.deletes(DeletePolicy::HookFailed));
    let gone = if matches!(phase, OperationPhase::Running | OperationPhase::Error) || policy {
        remove(cluster, subject, &found).await?;
        true
    } else {
        release(cluster, subject, found.uid()).await?;
        false
    };
    Ok(Stopped { phase, message, gone })
}
