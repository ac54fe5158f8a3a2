//! Life cycle of a hook object: making room for it, creating, releasing, deleting and stopping it.

use serde_json::Value;
use tidegate_cluster::{ApplyRequest, Cluster, ErrorKind, FinalizerRemoval, JobStart, WriteMode};
use tidegate_health::HealthError;
use tidegate_lifecycle::operation::{
    Answer, ApplyResponse, CallError, ClearingResult, StopResult, SuspendedHook, hook_phase,
};
use tidegate_model::{DeletePolicy, Health, Object, OperationPhase, SyncRequest, TaskOptions, annotations};

use super::call_errors::call_error;
use super::live_object::{adoption_result, find_object, read_object};
use super::resources;
use super::subject::{Subject, applied_result, copy_manifest};
use crate::health_evaluation;

/// Marks a hook as created by this operation, in this phase and attempt.
fn mark_hook(subject: &Subject<'_>, object: &mut Object) {
    object.set_annotation(annotations::OPERATION_ID, subject.operation.to_string());
    object.set_annotation(annotations::HOOK_ATTEMPT, subject.attempt.to_string());
    object.set_annotation(annotations::HOOK_PHASE, subject.task.phase.to_string());
}

/// Returns true if this operation created the hook in this phase and attempt. The log may not know, because
/// the process may have crashed before recording it.
fn is_ours(subject: &Subject<'_>, object: &Object) -> bool {
    let phase = subject.task.phase.to_string();
    is_from_operation(subject, object)
        // Exclude the object of an earlier run: a user can retry a hook within an attempt.
        && subject.leftover != Some(object.uid())
        && object.annotation(annotations::HOOK_ATTEMPT) == Some(subject.attempt.to_string().as_str())
        && object.annotation(annotations::HOOK_PHASE) == Some(phase.as_str())
}

/// Returns true if this operation created the hook in any phase or attempt.
fn is_from_operation(subject: &Subject<'_>, object: &Object) -> bool {
    object.annotation(annotations::OPERATION_ID) == Some(subject.operation.to_string().as_str())
}

/// Returns true if an object may be deleted to make room for a hook, because it is a hook or belongs to the
/// application.
fn is_hook_of_application(subject: &Subject<'_>, object: &Object) -> bool {
    let hook = [annotations::HOOK, annotations::HELM_HOOK, annotations::OPERATION_ID];
    is_tracked(subject, object) || hook.iter().any(|name| object.annotation(name).is_some())
}

fn is_tracked(subject: &Subject<'_>, object: &Object) -> bool {
    let SyncRequest { application, tracking, .. } = subject.request;
    tracking.is_owner(application, object)
}

/// Returns the other operation that is running this hook object. Only that operation may end it, whatever the
/// hook's policy says. Any other would interrupt its work.
async fn find_running_operation(subject: &Subject<'_>, found: &Object) -> Option<String> {
    let other = found.annotation(annotations::OPERATION_ID)?;
    // A hook being deleted doesn't count: deleting it means accepting the interruption. Neither does a Job of
    // this application that was never started. It may be left from a process that another one replaced.
    if is_from_operation(subject, found)
        || found.is_deleting()
        || has_ended(found)
        || found.is_unstarted_job() && is_tracked(subject, found)
    {
        return None;
    }
    let health = health_evaluation::evaluate_health(subject.health, found, subject.now).await?.ok()?;
    (hook_phase(health.status) == OperationPhase::Running).then(|| other.to_owned())
}

/// Returns true if the hook's operation has seen it finish and removed the finalizer. Always false for Jobs
/// and Pods, because their status reliably shows whether they have finished. Objects of other kinds may
/// become busy again later.
fn has_ended(found: &Object) -> bool {
    !found.has_finalizer(annotations::HOOK_FINALIZER) && !matches!(found.kind(), "Job" | "Pod")
}

/// Action for an existing object with the hook's name.
enum PlaceAction {
    /// The hook's policy keeps the object, which isn't running. The hook is applied to it.
    Reuse,
    /// The object must be removed before the hook can be created.
    Clear(ClearingResult),
}

