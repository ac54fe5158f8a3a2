//! Is an operation begun without being asked?

use std::borrow::Cow;
use std::time::Duration;

use tidegate_model::argo::{
    Application, ApplicationStatus, ConditionType, OperationInitiator, OperationRequest, OperationResource,
    OperationState, ResourceStatus, Retry, SyncOperation, SyncOperationResult, SyncStatus, SyncStatusCode,
};
use tidegate_model::{OperationPhase, Timestamp};

use crate::before;
use crate::operation::Progress;
use crate::sources::{Sources, revisions};
use crate::windows::Windows;
use crate::{automated, conditions, operation, superseding};

/// How often an automatic operation is tried again, where the application does not say.
const RETRIES: i64 = 5;
/// The wait before the second attempt in a row to put the cluster right.
const HEAL_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// By how much each further wait is longer.
const HEAL_FACTOR: u32 = 3;
/// The longest of them.
const HEAL_AGAIN_MAX: Duration = Duration::from_secs(300);

/// What a comparison says of an object that is no longer in the manifests and asks not to be pruned (`Prune=false`): no sync
/// changes that.
pub const PRUNE_REFUSED: &str = "pruneRefused";

/// A condition of our own: sync windows keep it from being synced by itself.
const HELD: &str = "SyncWindowWarning";

/// A condition of our own: what puts it right is undone again and again, and waits longer each time.
const HEALS: &str = "SelfHealWarning";
/// It is said from so many in a row on.
const HEALS_TOLD: i64 = 3;

/// What is done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing, until something happens.
    Nothing,
    /// An operation is begun.
    Begin(Box<OperationRequest>),
    /// It is looked at again then.
    Wait(Timestamp),
}

/// A decision, and the reason for which an application that should be synced is not.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What is done.
    pub next: Next,
    /// Why it is not synced.
    pub error: Option<String>,
}

impl Decision {
    fn nothing() -> Self {
        Self { next: Next::Nothing, error: None }
    }

    fn refused(error: String) -> Self {
        Self { next: Next::Nothing, error: Some(error) }
    }
}

/// Decides after a comparison, whose outcome is in the status, and says in the conditions why nothing is done.
pub fn take_in(application: &mut Application, windows: &Windows, now: Timestamp) -> Next {
    let Decision { next, error } = decide(application, now);
    let held = windows.held(false, now).filter(|_| matches!(next, Next::Begin(_)));
    // While an operation is under way, what was said before it stays.
    if application.operation.is_none() {
        let waits = ConditionType::Other(HELD.to_owned());
        let heals = ConditionType::Other(HEALS.to_owned());
        let kinds = [ConditionType::SyncError, waits.clone(), heals.clone()];
        let error = error.map(|error| (ConditionType::SyncError, error));
        let held = held.iter().map(|held| (waits.clone(), format!("it waits to be synced: {}", held.reason)));
        let again = heals_again(application, &next).map(|why| (heals, why));
        let found = error.into_iter().chain(held).chain(again);
        conditions::set(&mut application.status.conditions, &kinds, found, now);
    }
    held.map_or(next, |held| Next::Wait(held.until))
}

/// Why it is not put right at once, where that has been done several times in a row.
fn heals_again(application: &Application, next: &Next) -> Option<String> {
    let Next::Wait(due) = next else { return None };
    let healed = healed(attempt(application)?.as_ref());
    (healed >= HEALS_TOLD).then(|| {
        format!(
            "it was put right {healed} times in a row, and something changes it again: the next time is {due}; see who writes to the objects that differ, or name the fields in spec.ignoreDifferences"
        )
    })
}

/// The last attempt to sync it: a dry run is none, nor is what somebody has selected.
fn attempt(application: &Application) -> Option<Cow<'_, OperationState>> {
    application.status.operation_state.as_ref().and_then(before::attempt)
}

