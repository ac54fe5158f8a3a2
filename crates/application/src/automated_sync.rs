//! Automated sync: decides whether to start an operation that no user has asked for.

use std::borrow::Cow;
use std::time::Duration;

use tidegate_model::argo::{
    Application, ApplicationStatus, ConditionType, OperationInitiator, OperationRequest, OperationResource,
    OperationState, ResourceStatus, Retry, SyncOperation, SyncOperationResult, SyncStatus, SyncStatusCode,
};
use tidegate_model::{OperationPhase, Timestamp};

use crate::controller_info::SUPERSEDES_INFO;
use crate::operation::EngineProgress;
use crate::previous_operation;
use crate::sources::{Sources, revisions_of_fields};
use crate::successor::{move_successor, was_superseded};
use crate::sync_windows::SyncWindows;
use crate::{automated, conditions, operation};

/// Default number of retries of an automated operation.
const RETRY_LIMIT_DEFAULT: i64 = 5;
/// Delay before the second consecutive self-heal attempt.
const HEAL_BACKOFF_MIN: Duration = Duration::from_secs(2);
/// The delay grows by this factor with each attempt.
const HEAL_FACTOR: u32 = 3;
/// Maximum delay between self-heal attempts.
const HEAL_BACKOFF_MAX: Duration = Duration::from_secs(300);

/// Status field of an object that is gone from the manifests but must not be pruned (`Prune=false`). A sync
/// can't resolve such a difference.
pub const PRUNE_DISABLED: &str = "pruneRefused";

/// Tidegate-specific condition type: sync windows block automated syncs.
const WINDOW_CONDITION: &str = "SyncWindowWarning";

/// Tidegate-specific condition type: other programs keep undoing self-heal, so the delay between attempts
/// grows.
const SELF_HEAL_CONDITION: &str = "SelfHealWarning";
/// Number of consecutive self-heal attempts after which [`SELF_HEAL_CONDITION`] is set.
const HEALS_REPORTED_FROM: i64 = 3;

/// Next step of automated sync.
#[derive(Clone, Debug, PartialEq)]
pub enum AutomatedStep {
    /// Waits for the next event.
    Nothing,
    /// Starts an operation.
    Start(Box<OperationRequest>),
    /// Decides again at this time.
    Wait(Timestamp),
}

/// Reason an Application with automated sync remains OutOfSync without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdleReason {
    /// Only objects that would have to be pruned differ, and automated syncs don't prune them.
    #[error(
        "only objects that are no longer in the manifests are out of sync, and automated sync does not prune \
         them: set spec.syncPolicy.automated.prune, or sync with pruning"
    )]
    Leftovers,
    /// The last sync of these revisions and sources succeeded, and self-heal is off.
    #[error(
        "the last sync of this revision succeeded, and self-heal is off: set spec.syncPolicy.automated.selfHeal, \
         or request a sync (`tidegate app sync`)"
    )]
    SelfHealOff,
}

/// Decision of automated sync: the next step, and the reason if a needed sync isn't started.
#[derive(Clone, Debug, PartialEq)]
pub struct AutomatedDecision {
    /// Next step.
    pub next: AutomatedStep,
    /// Error that prevents the sync.
    pub error: Option<String>,
    /// Reason no operation starts for an OutOfSync Application, if it isn't an error.
    pub idle: Option<IdleReason>,
}

impl AutomatedDecision {
    fn from_step(next: AutomatedStep) -> Self {
        Self { next, error: None, idle: None }
    }

    fn nothing() -> Self {
        Self::from_step(AutomatedStep::Nothing)
    }

    fn with_error(error: String) -> Self {
        Self { error: Some(error), ..Self::nothing() }
    }

    fn idle(idle: IdleReason) -> Self {
        Self { idle: Some(idle), ..Self::nothing() }
    }
}

/// Decides on the next step after a comparison has updated the status, and sets conditions that explain why
/// no operation starts.
pub fn apply_comparison(
    application: &mut Application,
    windows: &SyncWindows,
    now: Timestamp,
) -> AutomatedStep {
    let AutomatedDecision { next, error, .. } = decide(application, now);
    let held = windows.find_hold(false, now).filter(|_| matches!(next, AutomatedStep::Start(_)));
    // The conditions stay as they are while an operation is running.
    if application.operation.is_none() {
        let waits = ConditionType::Other(WINDOW_CONDITION.to_owned());
        let heals = ConditionType::Other(SELF_HEAL_CONDITION.to_owned());
        let kinds = [ConditionType::SyncError, waits.clone(), heals.clone()];
        let error = error.map(|error| (ConditionType::SyncError, error));
        let held = held.iter().map(|held| (waits.clone(), format!("the sync is waiting: {}", held.reason)));
        let again = describe_heal_delay(application, &next).map(|reason| (heals, reason));
        let found = error.into_iter().chain(held).chain(again);
        conditions::set_conditions(&mut application.status.conditions, &kinds, found, now);
    }
    held.map_or(next, |held| AutomatedStep::Wait(held.next_check))
}