/// Makes room for a hook under its name.
pub(super) async fn clear(cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<ClearingResult, CallError> {
    let Some(found) = read_object_if_allowed(cluster, subject).await? else {
        return Ok(ClearingResult::Clear);
    };
    match clear_existing(cluster, subject, &found).await? {
        PlaceAction::Reuse => Ok(ClearingResult::Clear),
        PlaceAction::Clear(clearing) => Ok(clearing),
    }
}

/// Returns the existing object of a task. If the plan has no live object for the task, a forbidden read isn't
/// an error: the object didn't exist at planning time.
async fn read_object_if_allowed(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
) -> Result<Option<Object>, CallError> {
    match read_object(cluster, subject).await {
        Err(error) if error.kind == ErrorKind::Forbidden && subject.task.live.is_none() => Ok(None),
        found => found.map_err(|error| call_error(&error)),
    }
}

/// Decides what to do with an existing object with the hook's name, and deletes it if necessary.
async fn clear_existing(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    found: &Object,
) -> Result<PlaceAction, CallError> {
    if is_ours(subject, found) && !found.is_deleting() {
        let adopted = adoption_result(subject, found).await;
        return Ok(PlaceAction::Clear(match suspended_hook(found, &adopted) {
            Some(hook) => ClearingResult::Suspended(hook),
            None => ClearingResult::Adopted(Box::new(adopted)),
        }));
    }
    if let Some(operation) = find_running_operation(subject, found).await {
        let (uid, resource_version) = (found.uid().to_owned(), found.resource_version().to_owned());
        return Ok(PlaceAction::Clear(ClearingResult::Occupied { operation, uid, resource_version }));
    }
    if !is_hook_of_application(subject, found) {
        return Err(CallError::permanent(format!(
            "{} has the name of a hook of application {} but does not belong to an application; rename the \
             hook, or delete the object from the cluster",
            subject.task.key(),
            subject.request.application
        )));
    }
    // Never keep an object that this operation created in another phase or attempt, or a Job that never ran,
    // whatever the policy.
    let is_usable = !is_from_operation(subject, found) && !found.is_deleting() && !found.is_unstarted_job();
    if should_keep_older(subject) && is_usable {
        return Ok(PlaceAction::Reuse);
    }
    remove(cluster, subject, found).await.map(PlaceAction::Clear)
}

/// Returns true if the hook's policy keeps objects of earlier operations.
fn should_keep_older(subject: &Subject<'_>) -> bool {
    !subject.task.hook.as_ref().is_some_and(|hook| hook.has_delete_policy(DeletePolicy::BeforeHookCreation))
}

/// Starts a hook by creating its object. Never overwrites an object that took the hook's name in the
/// meantime. Instead, the result contains the action that removes it.
pub(super) async fn create(cluster: &dyn Cluster, subject: &Subject<'_>) -> Answer {
    let mut object = match copy_manifest(subject) {
        Ok(object) => object,
        Err(error) => return Answer::Applied(Err(error)),
    };
    mark_hook(subject, &mut object);
    let mut created = object.clone();
    if starts_suspended(&created) {
        created.suspend_job();
    }
    let is_clear = !(subject.is_repeated || should_keep_older(subject));
    let found = if is_clear { Ok(None) } else { read_object_if_allowed(cluster, subject).await };
    match found {
        Ok(Some(found)) => return start_at(cluster, subject, object, &found).await,
        Ok(None) => {}
        Err(error) => return Answer::Applied(Err(error)),
    }
    let TaskOptions { server_side, replace, .. } = subject.task.options;
    let mode = WriteMode::Create { client_side: !(server_side || replace) };
    let request =
        ApplyRequest { mode, take_over: Vec::new(), ..resources::apply_request(subject, created, false) };
    match cluster.apply(request).await {
        Err(error) if error.kind == ErrorKind::AlreadyExists => match read_object(cluster, subject).await {
            Ok(Some(found)) => start_at(cluster, subject, object, &found).await,
            // The conflicting object has been deleted in the meantime, so retry.
            Ok(None) => Answer::Applied(Err(CallError::transient(error.message))),
            Err(unseen) => {
                let failure = call_error(&unseen);
                let message = format!("{}, and cannot be read: {}", error.message, failure.message);
                Answer::Applied(Err(CallError { message, ..failure }))
            }
        },
        Ok(written) => {
            let object = written.object.clone();
            match resources::convert_write_result(cluster, subject, Ok(written)).await {
                Ok(applied) => match suspended_hook(&object, &applied) {
                    Some(hook) => Answer::Suspended(hook),
                    None => Answer::Applied(Ok(Box::new(applied))),
                },
                Err(error) => Answer::Applied(Err(error)),
            }
        }
        refused => {
            Answer::Applied(resources::convert_write_result(cluster, subject, refused).await.map(Box::new))
        }
    }
}

/// Returns true if a hook is a Job that the operation creates suspended and then starts by its UID.
///
/// Only the second step runs the Job, and it happens after the UID is durable in the log. Without it, a
/// creation that an interrupted process sent earlier could reach the server after another process has run
/// the hook and deleted it, and would run the hook again. Jobs with a queue of Kueue, and Jobs that the
/// manifest suspends, start in other ways.
fn starts_suspended(object: &Object) -> bool {
    let is_suspended = object.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default();
    object.group() == "batch" && object.kind() == "Job" && !is_suspended && !object.has_queue()
}

/// Returns a hook that was created suspended and must be started. `None` if the object is already running.
/// Servers before Kubernetes 1.22 ignore the field, and run the Job immediately.
fn suspended_hook(object: &Object, applied: &ApplyResponse) -> Option<SuspendedHook> {
    let ApplyResponse { uid, message, warnings, .. } = applied.clone();
    object.is_unstarted_job().then_some(SuspendedHook { uid, message, warnings })
}

/// Starts the Job that was created suspended for a hook. Starting it again has no effect.
pub(super) async fn start(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
) -> Result<Box<ApplyResponse>, CallError> {
    let task = subject.task;
    let request = JobStart {
        gvk: task.gvk.clone(),
        namespace: task.namespace.clone(),
        name: task.name.clone(),
        uid: uid.to_owned(),
        operation: Some(subject.operation),
    };
    match cluster.start_job(request).await {
        Ok(job) => Ok(Box::new(applied_result(subject, &job, String::new()).await)),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::NamespaceMissing) => {
            Err(CallError::permanent(format!(
                "{} was deleted before it started; to run it, sync again",
                task.key()
            )))
        }
        Err(error) => Err(call_error(&error)),
    }
}

