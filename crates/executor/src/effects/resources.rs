//! Dry runs, applies and prunes.

use tidegate_cluster::{
    Applied as Written, ApplyRequest, Cluster, ClusterError, DeleteRequest, Deleted, ErrorKind, Propagation,
    WriteMode,
};
use tidegate_lifecycle::operation::{Answer, Applied, CallError, Clearing, Pruning, Trial};
use tidegate_model::{Action, Gvk, Object, SyncRequest, Task};
use tidegate_planner::{bindings, may_be_shared, reason_to_keep, why_not_shared};

use super::failures::call_error;
use super::found::{adopted, find, look};
use super::subject::{Subject, manifest, propagation, written};
use super::trial::Tried;
use super::{definitions, trial};

fn mode(subject: &Subject<'_>) -> WriteMode {
    let Task { action, options, .. } = subject.task;
    if super::comparing::is_replaced(subject.task) {
        return WriteMode::Replace { recreate: options.force };
    }
    if *action == Action::Create && options.replace {
        // There is nothing to replace, so that is a creation.
        return WriteMode::Replace { recreate: false };
    }
    // Server-side apply always takes over: what is in the manifests is meant.
    if options.server_side { WriteMode::Apply { force: true } } else { WriteMode::ClientSideApply }
}

pub(super) fn request(subject: &Subject<'_>, object: Object, dry_run: bool) -> ApplyRequest {
    let (mode, options) = (mode(subject), &subject.task.options);
    // A dry run must not move ownership; it then only shows a little too much as staying.
    let takes_over = matches!(mode, WriteMode::Apply { .. }) && !dry_run;
    ApplyRequest {
        object,
        mode,
        validate: options.validate,
        dry_run,
        take_over: options.take_over.clone().filter(|_| takes_over),
        resource_version: String::new(),
        operation: Some(subject.operation),
    }
}