/// Describes the self-heal delay after repeated attempts, or returns `None` for an immediate attempt.
fn describe_heal_delay(application: &Application, next: &AutomatedStep) -> Option<String> {
    let AutomatedStep::Wait(due) = next else { return None };
    let healed = consecutive_heals(last_attempt(application)?.as_ref());
    (healed >= HEALS_REPORTED_FROM).then(|| {
        format!(
            "the application has been self-healed {healed} times in a row because something keeps changing its \
             objects; the next self-heal is at {due}; find out what writes to these objects, or add the changed \
             fields to spec.ignoreDifferences"
        )
    })
}

/// Returns the last attempt to sync the application. Dry runs and selective syncs don't count.
fn last_attempt(application: &Application) -> Option<Cow<'_, OperationState>> {
    application.status.operation_state.as_ref().and_then(previous_operation::last_attempt)
}

/// Counts the consecutive self-heal operations, including `last`.
fn consecutive_heals(last: &OperationState) -> i64 {
    last.operation.sync.as_ref().map_or(0, |sync| sync.auto_heal_attempts_count)
}

/// Updates an automated operation that hasn't started to the newest revision, because an operation at an
/// older revision might wait forever. Ends the operation if the newest revision doesn't need a sync.
pub fn update_waiting_operation(application: &mut Application, now: Timestamp) {
    let is_held = |asked: &mut OperationRequest| {
        asked.initiated_by.automated
            && operation::engine_id(asked).is_none()
            && operation::deletion_cascade(asked).is_none()
    };
    let Some(held) = application.operation.take_if(is_held) else { return };
    let sources = Sources::from_application(application).without_credentials();
    let newest = application.status.sync.as_ref();
    let is_newest = |sync: &SyncOperation| {
        (&sync.source, &sync.sources) == (&sources.single_field(), &sources.list_field())
            && newest.is_none_or(|newest| {
                (&newest.revision, &newest.revisions) == (&sync.revision, &sync.revisions)
            })
    };
    if application.is_deleting() || held.sync.as_ref().is_some_and(is_newest) {
        application.operation = Some(held);
        return;
    }
    match decide(application, now).next {
        AutomatedStep::Start(mut started) => {
            move_successor(&held, &mut started);
            application.operation = Some(*started);
        }
        AutomatedStep::Nothing | AutomatedStep::Wait(_) => {
            application.operation = Some(held);
            let message = "the sync was not started because the newest revision does not need one";
            let given_up = EngineProgress::rejected(message.to_owned(), now);
            operation::apply_progress(
                application,
                EngineProgress { phase: OperationPhase::Failed, ..given_up },
            );
        }
    }
}

/// Decides on the next step after a comparison has updated the status.
pub fn decide(application: &Application, now: Timestamp) -> AutomatedDecision {
    match application.operation {
        Some(_) => AutomatedDecision::nothing(),
        None => decide_start(application, now),
    }
}

