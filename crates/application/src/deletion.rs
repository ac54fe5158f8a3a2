//! Is an application deleted, with what of it, and what is done next for that?
//!
//! Its finalizers say it, as in Argo CD: with one for resources its objects are deleted by an operation, with one for hooks
//! alone only the hooks run. When that operation has succeeded, the finalizers go, and the application with them. One without
//! any of them is forgotten, and nothing of the cluster is touched.

mod asker;

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_model::annotations::{DELETION_APPROVED, is_stage_of};
use tidegate_model::argo::{
    Application, ConditionType, OperationInitiator, OperationRequest, OperationState, ResourceStatus, Retry,
    SyncOperation, SyncStatusCode,
};
use tidegate_model::{
    Cascade, ClaimRequest, Destination, Gvk, HealthStatus, OperationPhase, SyncOptions, SyncRequest,
    Timestamp, Wisher,
};

use crate::comparison::set_health;
use crate::confirmation::approved_at;
use crate::hook_finalizers::is_hook_finalizer;
use crate::operation::{
    self, APPROVED_REMARK, ASKED_REMARK, BETWEEN, DELETION_REMARK, Refused, described, retry,
};
use crate::sources::{Sources, revisions};
use crate::{conditions, instance_name, refresh};

pub use asker::Asker;
pub use tidegate_model::annotations::RESOURCES_FINALIZER;

/// A condition of our own: what a deletion waits for, besides its own operation.
pub const HELD: &str = "DeletionWarning";
/// Behind the first: what an object owns is deleted after it.
const BACKGROUND: &str = "/background";
/// Who asks for a deletion, as the log has it, where the resource names nobody; behind either, when that was asked for.
pub(crate) const BY_DELETION: &str = "deletion of the application";
/// What is between the two.
const ASKED_AT: &str = ", asked for at ";
/// How often a deletion is tried again at once, where the application does not say.
const RETRIES: i64 = 2;
/// How long after a deletion that has failed another one begins by itself.
const AGAIN_AFTER: Duration = Duration::from_secs(180);

/// Whether a finalizer is one of those that say how an application is deleted.
pub fn is_own_finalizer(finalizer: &str) -> bool {
    is_resources_finalizer(finalizer) || is_hook_finalizer(finalizer)
}

/// Whether it is one for the objects.
pub fn is_resources_finalizer(finalizer: &str) -> bool {
    is_stage_of(finalizer, RESOURCES_FINALIZER)
}

/// What becomes of the objects of an application when it is deleted, by its finalizers; `None` where it is forgotten and
/// nothing else is done.
pub fn cascade(application: &Application) -> Option<Cascade> {
    said_by(&application.metadata.finalizers)
}

fn said_by(finalizers: &[String]) -> Option<Cascade> {
    let mut own = finalizers.iter().filter(|one| is_own_finalizer(one));
    let resources = own.clone().find_map(|one| one.strip_prefix(RESOURCES_FINALIZER));
    match resources {
        Some(BACKGROUND) => Some(Cascade::Background),
        Some(_) => Some(Cascade::Foreground),
        None => own.next().map(|_| Cascade::Orphan),
    }
}

/// The finalizers of an application that is to be deleted like this. Foreground is what nobody has to ask for, and leaves
/// one that says how its objects go.
pub fn finalizers(application: &Application, cascade: Cascade) -> Vec<String> {
    let mut finalizers = application.metadata.finalizers.clone();
    if cascade == Cascade::Foreground && finalizers.iter().any(|one| is_resources_finalizer(one)) {
        return finalizers;
    }
    finalizers.retain(|one| !is_resources_finalizer(one));
    match cascade {
        Cascade::Foreground => finalizers.push(RESOURCES_FINALIZER.to_owned()),
        Cascade::Background => finalizers.push(format!("{RESOURCES_FINALIZER}{BACKGROUND}")),
        Cascade::Orphan => {}
    }
    finalizers
}

/// Whether an application that is being deleted goes the way that somebody wants now.
pub fn is_under_way(application: &Application, wanted: Cascade) -> bool {
    application.is_deleting() && said_by(&finalizers(application, wanted)) == cascade(application)
}

/// Why somebody cannot have an application deleted like this now, which people name so; `None` where they can.
pub fn in_the_way(application: &Application, name: &str, wanted: Cascade) -> Option<String> {
    if is_under_way(application, wanted) {
        return None;
    }
    if let Some(why) = refresh::left_alone(application) {
        return Some(why);
    }
    application.is_deleting().then(|| {
        let way = cascade(application).unwrap_or(Cascade::Orphan);
        format!(
            "application {name} is being deleted already, in the way of --cascade {way}, which cannot be changed any more; `tidegate app delete {name} --cascade {way} --yes` waits until it is gone"
        )
    })
}

