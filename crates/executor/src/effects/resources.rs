//! Dry runs, applies and prunes.

use tidegate_cluster::{
    ApplyRequest, ApplyResult as Written, Cluster, ClusterError, DeleteRequest, DeleteResult, ErrorKind,
    Propagation, WriteMode,
};
use tidegate_lifecycle::operation::{
    Answer, ApplyResponse, CallError, ClearingResult, DryRunResponse, PruneResult,
};
use tidegate_model::{Action, Gvk, Object, SyncRequest, Task};
use tidegate_planner::{
    can_fall_back_to_client_side, can_overwrite_shared, managers_to_take_over, prune_refusal_reason,
    role_bindings, shared_resource_refusal,
};

use super::call_errors::call_error;
use super::live_object::{adoption_result, find_object, read_object};
use super::recreation_dry_run::RecreationPrediction;
use super::subject::{Subject, applied_result, copy_manifest, deletion_propagation};
use super::{crd_checks, recreation_dry_run, rejections};

/// Returns true if an object out of sync is replaced as a whole.
pub(super) fn is_replaced(task: &Task) -> bool {
    task.action == Action::Replace || (task.action == Action::Unchanged && task.options.replace)
}

fn write_mode(subject: &Subject<'_>) -> WriteMode {
    let Task { action, options, .. } = subject.task;
    if is_replaced(subject.task) {
        return WriteMode::Replace { recreate: options.force };
    }
    if *action == Action::Create && options.replace {
        // There is nothing to replace, so create the object.
        return WriteMode::Replace { recreate: false };
    }
    // Server-side apply always takes over conflicting fields, because the manifests are authoritative.
    if options.server_side { WriteMode::Apply { force: true } } else { WriteMode::ClientSideApply }
}

pub(super) fn apply_request(subject: &Subject<'_>, object: Object, dry_run: bool) -> ApplyRequest {
    let (mode, options) = (write_mode(subject), &subject.task.options);
    // A dry run must not take over fields. It therefore reports some fields as remaining that the apply would
    // remove.
    let takes_over = matches!(mode, WriteMode::Apply { .. }) && !dry_run;
    ApplyRequest {
        object,
        mode,
        validate: options.validate,
        dry_run,
        take_over: if takes_over { options.take_over.clone() } else { Vec::new() },
        resource_version: String::new(),
        operation: Some(subject.operation),
    }
}

/// Validates a manifest with a dry run. Doesn't write to the cluster.
pub(super) async fn validate(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
) -> Result<DryRunResponse, CallError> {
    let object = copy_manifest(subject)?;
    let Task { action, live, .. } = subject.task;
    let answer = if subject.task.is_hook() && live.is_some() && *action == Action::Create {
        // Before an apply creates the hook, it deletes the older object, so that object's immutable fields
        // don't matter. But if the hook's policy keeps the older object, the apply overwrites it, so the
        // change must be validated.
        recreation_dry_run::dry_run_recreation(cluster, apply_request(subject, object.clone(), true)).await
    } else {
        predict_write(cluster, subject, apply_request(subject, object.clone(), true)).await
    };
    match answer {
        Ok(RecreationPrediction { message, warnings, .. }) => Ok(DryRunResponse { message, warnings }),
        // This wave creates the object's kind or namespace, so it may be missing until then. The apply itself
        // reports such errors.
        Err(error)
            if subject.task.options.dry_run_at_wave
                && matches!(error.kind, ErrorKind::UnknownKind | ErrorKind::NamespaceMissing) =>
        {
            Ok(DryRunResponse::default())
        }
        Err(error) => Err(call_error(&rejections::explain_rejection(cluster, subject, &object, error).await)),
    }
}

/// The server's prediction for a manifest.
pub(super) struct Prediction {
    pub object: Object,
    /// True if the manifest would be applied on the client side, because the server doesn't support
    /// server-side apply for the object's kind.
    pub is_client_side: bool,
}

/// Predicts the result of applying a manifest. Returns `None` if the server accepts the manifest but doesn't
/// report a result. Doesn't write to the cluster.
pub(super) async fn predict(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    manifest: &Object,
) -> Result<Option<Prediction>, ClusterError> {
    let request = apply_request(subject, manifest.clone(), true);
    match predict_write(cluster, subject, request).await {
        Ok(RecreationPrediction { object, is_client_side, .. }) => {
            Ok(object.map(|object| Prediction { object, is_client_side }))
        }
        Err(error) => Err(rejections::explain_rejection(cluster, subject, manifest, error).await),
    }
}