/// Decides which operation to start, as if none were running.
pub(crate) fn decide_start(application: &Application, now: Timestamp) -> AutomatedDecision {
    let status = &application.status;
    let Some(policy) = automated(application) else { return AutomatedDecision::nothing() };
    let (prune, self_heal, allow_empty) =
        (policy.prune == Some(true), policy.self_heal == Some(true), policy.allow_empty == Some(true));
    let attempt = last_attempt(application);
    let superseded = attempt.as_deref().filter(|last| was_superseded(last));
    let objects = || status.resources.iter().filter(|one| !one.hook);
    let is_wanted = |sync: &&SyncStatus| match sync.status {
        SyncStatusCode::OutOfSync => true,
        // Everything is in sync, but hooks of the superseded operation may not have run yet.
        SyncStatusCode::Synced => superseded.is_some() && objects().next().is_some(),
        SyncStatusCode::Unknown => false,
    };
    let Some(sync) = status.sync.as_ref().filter(is_wanted) else { return AutomatedDecision::nothing() };
    if application.is_deleting() {
        return AutomatedDecision::nothing();
    }
    let mut differing = objects().filter(|one| one.status != Some(SyncStatusCode::Synced));
    if superseded.is_none() && differing.all(|one| is_unpruned_leftover(one, prune)) {
        return AutomatedDecision::idle(IdleReason::Leftovers);
    }
    let sources = Sources::from_application(application).without_credentials();
    let wanted = revisions_of_fields(&sync.revision, &sync.revisions).join(" ");
    let mut started = SyncOperation {
        revision: sync.revision.clone(),
        revisions: sync.revisions.clone(),
        source: sources.single_field(),
        sources: sources.list_field(),
        prune,
        sync_options: application
            .spec
            .sync_policy
            .as_ref()
            .map(|all| all.sync_options.clone())
            .unwrap_or_default(),
        ..SyncOperation::default()
    };
    if let Some(last) = attempt.as_deref().filter(|last| is_attempt(last, &started)) {
        if last.phase != OperationPhase::Succeeded {
            return AutomatedDecision::with_error(format!(
                "Failed last sync attempt to [{wanted}]: {}",
                last.message
            ));
        }
        if !self_heal {
            return AutomatedDecision::idle(IdleReason::SelfHealOff);
        }
        let healed = consecutive_heals(last);
        if let Some(due) =
            last.finished_at.map(|at| at.timestamp() + heal_backoff(healed)).filter(|due| *due > now)
        {
            return AutomatedDecision::from_step(AutomatedStep::Wait(due));
        }
        started.auto_heal_attempts_count = healed.saturating_add(1);
        started.resources = objects_to_heal(application);
    }
    if let Some(reason) = superseded.filter(|last| was_replaced_by_person(status, last, &started)) {
        return AutomatedDecision::with_error(format!(
            "Skipping sync attempt to [{wanted}]: {}, but that was only a partial sync; request a full sync",
            reason.message
        ));
    }
    if prune && !allow_empty && objects().all(|one| one.requires_pruning) {
        return AutomatedDecision::with_error(format!(
            "Skipping sync attempt to [{wanted}]: auto-sync will wipe out all resources"
        ));
    }
    let retry = application.spec.sync_policy.as_ref().and_then(|policy| policy.retry.clone());
    let mut operation = OperationRequest {
        sync: Some(started),
        initiated_by: OperationInitiator { automated: true, ..OperationInitiator::default() },
        retry: Some(retry.unwrap_or_else(|| Retry { limit: RETRY_LIMIT_DEFAULT, ..Retry::default() })),
        ..OperationRequest::default()
    };
    if let Some(id) = superseded.and_then(|last| operation::engine_id(&last.operation)) {
        operation.set_info(SUPERSEDES_INFO, id.to_string());
    }
    AutomatedDecision::from_step(AutomatedStep::Start(Box::new(operation)))
}

/// Returns the objects that self-heal must sync.
pub(crate) fn objects_to_heal(application: &Application) -> Vec<OperationResource> {
    let prune = automated(application).is_some_and(|policy| policy.prune == Some(true));
    let objects = application.status.resources.iter().filter(|one| !one.hook);
    let differing = objects.filter(|one| one.status != Some(SyncStatusCode::Synced));
    differing.filter(|one| !is_unpruned_leftover(one, prune)).map(to_operation_resource).collect()
}

/// Returns true if the object is gone from the manifests but automated syncs don't prune it.
fn is_unpruned_leftover(one: &ResourceStatus, prune: bool) -> bool {
    one.requires_pruning && (!prune || one.rest.contains_key(PRUNE_DISABLED))
}

/// Returns true if an operation was an attempt to sync the same revisions of the same sources.
fn is_attempt(last: &OperationState, started: &SyncOperation) -> bool {
    if operation::deletion_cascade(&last.operation).is_some() {
        // The last operation was a deletion of the application, which has been canceled.
        return false;
    }
    if was_superseded(last) {
        return false;
    }
    last.sync_result
        .as_ref()
        .map_or(last.phase.is_completed(), |result| deploys_same_revisions(result, started))
}

fn deploys_same_revisions(result: &SyncOperationResult, started: &SyncOperation) -> bool {
    (&result.revision, &result.revisions) == (&started.revision, &started.revisions)
        && (&result.source, &result.sources) == (&started.source, &started.sources)
}

/// Returns true if a user replaced an attempt at the same revisions with an operation that isn't an attempt,
/// such as a dry run. The replaced attempt isn't restarted automatically.
fn was_replaced_by_person(
    status: &ApplicationStatus,
    superseded: &OperationState,
    begun: &SyncOperation,
) -> bool {
    let last = status.operation_state.as_ref();
    last.is_some_and(|last| previous_operation::is_not_deployment(&last.operation))
        && superseded.sync_result.as_ref().is_some_and(|result| deploys_same_revisions(result, begun))
}

/// Returns the delay after this many consecutive self-heal operations.
fn heal_backoff(healed: i64) -> Duration {
    let Ok(again) = u32::try_from(healed.saturating_sub(1)) else { return Duration::ZERO };
    HEAL_BACKOFF_MIN.saturating_mul(HEAL_FACTOR.saturating_pow(again)).min(HEAL_BACKOFF_MAX)
}

fn to_operation_resource(resource: &ResourceStatus) -> OperationResource {
    OperationResource {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
        name: resource.name.clone(),
        namespace: resource.namespace.clone(),
        ..OperationResource::default()
    }
}
