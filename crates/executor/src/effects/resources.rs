//! Dry runs, applies and prunes.

use tidegate_cluster::{
    Applied as Written, ApplyRequest, Cluster, ClusterError, DeleteRequest, Deleted, ErrorKind, WriteMode,
};
use tidegate_lifecycle::operation::{Applied, CallError};
use tidegate_model::{Action, Object, SyncRequest, Task};

use super::{Errand, bindings, call_error, definitions, hooks, namespaces, propagation, trial, written};

fn mode(errand: &Errand<'_>) -> WriteMode {
    let Task { action, options, .. } = errand.task;
    if *action == Action::Replace {
        return WriteMode::Replace { recreate: options.force };
    }
    if *action == Action::Create && options.replace {
        // There is nothing to replace, so that is a creation.
        return WriteMode::Replace { recreate: false };
    }
    // Server-side apply always takes over: what is in the manifests is meant.
    if options.server_side { WriteMode::Apply { force: true } } else { WriteMode::ClientSideApply }
}

fn request(errand: &Errand<'_>, object: Object, dry_run: bool) -> ApplyRequest {
    let (mode, options) = (mode(errand), &errand.task.options);
    // A dry run must not move ownership; it then only shows a little too much as staying.
    let takes_over = matches!(mode, WriteMode::Apply { .. }) && !dry_run;
    ApplyRequest {
        object,
        mode,
        validate: options.validate,
        dry_run,
        take_over: options.take_over.clone().filter(|_| takes_over),
        operation: Some(errand.operation),
    }
}

fn manifest(errand: &Errand<'_>) -> Result<Object, CallError> {
    errand.manifest.cloned().ok_or_else(|| {
        CallError::permanent(format!(
            "the manifest of {} is not in the operation's bundle",
            errand.task.key()
        ))
    })
}

/// The server's opinion of a manifest. Writes nothing.
pub(super) async fn check(cluster: &dyn Cluster, errand: &Errand<'_>) -> Result<String, CallError> {
    let object = manifest(errand)?;
    let Task { action, live, .. } = errand.task;
    let answer = if errand.task.is_hook() && live.is_some() && *action == Action::Create {
        // The older object is deleted before the hook is created, so its immutable fields do not matter. One that the
        // hook's policy keeps is written over, and judged as it is.
        trial::anew(cluster, request(errand, object, true)).await
    } else {
        write(cluster, errand, object, true).await
    };
    match answer {
        Ok(applied) => Ok(applied.message),
        // Its kind or namespace comes with this very wave: the apply itself will tell.
        Err(error)
            if errand.task.options.dry_run_at_wave
                && matches!(error.kind, ErrorKind::UnknownKind | ErrorKind::NamespaceMissing) =>
        {
            Ok(String::new())
        }
        Err(error) => Err(call_error(&error)),
    }
}

/// What the server would make of a manifest. Writes nothing.
pub(super) async fn predict(
    cluster: &dyn Cluster,
    errand: &Errand<'_>,
    manifest: &Object,
) -> Result<Object, ClusterError> {
    write(cluster, errand, manifest.clone(), true).await.map(|applied| applied.object)
}

/// Writes a manifest. An object that cannot be changed into it is deleted and made anew where `Force` says so, and where
/// it is a binding that is to give another role: what it gives cannot be changed, and `kubectl auth reconcile` does the
/// same.
async fn write(
    cluster: &dyn Cluster,
    errand: &Errand<'_>,
    object: Object,
    dry_run: bool,
) -> Result<Written, ClusterError> {
    let request = request(errand, object, dry_run);
    let forced = errand.task.options.force;
    let may_recreate = is_change(errand) && (forced || bindings::is_binding(&request.object));
    if !may_recreate {
        return cluster.apply(request).await;
    }
    match cluster.apply(request.clone()).await {
        Err(refused) if refused.kind == ErrorKind::Invalid => {
            if !forced && !bindings::gives_another_role(cluster, &request.object).await? {
                return Err(refused);
            }
            // Nothing is deleted for a manifest that is refused in any case.
            let trial = trial::anew(cluster, ApplyRequest { dry_run: true, ..request.clone() }).await?;
            let mode = WriteMode::Recreate { server_side: errand.task.options.server_side };
            let done = cluster.apply(ApplyRequest { mode, ..request }).await?;
            // What stands in the way of a creation hides what the server would make of it.
            Ok(if dry_run { Written { object: trial.object, ..done } } else { done })
        }
        answer => answer,
    }
}