/// Predicts the result of applying a manifest as if the object didn't exist, or returns `None` if it is
/// unpredictable. Doesn't write to the cluster.
pub(super) async fn predict_creation(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    manifest: &Object,
) -> Option<Object> {
    recreation_dry_run::predict_as_new(cluster, apply_request(subject, manifest.clone(), true)).await
}

/// Result of writing a manifest.
pub(super) enum WriteResult {
    Written(Written),
    /// The old object is being deleted. Once it is gone, the manifest can be written.
    Deleting {
        uid: String,
    },
}

/// Writes a manifest, and recreates the existing object if necessary.
async fn write_manifest(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
) -> Result<WriteResult, ClusterError> {
    match overwrite(cluster, subject, request).await? {
        OverwriteResult::Written { written, .. } => Ok(WriteResult::Written(written)),
        OverwriteResult::NeedsRecreation(request, mode) => recreate(cluster, subject, request, mode).await,
    }
}

/// Result of overwriting an existing object.
enum OverwriteResult {
    Written {
        written: Written,
        /// True if the manifest was applied on the client side, because the server doesn't support
        /// server-side apply for the object's kind.
        is_client_side: bool,
    },
    /// The existing object must be deleted before the manifest is written in this mode.
    NeedsRecreation(ApplyRequest, WriteMode),
}

/// Overwrites an existing object with a manifest. Returns `NeedsRecreation` for a replacement with `Force`,
/// which always recreates the object. Also returns `NeedsRecreation` if the server rejects a change to an
/// object with `Force`, or a new role in a binding. A binding's role is immutable, and `kubectl auth
/// reconcile` recreates bindings to change it, too.
async fn overwrite(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
) -> Result<OverwriteResult, ClusterError> {
    let server_side = subject.task.options.server_side;
    if request.mode == (WriteMode::Replace { recreate: true }) {
        return Ok(OverwriteResult::NeedsRecreation(request, WriteMode::Replace { recreate: false }));
    }
    let forced = subject.task.options.force;
    let may_recreate =
        is_change(subject) && (forced || role_bindings::is_role_binding(&request.object.gvk()));
    if !may_recreate {
        return apply_existing(cluster, subject, request).await;
    }
    match apply_existing(cluster, subject, request.clone()).await {
        Err(refused) if refused.kind == ErrorKind::Invalid => {
            if !forced && !changes_role(cluster, &request.object).await? {
                return Err(refused);
            }
            let mode = match server_side {
                // Hooks are created, never applied.
                _ if subject.task.is_hook() => WriteMode::Create { client_side: !server_side },
                true => WriteMode::Apply { force: true },
                false => WriteMode::ClientSideApply,
            };
            Ok(OverwriteResult::NeedsRecreation(request, mode))
        }
        answer => answer,
    }
}

/// Maximum number of attempts to take over fields while other clients write to the object.
const TAKEOVER_ATTEMPTS_MAX: usize = 5;

/// Applies a manifest. Falls back to a client-side apply, if allowed, when the server doesn't support
/// server-side apply.
async fn apply_existing(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
) -> Result<OverwriteResult, ClusterError> {
    let done = |written| OverwriteResult::Written { written, is_client_side: false };
    let falls_back = matches!(request.mode, WriteMode::Apply { .. })
        && can_fall_back_to_client_side(&request.object, &subject.request.options);
    if !falls_back {
        return take_over_and_apply(cluster, subject, request).await.map(done);
    }
    // Don't take over fields if the server would reject the apply. Otherwise, every retry would take them
    // over again.
    let tries = !request.dry_run && !request.take_over.is_empty();
    let trial = ApplyRequest { dry_run: true, take_over: Vec::new(), ..request.clone() };
    let tried = if tries { cluster.apply(trial).await.map(drop) } else { Ok(()) };
    let answer = match tried {
        Err(refused) if refused.should_try_client_side_apply() => Err(refused),
        _ => take_over_and_apply(cluster, subject, request.clone()).await,
    };
    let refused = match answer {
        Err(refused) if refused.should_try_client_side_apply() => refused,
        answer => return answer.map(done),
    };
    let client_side = ApplyRequest { mode: WriteMode::ClientSideApply, take_over: Vec::new(), ..request };
    let mut written = cluster.apply(client_side).await?;
    let warning = format!("applied client-side (ServerSideApply=auto): {}", refused.message);
    written.warnings.insert(0, warning);
    Ok(OverwriteResult::Written { written, is_client_side: true })
}