/// How many operations in a row, up to this one, have put the cluster right.
fn healed(last: &OperationState) -> i64 {
    last.operation.sync.as_ref().map_or(0, |sync| sync.auto_heal_attempts_count)
}

/// An operation that nobody asked for, and that waits to be begun, deploys what was the newest when it was decided on. Once
/// something else was compared it is decided anew: what it waits for may never come at the older revision.
pub fn renew(application: &mut Application, now: Timestamp) {
    let is_held = |asked: &mut OperationRequest| {
        asked.initiated_by.automated && operation::id(asked).is_none() && operation::cascade(asked).is_none()
    };
    let Some(held) = application.operation.take_if(is_held) else { return };
    let sources = Sources::of(application).bare();
    let newest = application.status.sync.as_ref();
    let is_newest = |sync: &SyncOperation| {
        (&sync.source, &sync.sources) == (&sources.one(), &sources.several())
            && newest.is_none_or(|newest| {
                (&newest.revision, &newest.revisions) == (&sync.revision, &sync.revisions)
            })
    };
    if application.is_deleting() || held.sync.as_ref().is_some_and(is_newest) {
        application.operation = Some(held);
        return;
    }
    match decide(application, now).next {
        Next::Begin(mut begun) => {
            superseding::hand_over(&held, &mut begun);
            application.operation = Some(*begun);
        }
        Next::Nothing | Next::Wait(_) => {
            application.operation = Some(held);
            let message = "it was not begun: meanwhile there is a newer revision, and nothing to do for that";
            let given_up = Progress::refused(message.to_owned(), now);
            operation::take_in(application, Progress { phase: OperationPhase::Failed, ..given_up });
        }
    }
}

/// Decides after a comparison, whose outcome is in the status.
pub fn decide(application: &Application, now: Timestamp) -> Decision {
    match application.operation {
        Some(_) => Decision::nothing(),
        None => wanted(application, now),
    }
}

/// What would be begun if no operation were under way.
pub(crate) fn wanted(application: &Application, now: Timestamp) -> Decision {
    let status = &application.status;
    let Some(policy) = automated(application) else { return Decision::nothing() };
    let (prune, self_heal, allow_empty) =
        (policy.prune == Some(true), policy.self_heal == Some(true), policy.allow_empty == Some(true));
    let attempt = attempt(application);
    let superseded = attempt.as_deref().filter(|last| superseding::was_superseded(last));
    let objects = || status.resources.iter().filter(|one| !one.hook);
    let is_wanted = |sync: &&SyncStatus| match sync.status {
        SyncStatusCode::OutOfSync => true,
        // All is as it should be, and nobody knows of the hooks that were still to run.
        SyncStatusCode::Synced => superseded.is_some() && objects().next().is_some(),
        SyncStatusCode::Unknown => false,
    };
    let Some(sync) = status.sync.as_ref().filter(is_wanted) else { return Decision::nothing() };
    if application.is_deleting() {
        return Decision::nothing();
    }
    let mut differing = objects().filter(|one| one.status != Some(SyncStatusCode::Synced));
    if superseded.is_none() && differing.all(|one| is_left_over(one, prune)) {
        return Decision::nothing();
    }
    let sources = Sources::of(application).bare();
    let wanted = revisions(&sync.revision, &sync.revisions).join(" ");
    let mut begun = SyncOperation {
        revision: sync.revision.clone(),
        revisions: sync.revisions.clone(),
        source: sources.one(),
        sources: sources.several(),
        prune,
        sync_options: application
            .spec
            .sync_policy
            .as_ref()
            .map(|all| all.sync_options.clone())
            .unwrap_or_default(),
        ..SyncOperation::default()
    };
    if let Some(last) = attempt.as_deref().filter(|last| is_attempt(last, &begun)) {
        if last.phase != OperationPhase::Succeeded {
            return Decision::refused(format!("Failed last sync attempt to [{wanted}]: {}", last.message));
        }
        if !self_heal {
            return Decision::nothing();
        }
        let healed = healed(last);
        if let Some(due) = last.finished_at.map(|at| at.moment() + patience(healed)).filter(|due| *due > now)
        {
            return Decision { next: Next::Wait(due), error: None };
        }
        begun.auto_heal_attempts_count = healed.saturating_add(1);
        begun.resources = to_heal(application);
    }
    if let Some(why) = superseded.filter(|last| is_taken_over(status, last, &begun)) {
        return Decision::refused(format!(
            "Skipping sync attempt to [{wanted}]: {}, which was not of all of it; ask for a sync",
            why.message
        ));
    }
    if prune && !allow_empty && objects().all(|one| one.requires_pruning) {
        return Decision::refused(format!(
            "Skipping sync attempt to [{wanted}]: auto-sync will wipe out all resources"
        ));
    }
    let retry = application.spec.sync_policy.as_ref().and_then(|policy| policy.retry.clone());
    let mut operation = OperationRequest {
        sync: Some(begun),
        initiated_by: OperationInitiator { automated: true, ..OperationInitiator::default() },
        retry: Some(retry.unwrap_or_else(|| Retry { limit: RETRIES, ..Retry::default() })),
        ..OperationRequest::default()
    };
    if let Some(id) = superseded.and_then(|last| operation::id(&last.operation)) {
        operation.set_remark(superseding::SUPERSEDES_REMARK, id.to_string());
    }
    Decision { next: Next::Begin(Box::new(operation)), error: None }
}