/// Whether an object that is there is to be changed.
fn is_change(errand: &Errand<'_>) -> bool {
    let Task { action, live, .. } = errand.task;
    *action == Action::Apply && live.is_some()
}

/// Applies a manifest. A hook carries our mark, and one that carries it already is taken over.
pub(super) async fn apply(cluster: &dyn Cluster, errand: &Errand<'_>) -> Result<Applied, CallError> {
    let mut object = manifest(errand)?;
    let Task { action, options, .. } = errand.task;
    let is_creation = *action == Action::Create && options.replace;
    if errand.again
        && (errand.task.is_hook() || is_creation)
        && let Some(found) = hooks::find(cluster, errand).await?
        && is_made_by_us(errand, &found)
    {
        return Ok(hooks::adopted(errand, &found).await);
    }
    if errand.task.is_hook() {
        hooks::mark(errand, &mut object);
    }
    match write(cluster, errand, object, false).await {
        Ok(done) => {
            namespaces::still_there(cluster, errand).await?;
            let applied = written(errand, &done.object, done.message).await;
            Ok(Applied { warnings: done.warnings, ..applied })
        }
        Err(error) => {
            let mut failure = call_error(&error);
            // The server needs a moment to serve a kind that was just defined. Others are not awaited.
            failure.transient |=
                error.kind == ErrorKind::UnknownKind && definitions::will_be_served(cluster, errand).await;
            Err(failure)
        }
    }
}

/// Whether an object that was not there when the plan was made is there because this operation made it.
fn is_made_by_us(errand: &Errand<'_>, found: &Object) -> bool {
    let SyncRequest { application, tracking, .. } = errand.request;
    if errand.task.is_hook() { hooks::is_ours(errand, found) } else { tracking.is_owner(application, found) }
}

/// Deletes the object with this UID. `Ok(true)`: it is gone, or another object has its name.
pub(super) async fn prune(cluster: &dyn Cluster, errand: &Errand<'_>, uid: &str) -> Result<bool, CallError> {
    delete(cluster, errand, uid, errand.again || errand.task.options.already_deleting).await
}

/// Deletes the object with this UID unless its deletion has begun already.
pub(super) async fn delete(
    cluster: &dyn Cluster,
    errand: &Errand<'_>,
    uid: &str,
    look_first: bool,
) -> Result<bool, CallError> {
    if look_first && let Some(settled) = deletion_state(cluster, errand, uid).await? {
        return Ok(settled);
    }
    let request = DeleteRequest {
        gvk: errand.task.gvk.clone(),
        namespace: errand.task.namespace.clone(),
        name: errand.task.name.clone(),
        uid: uid.to_owned(),
        propagation: propagation(errand.request),
        dry_run: false,
        operation: Some(errand.operation),
    };
    match cluster.delete(request).await {
        Ok(Deleted::Gone) => Ok(true),
        Ok(Deleted::Deleting) => Ok(false),
        Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::UnknownKind) => Ok(true),
        Err(error) if error.kind == ErrorKind::Conflict => {
            // Another UID means done; anything else is a race that passes.
            deletion_state(cluster, errand, uid).await?.ok_or_else(|| call_error(&error))
        }
        Err(error) => Err(call_error(&error)),
    }
}

/// `Some(true)`: gone; `Some(false)`: on its way out; `None`: still there, or not to be seen: the deletion will tell.
async fn deletion_state(
    cluster: &dyn Cluster,
    errand: &Errand<'_>,
    uid: &str,
) -> Result<Option<bool>, CallError> {
    match hooks::look(cluster, errand).await {
        Ok(None) => Ok(Some(true)),
        Ok(Some(object)) if object.uid() != uid => Ok(Some(true)),
        Ok(Some(object)) if object.is_deleting() => Ok(Some(false)),
        Ok(Some(_)) => Ok(None),
        Err(error) if error.kind == ErrorKind::Forbidden => Ok(None),
        Err(error) => Err(call_error(&error)),
    }
}