/// Whether an operation is asked for that deletes an application which nobody deletes, or deletes no more: what is said then.
pub fn is_unfounded(application: &Application) -> Option<String> {
    let deletes = application.operation.as_ref().is_some_and(|asked| operation::cascade(asked).is_some());
    (deletes && !application.is_deleting()).then(|| {
        format!(
            "application {} is not being deleted, so nothing of it was deleted",
            application.metadata.name
        )
    })
}

/// What is done next for the deletion of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing, until something happens.
    Nothing,
    /// The operation is begun.
    Begin(Box<OperationRequest>),
    /// The last one has failed; another one begins then.
    Wait(Timestamp),
    /// All is done: its finalizers go.
    Release,
}

/// Decides what is done next, and says in the conditions why an application is still there. `asked`: somebody wants it to be
/// tried again.
pub fn take_in(application: &mut Application, asked: bool, now: Timestamp) -> Next {
    let (next, error) = decide(application, asked, now);
    let held = ConditionType::Other(HELD.to_owned());
    let kinds = [ConditionType::DeletionError, held.clone()];
    let found = error.map(|error| (ConditionType::DeletionError, error));
    let found = found.into_iter().chain(holds(application).map(|why| (held, why)));
    conditions::set(&mut application.status.conditions, &kinds, found, now);
    if is_over(application) {
        empty(application, now);
    }
    next
}

/// What holds a deletion up, or what becomes of one that nobody wants any more.
fn holds(application: &Application) -> Option<String> {
    let name = &application.metadata.name;
    let Some(asked) = &application.operation else {
        let others = &application.metadata.finalizers;
        let is_kept = application.is_deleting() && cascade(application).is_none() && !others.is_empty();
        let objects = if is_over(application) { "its objects are deleted" } else { "its objects stay" };
        return is_kept.then(|| {
            format!(
                "{objects}; it is gone when others have taken their finalizers away: {}",
                others.join(", ")
            )
        });
    };
    let operation = operation::id(asked).map_or_else(String::new, |id| format!(" {id}"));
    match (application.is_deleting(), operation::cascade(asked)) {
        (true, None) => Some(format!(
            "it is deleted when operation{operation} is over; `tidegate app terminate {name}` ends that"
        )),
        (false, Some(_)) => Some(format!(
            "it is written down again, and operation{operation} goes on deleting what was begun to be deleted; it is synced anew after that, and `tidegate app terminate {name}` ends it"
        )),
        _ => None,
    }
}

/// Whether its objects are deleted, and others keep its resource.
fn is_over(application: &Application) -> bool {
    application.is_deleting()
        && cascade(application).is_none()
        && last(application)
            .is_some_and(|(last, done)| last.phase == OperationPhase::Succeeded && done.deletes())
}

/// What was known of its objects is of the past; nobody compares it any more.
fn empty(application: &mut Application, now: Timestamp) {
    let status = &mut application.status;
    status.resources.clear();
    if let Some(sync) = &mut status.sync {
        sync.status = SyncStatusCode::Unknown;
    }
    set_health(status, HealthStatus::Missing, now);
}

fn decide(application: &Application, asked: bool, now: Timestamp) -> (Next, Option<String>) {
    let wanted = cascade(application).filter(|_| application.is_deleting());
    let Some(wanted) = wanted else { return (Next::Nothing, None) };
    if application.operation.is_some() {
        // An operation under way is finished first.
        return (Next::Nothing, None);
    }
    let begin = || Next::Begin(Box::new(operation(application, wanted)));
    let Some((last, done)) = last(application) else { return (begin(), None) };
    if last.phase == OperationPhase::Succeeded {
        // One that left the objects is not enough where they are to go.
        let is_done = done == wanted || done.deletes();
        return (if is_done { Next::Release } else { begin() }, None);
    }
    let due = last.finished_at.map_or(now, |at| at.moment() + AGAIN_AFTER);
    if asked || due <= now {
        return (begin(), None);
    }
    let name = &application.metadata.name;
    let stay = match wanted {
        Cascade::Orphan => "",
        _ => " and leaves its objects where they are",
    };
    let error = format!(
        "deleting it has failed: {}; it is tried again at {due}, or at once with `tidegate app refresh {name}`; taking its finalizers away ends the deletion{stay} (where its file is gone, put that back without them)",
        last.message.trim_end_matches('.')
    );
    (Next::Wait(due), Some(error))
}

/// The last operation, where that was this deletion: no clock of ours is held against the one that dated it.
fn last(application: &Application) -> Option<(&OperationState, Cascade)> {
    let last = application.status.operation_state.as_ref().filter(|last| last.phase.is_completed())?;
    let done = operation::cascade(&last.operation)?;
    is_of_this(application, &last.operation).then_some((last, done))
}