/// Applies a manifest and takes over fields. Takes over fields only if the object is still the planned one
/// and has the application's mark. Both may have changed since the plan was made. After a crash between the
/// two writes, a retry finds no fields left to take over. Its apply then removes the fields that aren't in
/// the manifest.
async fn take_over_and_apply(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
) -> Result<Written, ClusterError> {
    if request.take_over.is_empty() {
        return cluster.apply(request).await;
    }
    let planned = subject.task.live.as_ref().map(|live| live.uid.as_str());
    let mut lost = None;
    for _ in 0..TAKEOVER_ATTEMPTS_MAX {
        let found = read_object(cluster, subject).await?.filter(|found| planned == Some(found.uid()));
        let mut managers = found
            .as_ref()
            .map(|found| managers_to_take_over(&request.object, found, subject.request))
            .unwrap_or_default();
        managers.retain(|manager| request.take_over.contains(manager));
        let version = found.filter(|_| !managers.is_empty()).map(|found| found.resource_version().to_owned());
        let resource_version = version.unwrap_or_else(|| request.resource_version.clone());
        let bound = ApplyRequest { take_over: managers, resource_version, ..request.clone() };
        let is_bound = !bound.take_over.is_empty();
        match cluster.apply(bound).await {
            Err(error) if is_bound && error.kind == ErrorKind::Conflict => lost = Some(error),
            answer => return answer,
        }
    }
    let changed = || ClusterError::new(ErrorKind::Conflict, format!("{} has changed", subject.task.key()));
    Err(lost.unwrap_or_else(changed))
}

/// Predicts the result of [`overwrite`] without changing the object. For a recreation, sends dry runs of both
/// the creation and the deletion.
async fn predict_write(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
) -> Result<RecreationPrediction, ClusterError> {
    let request = ApplyRequest { dry_run: true, ..request };
    let (request, new_mode) = match overwrite(cluster, subject, request).await? {
        OverwriteResult::Written { written, is_client_side } => {
            return Ok(RecreationPrediction { is_client_side, ..written.into() });
        }
        OverwriteResult::NeedsRecreation(request, mode) => (request, mode),
    };
    let RecreationPrediction { object, mut warnings, .. } =
        recreation_dry_run::dry_run_recreation(cluster, ApplyRequest { mode: new_mode, ..request.clone() })
            .await?;
    let mode = match new_mode {
        WriteMode::Replace { .. } => WriteMode::Replace { recreate: true },
        new_mode => WriteMode::Recreate { server_side: !matches!(new_mode, WriteMode::ClientSideApply) },
    };
    let done = cluster.apply(ApplyRequest { mode, ..request }).await?;
    warnings.extend(done.warnings);
    Ok(RecreationPrediction { object, message: done.message, warnings, is_client_side: false })
}

async fn changes_role(cluster: &dyn Cluster, manifest: &Object) -> Result<bool, ClusterError> {
    let live = cluster.get(&manifest.gvk(), manifest.namespace(), manifest.name()).await?;
    Ok(live.is_some_and(|live| role_bindings::changes_role(manifest, &live)))
}