/// The server's opinion of a manifest. Writes nothing.
pub(super) async fn check(cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<Trial, CallError> {
    let object = manifest(subject)?;
    let Task { action, live, .. } = subject.task;
    let answer = if subject.task.is_hook() && live.is_some() && *action == Action::Create {
        // The older object is deleted before the hook is created, so its immutable fields do not matter. One that the
        // hook's policy keeps is written over, and judged as it is.
        trial::anew(cluster, request(subject, object, true)).await
    } else {
        try_to_put(cluster, subject, request(subject, object, true)).await
    };
    match answer {
        Ok(Tried { message, warnings, .. }) => Ok(Trial { message, warnings }),
        // Its kind or namespace comes with this very wave: the apply itself will tell.
        Err(error)
            if subject.task.options.dry_run_at_wave
                && matches!(error.kind, ErrorKind::UnknownKind | ErrorKind::NamespaceMissing) =>
        {
            Ok(Trial::default())
        }
        Err(error) => Err(call_error(&error)),
    }
}

/// What the server would make of a manifest; `None` where it would take it, and what it would make of it cannot be known.
/// Writes nothing.
pub(super) async fn predict(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    manifest: &Object,
) -> Result<Option<Object>, ClusterError> {
    let request = request(subject, manifest.clone(), true);
    try_to_put(cluster, subject, request).await.map(|tried| tried.object)
}

/// What the server would make of a manifest if the object were not there; `None` where that cannot be known. Writes nothing.
pub(super) async fn imagine(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    manifest: &Object,
) -> Option<Object> {
    trial::imagined(cluster, request(subject, manifest.clone(), true)).await
}

/// What became of a manifest.
pub(super) enum Put {
    Written(Written),
    /// The old object is on its way out. The manifest can be written when it is gone.
    Leaving {
        uid: String,
    },
}

/// Writes a manifest. What is there is deleted and made anew where it has to be.
async fn put(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
) -> Result<Put, ClusterError> {
    match put_over(cluster, subject, request).await? {
        Over::Written(written) => Ok(Put::Written(written)),
        Over::Anew(request, mode) => recreate(cluster, subject, request, mode).await,
    }
}

/// Whether a manifest was written over what is there.
enum Over {
    Written(Written),
    /// What is there is to be deleted, and the manifest written in this way.
    Anew(ApplyRequest, WriteMode),
}

/// Writes a manifest over what is there, unless that is to be replaced by `Force`; or cannot be changed into the manifest,
/// and `Force` says so or it is a binding that is to give another role: what it gives cannot be changed, and `kubectl auth
/// reconcile` does the same.
async fn put_over(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
) -> Result<Over, ClusterError> {
    let server_side = subject.task.options.server_side;
    if request.mode == (WriteMode::Replace { recreate: true }) {
        return Ok(Over::Anew(request, WriteMode::Replace { recreate: false }));
    }
    let forced = subject.task.options.force;
    let may_recreate = is_change(subject) && (forced || bindings::is_binding(&request.object.gvk()));
    if !may_recreate {
        return cluster.apply(request).await.map(Over::Written);
    }
    match cluster.apply(request.clone()).await {
        Err(refused) if refused.kind == ErrorKind::Invalid => {
            if !forced && !gives_another_role(cluster, &request.object).await? {
                return Err(refused);
            }
            let mode = match server_side {
                // Hooks are created, never applied.
                _ if subject.task.is_hook() => WriteMode::Create { client_side: !server_side },
                true => WriteMode::Apply { force: true },
                false => WriteMode::ClientSideApply,
            };
            Ok(Over::Anew(request, mode))
        }
        answer => answer.map(Over::Written),
    }
}

/// The same for a trial, which leaves everything where it is: of what is to be made anew the server is asked about the
/// creation and about the deletion.
async fn try_to_put(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
) -> Result<Tried, ClusterError> {
    let request = ApplyRequest { dry_run: true, ..request };
    let (request, anew) = match put_over(cluster, subject, request).await? {
        Over::Written(written) => return Ok(written.into()),
        Over::Anew(request, mode) => (request, mode),
    };
    let Tried { object, mut warnings, .. } =
        trial::anew(cluster, ApplyRequest { mode: anew, ..request.clone() }).await?;
    let mode = match anew {
        WriteMode::Replace { .. } => WriteMode::Replace { recreate: true },
        anew => WriteMode::Recreate { server_side: !matches!(anew, WriteMode::ClientSideApply) },
    };
    let done = cluster.apply(ApplyRequest { mode, ..request }).await?;
    warnings.extend(done.warnings);
    Ok(Tried { object, message: done.message, warnings })
}

async fn gives_another_role(cluster: &dyn Cluster, manifest: &Object) -> Result<bool, ClusterError> {
    let live = cluster.get(&manifest.gvk(), manifest.namespace(), manifest.name()).await?;
    Ok(live.is_some_and(|live| bindings::gives_another_role(manifest, &live)))
}

/// Deletes what is there and writes the manifest, or says what is still in its way. Nothing is deleted for a manifest that
/// the server would not take afterwards.
async fn recreate(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    request: ApplyRequest,
    anew: WriteMode,
) -> Result<Put, ClusterError> {
    let planned = subject.task.live.as_ref().map(|live| live.uid.as_str());
    let found = look(cluster, subject).await?;
    // One that has come since was perhaps made by us, before a crash or by a call that failed.
    let is_to_go = |found: &Object| !subject.again || planned == Some(found.uid());
    if let Some(found) = found.filter(is_to_go) {
        let uid = found.uid().to_owned();
        let deletion = DeleteRequest {
            resource_version: request.resource_version.clone(),
            operation: Some(subject.operation),
            ..DeleteRequest::of(&found)
        };
        // A deletion that has begun is not sent again.
        let left = if found.is_deleting() {
            Ok(Deleted::Deleting)
        } else {
            trial::anew(cluster, ApplyRequest { mode: anew, ..request.clone() }).await?;
            cluster.delete(deletion).await
        };
        match left {
            Ok(Deleted::Deleting) => return Ok(Put::Leaving { uid }),
            Ok(Deleted::Gone) => {}
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let request = ApplyRequest { mode: anew, take_over: None, resource_version: String::new(), ..request };
    cluster.apply(request).await.map(Put::Written)
}

/// Whether an object that is there is to be changed.
fn is_change(subject: &Subject<'_>) -> bool {
    let Task { action, live, .. } = subject.task;
    *action == Action::Apply && live.is_some()
}

/// Applies the manifest of a resource.
pub(super) async fn apply(cluster: &dyn Cluster, subject: &Subject<'_>) -> Answer {
    match stands(cluster, subject).await {
        Ok(None) => {}
        Ok(Some(answer)) => return answer,
        Err(error) => return Answer::Applied(Err(error)),
    }
    match manifest(subject) {
        Ok(object) => answer(cluster, subject, request(subject, object, false)).await,
        Err(error) => Answer::Applied(Err(error)),
    }
}

/// Writes a manifest, and says what became of it.
pub(super) async fn answer(cluster: &dyn Cluster, subject: &Subject<'_>, request: ApplyRequest) -> Answer {
    let written = match put(cluster, subject, request).await {
        Ok(Put::Leaving { uid }) => return Answer::Cleared(Ok(Clearing::Deleting { uid })),
        // It goes, and what was written goes with it.
        Ok(Put::Written(written)) if written.object.is_deleting() && !subject.task.is_hook() => {
            return leaving(&written.object);
        }
        Ok(Put::Written(written)) => Ok(written),
        Err(error) => Err(error),
    };
    Answer::Applied(applied(cluster, subject, written).await.map(Box::new))
}

/// What is there already and decides what becomes of the task: created before a crash, or on its way out.
async fn stands(cluster: &dyn Cluster, subject: &Subject<'_>) -> Result<Option<Answer>, CallError> {
    let Task { action, options, .. } = subject.task;
    let SyncRequest { application, tracking, .. } = subject.request;
    if !may_be_shared(subject.request)
        && let Some(found) = find(cluster, subject).await?
        && let Some(why) = why_not_shared(subject.request, &subject.task.key(), &found)
    {
        return Err(CallError::permanent(why));
    }
    // What is written to an object on its way out goes with it.
    if options.already_deleting
        && let Some(found) = find(cluster, subject).await?.filter(Object::is_deleting)
    {
        return Ok(Some(leaving(&found)));
    }
    let is_creation = *action == Action::Create && options.replace;
    // An object that was not there when the plan was made is there because this operation made it.
    if subject.again
        && is_creation
        && let Some(found) = find(cluster, subject).await?
        && tracking.is_owner(application, &found)
        && !found.is_deleting()
    {
        return Ok(Some(Answer::Applied(Ok(Box::new(adopted(subject, &found).await)))));
    }
    Ok(None)
}

/// Somebody deletes an object that is to be there. It is awaited like one that we delete, and made anew when it is gone.
fn leaving(found: &Object) -> Answer {
    Answer::Cleared(Ok(Clearing::Deleting { uid: found.uid().to_owned() }))
}

/// What the answer to a write means.
pub(super) async fn applied(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    answer: Result<Written, ClusterError>,
) -> Result<Applied, CallError> {
    match answer {
        Ok(done) => {
            if let Some(why) = definitions::why_never_established(&done.object) {
                return Err(CallError::permanent(why));
            }
            let applied = written(subject, &done.object, done.message).await;
            Ok(Applied { warnings: done.warnings, ..applied })
        }
        Err(error) => {
            let mut failure = call_error(&error);
            // The server needs a moment to serve a kind that was just defined. Others are not awaited.
            if error.kind == ErrorKind::UnknownKind {
                match definitions::why_never_served(cluster, subject).await {
                    None => failure.transient = true,
                    Some(why) if why.is_empty() => {}
                    Some(why) => failure.message = format!("{}; {why}", failure.message),
                }
            }
            Err(failure)
        }
    }
}

/// Deletes the object with this UID, if it is as it was planned, or still ours and to be pruned.
pub(super) async fn prune(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
) -> Result<Pruning, CallError> {
    let Task { live, options, .. } = subject.task;
    // Who has not written to it since the plan was made has not begun to delete it either.
    let planned = live.as_ref().map(|live| live.resource_version.as_str());
    let known = planned.filter(|_| !(subject.again || options.already_deleting));
    let keeps = |live: &Object| reason_to_keep(subject.request, live);
    remove(cluster, subject, uid, (known, &keeps)).await
}

/// Deletes the object with this UID unless its deletion has begun already. `known`: a version of it of which that is
/// certain, empty for any; without one it is looked at first. `Ok(true)`: it is gone, or another object has its name.
pub(super) async fn delete(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
    known: Option<&str>,
) -> Result<bool, CallError> {
    Ok(remove(cluster, subject, uid, (known, &|_| None)).await? == Pruning::Gone)
}

/// How often a deletion is bound to a version of its object. Whoever writes to it all the time does not keep it.
const VERSIONS_MAX: usize = 3;

/// What is left of an object.
enum Standing {
    /// It is gone, or another object has its name.
    Gone,
    /// Its deletion has begun.
    Leaving,
    /// It is to be kept, because.
    Kept(&'static str),
    /// Nobody has deleted it yet, as of this version; empty where it may not be seen.
    There(String),
}

type Keeps<'k> = &'k (dyn Fn(&Object) -> Option<&'static str> + Sync);

/// Whatever is looked at on the way is asked whether it is to be kept.
async fn remove(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
    (known, keeps): (Option<&str>, Keeps<'_>),
) -> Result<Pruning, CallError> {
    let mut standing = match known {
        Some(version) => Standing::There(version.to_owned()),
        None => look_at(cluster, subject, uid, keeps).await?,
    };
    for tries in 1.. {
        let version = match standing {
            Standing::Gone => break,
            Standing::Leaving => return Ok(Pruning::Begun),
            Standing::Kept(reason) => return Ok(Pruning::Kept { reason: reason.to_owned() }),
            Standing::There(version) => version,
        };
        let resource_version = if tries > VERSIONS_MAX { String::new() } else { version };
        let request = DeleteRequest {
            gvk: subject.task.gvk.clone(),
            namespace: subject.task.namespace.clone(),
            name: subject.task.name.clone(),
            uid: uid.to_owned(),
            resource_version,
            propagation: match propagation(subject.request) {
                // It deletes its Applications itself, in its order: in the foreground Kubernetes would do that at once.
                Propagation::Foreground if is_set(&subject.task.gvk) => Propagation::Background,
                other => other,
            },
            dry_run: false,
            operation: Some(subject.operation),
        };
        match cluster.delete(request).await {
            Ok(Deleted::Gone) => break,
            Ok(Deleted::Deleting) => return Ok(Pruning::Begun),
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::UnknownKind) => break,
            // It was written since, which may have been a deletion; or it is another object.
            Err(error) if error.kind == ErrorKind::Conflict && tries <= VERSIONS_MAX => {
                standing = look_at(cluster, subject, uid, keeps).await?;
            }
            Err(error) => return Err(call_error(&error)),
        }
    }
    Ok(Pruning::Gone)
}

async fn look_at(
    cluster: &dyn Cluster,
    subject: &Subject<'_>,
    uid: &str,
    keeps: Keeps<'_>,
) -> Result<Standing, CallError> {
    match look(cluster, subject).await {
        Ok(Some(object)) if object.uid() == uid && object.is_deleting() => Ok(Standing::Leaving),
        Ok(Some(object)) if object.uid() == uid => Ok(match keeps(&object) {
            Some(reason) => Standing::Kept(reason),
            None => Standing::There(object.resource_version().to_owned()),
        }),
        Ok(_) => Ok(Standing::Gone),
        Err(error) if error.kind == ErrorKind::Forbidden => Ok(Standing::There(String::new())),
        Err(error) => Err(call_error(&error)),
    }
}

fn is_set(gvk: &Gvk) -> bool {
    gvk.group == "argoproj.io" && gvk.kind == "ApplicationSet"
}