/// Whether an operation is of the deletion that the resource asks for now.
fn is_of_this(application: &Application, operation: &OperationRequest) -> bool {
    let asked_at = application.metadata.deletion_timestamp.map(|at| at.to_string());
    asked_at.is_some() && operation.remark(ASKED_REMARK) == asked_at.as_deref()
}

/// Who has asked for a deletion that the log has, empty where nobody knows, and when. `None` where these are no such words.
pub(crate) fn asked(initiated_by: &str) -> Option<(&str, Option<&str>)> {
    let (who, at) = match initiated_by.rsplit_once(ASKED_AT) {
        Some((who, at)) => (who, Some(at)),
        None => (initiated_by, None),
    };
    if who == BY_DELETION {
        return Some(("", at));
    }
    Wisher::deleting(who).map(|_| (who, at))
}

/// Whether somebody has approved the deletion of what asks for that, since it was asked for: with a time after that, or by
/// writing one since it was begun, whatever their clock says.
pub fn is_approved(application: &Application, operation: &OperationRequest) -> bool {
    let Some(approved) = application.annotation(DELETION_APPROVED) else { return false };
    let Some(at) = approved_at(application) else { return false };
    let Some(asked) = application.metadata.deletion_timestamp else { return false };
    let is_begun = is_of_this(application, operation);
    let is_new = operation.remark(APPROVED_REMARK).is_some_and(|before| before != approved);
    at >= asked.moment() || is_begun && is_new
}

/// What the status of an application says it has: kind, namespace and name of each. What would be pruned may be another's, and
/// is no evidence.
pub fn owned(application: &Application) -> BTreeSet<(Gvk, String, String)> {
    let resources = application.status.resources.iter();
    let own = resources.filter(|one| !one.requires_pruning && !one.hook && !one.name.is_empty());
    let place = |one: &ResourceStatus| {
        (Gvk::new(&one.group, &one.version, &one.kind), one.namespace.clone(), one.name.clone())
    };
    own.map(place).collect()
}

/// What the deletion of an application asks of the engine, at a place.
pub fn request(
    application: &Application,
    operation: &OperationRequest,
    (destination, namespace): (Destination, String),
) -> Result<SyncRequest, Refused> {
    let cascade = operation::cascade(operation).ok_or(Refused::Nothing)?;
    let sync = operation.sync.clone().unwrap_or_default();
    let is_shared = matches!(destination, Destination::Kubernetes { .. });
    let who = match operation.initiated_by.username.as_str() {
        "" => BY_DELETION,
        known => known,
    };
    Ok(SyncRequest {
        revision: revisions(&sync.revision, &sync.revisions).join(BETWEEN),
        options: SyncOptions {
            prune: true,
            prune_confirmed: is_approved(application, operation),
            flags: sync.sync_options,
            ..SyncOptions::default()
        },
        retry: operation.retry.as_ref().map(retry).transpose()?.unwrap_or_default(),
        initiated_by: match operation.remark(ASKED_REMARK) {
            Some(at) => format!("{who}{ASKED_AT}{at}"),
            None => who.to_owned(),
        },
        sources: Sources::of(application).all().iter().map(described).collect(),
        claim: is_shared.then(ClaimRequest::default),
        deletion: Some(cascade),
        ..SyncRequest::new(instance_name(application), namespace, destination)
    })
}

/// The operation that deletes an application, as it is begun.
pub fn operation(application: &Application, cascade: Cascade) -> OperationRequest {
    let policy = application.spec.sync_policy.clone().unwrap_or_default();
    let sources = Sources::of(application).bare();
    let sync = SyncOperation {
        source: sources.one(),
        sources: sources.several(),
        prune: true,
        sync_options: policy.sync_options,
        ..SyncOperation::default()
    };
    let mut operation = OperationRequest {
        sync: Some(sync),
        initiated_by: OperationInitiator {
            username: Asker::of(&application.metadata).map(|asker| asker.words()).unwrap_or_default(),
            automated: true,
            ..OperationInitiator::default()
        },
        retry: Some(policy.retry.unwrap_or_else(|| Retry { limit: RETRIES, ..Retry::default() })),
        ..OperationRequest::default()
    };
    operation.set_remark(DELETION_REMARK, cascade.as_str());
    if let Some(at) = application.metadata.deletion_timestamp {
        operation.set_remark(ASKED_REMARK, at.to_string());
    }
    // What was there when this deletion was begun first approves nothing of it.
    let before = last(application).and_then(|(last, _)| last.operation.remark(APPROVED_REMARK));
    let now = application.annotation(DELETION_APPROVED);
    operation.set_remark(APPROVED_REMARK, before.or(now).unwrap_or_default());
    operation
}

#[cfg(test)]
mod tests;