/// Deletes the existing object and writes the manifest, or returns the old object while it still exists.
/// Never deletes the object if the server would then reject the manifest.
async fn recreate(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
    new_mode: WriteMode,
) -> Result<WriteResult, ClusterError> {
    let planned = subject.task.live.as_ref().map(|live| live.uid.as_str());
    let found = read_object(cluster, subject).await?;
    // This operation may have created a newer object, before a crash or in a call reported as failed.
    let is_to_go = |found: &Object| !subject.is_repeated || planned == Some(found.uid());
    if let Some(found) = found.filter(is_to_go) {
        let uid = found.uid().to_owned();
        let deletion = DeleteRequest {
            resource_version: request.resource_version.clone(),
            operation: Some(subject.operation),
            ..DeleteRequest::for_object(&found)
        };
        // Don't request a deletion that is in progress.
        let left = if found.is_deleting() {
            Ok(DeleteResult::Deleting)
        } else {
            recreation_dry_run::dry_run_recreation(
                cluster,
                ApplyRequest { mode: new_mode, ..request.clone() },
            )
            .await?;
            cluster.delete(deletion).await
        };
        match left {
            Ok(DeleteResult::Deleting) => return Ok(WriteResult::Deleting { uid }),
            Ok(DeleteResult::Gone) => {}
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let request =
        ApplyRequest { mode: new_mode, take_over: Vec::new(), resource_version: String::new(), ..request };
    cluster.apply(request).await.map(WriteResult::Written)
}

/// Returns true if the task changes an existing object.
fn is_change(subject: &Subject<'_>) -> bool {
    let Task { action, live, .. } = subject.task;
    *action == Action::Apply && live.is_some()
}

/// Applies the manifest of a resource.
pub(super) async fn apply(cluster: &dyn Cluster, subject: &Subject<'_>) -> Answer {
    match answer_from_existing(cluster, subject).await {
        Ok(None) => {}
        Ok(Some(answer)) => return answer,
        Err(error) => return Answer::Applied(Err(error)),
    }
    match copy_manifest(subject) {
        Ok(object) => write_and_answer(cluster, subject, apply_request(subject, object, false)).await,
        Err(error) => Answer::Applied(Err(error)),
    }
}

/// Writes a manifest and converts the result.
pub(super) async fn write_and_answer(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
) -> Answer {
    let manifest = request.object.clone();
    let written = match write_manifest(cluster, subject, request).await {
        Ok(WriteResult::Deleting { uid }) => return Answer::Cleared(Ok(ClearingResult::Deleting { uid })),
        // The object is being deleted, and takes the changes just written with it.
        Ok(WriteResult::Written(written)) if written.object.is_deleting() && !subject.task.is_hook() => {
            return deletion_answer(&written.object);
        }
        Ok(WriteResult::Written(written)) => Ok(written),
        Err(error) => Err(rejections::explain_rejection(cluster, subject, &manifest, error).await),
    };
    Answer::Applied(convert_write_result(cluster, subject, written).await.map(Box::new))
}

/// Returns the task's result if the existing object already determines it: the object was created before a
/// crash or is being deleted.
async fn answer_from_existing(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
) -> Result<Option<Answer>, CallError> {
    let Task { action, options, .. } = subject.task;
    let SyncRequest { application, tracking, .. } = subject.request;
    if !can_overwrite_shared(subject.request)
        && let Some(found) = find_object(cluster, subject).await?
        && let Some(reason) = shared_resource_refusal(subject.request, &subject.task.key(), &found)
    {
        return Err(CallError::permanent(reason));
    }
    // Don't write to an object being deleted: the changes would be lost.
    if options.already_deleting
        && let Some(found) = find_object(cluster, subject).await?.filter(Object::is_deleting)
    {
        return Ok(Some(deletion_answer(&found)));
    }
    let is_creation = *action == Action::Create && options.replace;
    // The object didn't exist at planning time, so this operation must have created it.
    if subject.is_repeated
        && is_creation
        && let Some(found) = find_object(cluster, subject).await?
        && tracking.is_owner(application, &found)
        && !found.is_deleting()
    {
        return Ok(Some(Answer::Applied(Ok(Box::new(adoption_result(subject, &found).await)))));
    }
    Ok(None)
}

/// Handles a required object that another client is deleting. As with its own deletions, the operation waits
/// until the object is gone and then recreates it.
fn deletion_answer(found: &Object) -> Answer {
    Answer::Cleared(Ok(ClearingResult::Deleting { uid: found.uid().to_owned() }))
}

/// Converts the result of a write.
pub(super) async fn convert_write_result(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    answer: Result<Written, ClusterError>,
) -> Result<ApplyResponse, CallError> {
    match answer {
        Ok(done) => {
            if let Some(reason) = crd_checks::explain_unestablished(&done.object) {
                return Err(CallError::permanent(reason));
            }
            let applied = applied_result(subject, &done.object, done.message).await;
            Ok(ApplyResponse { warnings: done.warnings, ..applied })
        }
        Err(error) => {
            let mut failure = call_error(&error);
            // The server takes a moment to serve a newly defined kind. Don't wait for any other missing kind.
            if error.kind == ErrorKind::UnknownKind {
                match crd_checks::explain_unserved_kind(cluster, subject).await {
                    None => failure.is_transient = true,
                    Some(reason) if reason.is_empty() => {}
                    Some(reason) => failure.message = format!("{}; {reason}", failure.message),
                }
            }
            Err(failure)
        }
    }
}

/// Deletes the object with this UID if it hasn't changed since the plan was made, or still belongs to the
/// application and must be pruned.
pub(super) async fn prune(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
) -> Result<PruneResult, CallError> {
    let Task { live, options, .. } = subject.task;
    // An object at the planned version isn't being deleted, so it needn't be read first.
    let planned = live.as_ref().map(|live| live.resource_version.as_str());
    let known = planned.filter(|_| !(subject.is_repeated || options.already_deleting));
    let keeps = |live: &Object| prune_refusal_reason(subject.request, live);
    delete_unless_kept(cluster, subject, uid, known, &keeps).await
}

/// Deletes the object with this UID, unless its deletion is in progress. `known` is the object's version
/// before any deletion. With an empty version, any version is deleted; with `None`, the object is read first.
/// Returns `Ok(true)` if the object is gone or another object has its name.
pub(super) async fn delete_object(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
    known: Option<&str>,
) -> Result<bool, CallError> {
    Ok(delete_unless_kept(cluster, subject, uid, known, &|_| None).await? == PruneResult::Gone)
}

/// Maximum number of deletion attempts with a version precondition. The last attempt goes without, so that
/// other clients can't prevent the deletion by writing constantly.
const CONDITIONAL_DELETES_MAX: usize = 3;

/// State of an object to delete.
enum DeletionState {
    /// The object is gone, or another object has its name.
    Gone,
    /// The object is being deleted.
    Deleting,
    /// The object must not be deleted, for this reason.
    Protected(&'static str),
    /// The object exists at this version and isn't being deleted. The version is empty if the object can't be
    /// read.
    Present(String),
}

type KeepCheck<'k> = &'k (dyn Fn(&Object) -> Option<&'static str> + Sync);

/// Deletes the object with this UID. Checks for each observed version whether the object must be kept.
async fn delete_unless_kept(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
    known: Option<&str>,
    keeps: KeepCheck<'_>,
) -> Result<PruneResult, CallError> {
    let mut state = match known {
        Some(version) => DeletionState::Present(version.to_owned()),
        None => read_deletion_state(cluster, subject, uid, keeps).await?,
    };
    for tries in 1.. {
        let version = match state {
            DeletionState::Gone => break,
            DeletionState::Deleting => return Ok(PruneResult::DeletionStarted),
            DeletionState::Protected(reason) => {
                return Ok(PruneResult::LeftAlone { reason: reason.to_owned() });
            }
            DeletionState::Present(version) => version,
        };
        let resource_version = if tries > CONDITIONAL_DELETES_MAX { String::new() } else { version };
        let request = DeleteRequest {
            gvk: subject.task.gvk.clone(),
            namespace: subject.task.namespace.clone(),
            name: subject.task.name.clone(),
            uid: uid.to_owned(),
            resource_version,
            propagation: match deletion_propagation(subject.request) {
                // An ApplicationSet deletes its Applications itself, in its own order. Foreground propagation
                // would delete all of them at once.
                Propagation::Foreground if is_appset(&subject.task.gvk) => Propagation::Background,
                other => other,
            },
            dry_run: false,
            operation: Some(subject.operation),
        };
        match cluster.delete(request).await {
            Ok(DeleteResult::Gone) => break,
            Ok(DeleteResult::Deleting) => return Ok(PruneResult::DeletionStarted),
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::UnknownKind) => break,
            // The object has changed in the meantime, possibly because its deletion has started, or another
            // object has taken its name. Read it again.
            Err(error) if error.kind == ErrorKind::Conflict && tries <= CONDITIONAL_DELETES_MAX => {
                state = read_deletion_state(cluster, subject, uid, keeps).await?;
            }
            Err(error) => return Err(call_error(&error)),
        }
    }
    Ok(PruneResult::Gone)
}

async fn read_deletion_state(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
    keeps: KeepCheck<'_>,
) -> Result<DeletionState, CallError> {
    match read_object(cluster, subject).await {
        Ok(Some(object)) if object.uid() == uid && object.is_deleting() => Ok(DeletionState::Deleting),
        Ok(Some(object)) if object.uid() == uid => Ok(match keeps(&object) {
            Some(reason) => DeletionState::Protected(reason),
            None => DeletionState::Present(object.resource_version().to_owned()),
        }),
        Ok(_) => Ok(DeletionState::Gone),
        Err(error) if error.kind == ErrorKind::Forbidden => Ok(DeletionState::Present(String::new())),
        Err(error) => Err(call_error(&error)),
    }
}

fn is_appset(gvk: &Gvk) -> bool {
    gvk.group == "argoproj.io" && gvk.kind == "ApplicationSet"
}

#[cfg(test)]
mod tests;