/// The objects that putting the cluster right is about.
pub(crate) fn to_heal(application: &Application) -> Vec<OperationResource> {
    let prune = automated(application).is_some_and(|policy| policy.prune == Some(true));
    let objects = application.status.resources.iter().filter(|one| !one.hook);
    let differing = objects.filter(|one| one.status != Some(SyncStatusCode::Synced));
    differing.filter(|one| !is_left_over(one, prune)).map(named).collect()
}

/// Whether it is no longer in the manifests, and no sync that begins by itself deletes it.
fn is_left_over(one: &ResourceStatus, prune: bool) -> bool {
    one.requires_pruning && (!prune || one.rest.contains_key(PRUNE_REFUSED))
}

/// Whether an operation was an attempt to do the same: to the same revisions of the same sources.
fn is_attempt(last: &OperationState, begun: &SyncOperation) -> bool {
    if operation::cascade(&last.operation).is_some() {
        // It was about to be deleted, and is not any more.
        return false;
    }
    if superseding::was_superseded(last) {
        return false;
    }
    last.sync_result.as_ref().map_or(last.phase.is_completed(), |result| is_to_same(result, begun))
}

fn is_to_same(result: &SyncOperationResult, begun: &SyncOperation) -> bool {
    (&result.revision, &result.revisions) == (&begun.revision, &begun.revisions)
        && (&result.source, &result.sources) == (&begun.source, &begun.sources)
}

/// Whether somebody has taken over from an attempt to do the same, with what is none: that is not begun again behind their back.
fn is_taken_over(status: &ApplicationStatus, superseded: &OperationState, begun: &SyncOperation) -> bool {
    let last = status.operation_state.as_ref();
    last.is_some_and(|last| before::is_aside(&last.operation))
        && superseded.sync_result.as_ref().is_some_and(|result| is_to_same(result, begun))
}

/// The wait after an operation, the `healed`-th in a row to put the cluster right.
fn patience(healed: i64) -> Duration {
    let Ok(again) = u32::try_from(healed.saturating_sub(1)) else { return Duration::ZERO };
    HEAL_AGAIN_AFTER.saturating_mul(HEAL_FACTOR.saturating_pow(again)).min(HEAL_AGAIN_MAX)
}

fn named(resource: &ResourceStatus) -> OperationResource {
    OperationResource {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
        name: resource.name.clone(),
        namespace: resource.namespace.clone(),
        ..OperationResource::default()
    }
}