/// Starts a hook with a name that is already taken. Uses the existing object if the policy keeps it;
/// otherwise, it must be removed first.
async fn start_at(cluster: &dyn Cluster, subject: &Subject<'_>, object: Object, found: &Object) -> Answer {
    match clear_existing(cluster, subject, found).await {
        Ok(PlaceAction::Reuse) => {
            let resource_version = found.resource_version().to_owned();
            let request =
                ApplyRequest { resource_version, ..resources::apply_request(subject, object, false) };
            resources::write_and_answer(cluster, subject, request).await
        }
        Ok(PlaceAction::Clear(ClearingResult::Adopted(applied))) => Answer::Applied(Ok(applied)),
        Ok(PlaceAction::Clear(ClearingResult::Suspended(hook))) => Answer::Suspended(hook),
        Ok(PlaceAction::Clear(clearing)) => Answer::Cleared(Ok(clearing)),
        Err(error) => Answer::Cleared(Err(error)),
    }
}

/// Removes an older hook's finalizer and deletes the hook.
async fn remove(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    found: &Object,
) -> Result<ClearingResult, CallError> {
    let uid = found.uid().to_owned();
    if found.has_finalizer(annotations::HOOK_FINALIZER) {
        release(cluster, subject, &uid).await?;
    }
    let known = (!found.is_deleting()).then_some("");
    let gone = resources::delete_object(cluster, subject, &uid, known).await?;
    Ok(if gone { ClearingResult::Clear } else { ClearingResult::Deleting { uid } })
}

/// Removes the hook finalizer. Succeeds even if the object is gone.
pub(super) async fn release(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
) -> Result<(), CallError> {
    let task = subject.task;
    let request = FinalizerRemoval {
        gvk: task.gvk.clone(),
        namespace: task.namespace.clone(),
        name: task.name.clone(),
        uid: uid.to_owned(),
        finalizer: annotations::HOOK_FINALIZER.to_owned(),
        operation: Some(subject.operation),
    };
    match cluster.remove_finalizer(request).await {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::UnknownKind) => Ok(()),
        Err(error) => Err(call_error(&error)),
    }
}

/// Removes the hook finalizer from an earlier operation's object during the deletion of the application. No
/// other operation would remove it.
pub(super) async fn release_orphaned(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
) -> Result<(), CallError> {
    match read_object(cluster, subject).await {
        Ok(Some(found)) if found.uid() == uid && found.has_finalizer(annotations::HOOK_FINALIZER) => {
            release(cluster, subject, uid).await
        }
        Ok(_) => Ok(()),
        // If the object is unreadable, the operation waits for it without changing it.
        Err(error) if error.kind == ErrorKind::Forbidden => Ok(()),
        Err(error) => Err(call_error(&error)),
    }
}

/// Deletes a hook according to its policy.
pub(super) async fn delete(cluster: &dyn Cluster, subject: &Subject<'_>, uid: &str) -> Result<(), CallError> {
    let Some(found) = find_object(cluster, subject).await?.filter(|found| found.uid() == uid) else {
        return Ok(());
    };
    if find_running_operation(subject, &found).await.is_some() {
        return Ok(());
    }
    remove(cluster, subject, &found).await.map(|_| ())
}

/// Stops a hook: reads its status once more, and deletes the hook if it is still running.
pub(super) async fn stop(cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<StopResult, CallError> {
    let absent =
        || StopResult { phase: OperationPhase::Succeeded, message: "Terminated".to_owned(), is_gone: true };
    let Some(found) = find_object(cluster, subject).await?.filter(|found| is_ours(subject, found)) else {
        return Ok(absent());
    };
    let (phase, message) = match health_evaluation::evaluate_health(subject.health, &found, subject.now).await
    {
        None => (OperationPhase::Succeeded, String::new()),
        Some(Err(error @ HealthError::NoStatus { .. })) => {
            let health = Health::from(error);
            (hook_phase(health.status), health.message)
        }
        Some(Err(error)) => (OperationPhase::Error, format!("Failed to get hook health: {error}")),
        Some(Ok(health)) => (hook_phase(health.status), health.message),
    };
    let policy =
        subject.task.hook.as_ref().is_some_and(|hook| hook.has_delete_policy(DeletePolicy::HookFailed));
    let is_gone = if matches!(phase, OperationPhase::Running | OperationPhase::Error) || policy {
        remove(cluster, subject, &found).await?;
        true
    } else {
        release(cluster, subject, found.uid()).await?;
        false
    };
    Ok(StopResult { phase, message, is_gone })
}
