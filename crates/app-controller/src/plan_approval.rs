//! Plans for an Application's operations. A plan is created and stored while the operation is waiting for
//! approval, checked again when the cluster changes, and executed unchanged.

use std::sync::Arc;

use tidegate_application::approval::{self, ApprovalPolicy, PlanRequesters};
use tidegate_application::sources::Sources;
use tidegate_application::{instance_name, operation};
use tidegate_executor::effects::{self, NO_OPERATION, ObjectDifference, PlanError};
use tidegate_executor::{Clock as _, StoredPlan, SystemClock, Targets};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{ClaimConflictPolicy, Digest, OperationId, Severity, SyncRequest, Warning};
use tidegate_oplog::LogError;
use tidegate_state::error::ServiceError;
use tidegate_state::stored_plans::{StoredPlanMetadata, StoredPlans};

use super::admission::{admit, check_signatures};
use super::destinations::ResolvedDestination;
use super::operation_history;
use super::operation_start::{
    StartError, allow_fetched, check_options, check_selection, operation_targets, window_error,
};
use super::plan_check::{PendingPlan, PlanCheck, PlanFailure};
use super::rendering::RenderError;
use super::shared_state::{RevisionLookup, SharedState};

impl From<RenderError> for PlanFailure {
    fn from(error: RenderError) -> Self {
        if error.is_cluster_unreachable {
            Self::Unavailable(error.message)
        } else {
            Self::Invalid(error.message)
        }
    }
}

/// Input for a plan: an Application's operation and destination.
struct PlanInput {
    request: SyncRequest,
    targets: Targets,
    place: ResolvedDestination,
}

/// Creates and stores a plan for an Application's operation, unless the stored plan is still current. Never
/// writes to the cluster.
pub async fn plan_or_check(
    shared: &Arc<SharedState>,
    application: &Application,
    before: Option<&StoredPlanMetadata>,
) -> PlanCheck {
    let input = match plan_input(
        shared,
        application,
        if before.is_none() { RevisionLookup::NewObservation } else { RevisionLookup::LastObservation },
    )
    .await
    {
        Ok(input) => input,
        // The operation keeps waiting, because a user may fix the cause.
        Err(PlanFailure::Invalid(reason)) if before.is_some() => {
            return PlanCheck::Unplanned(PlanFailure::Unavailable(reason));
        }
        Err(reason) => return PlanCheck::Unplanned(reason),
    };
    let known = match before {
        Some(before) => Some(before.clone()),
        None => newest_plan(shared, application).await,
    };
    if let Some(known) = known
        && let Ok((stored, line)) = find_stored_plan(shared, known.hash).await
        && has_same_input(&stored, &input)
    {
        match check_unchanged(shared, &input, stored.clone(), true).await {
            Ok(()) if before.is_some() => return PlanCheck::Current,
            // An earlier process stored this plan, and a user may have approved it since.
            Ok(()) => return PlanCheck::Stored(Box::new(PendingPlan::from_stored(line, &stored))),
            Err(PlanError::Outdated(_)) => {}
            Err(PlanError::Call(error)) => return PlanCheck::Unplanned(from_call_error(error)),
        }
    }
    match store_plan(shared, input, true).await {
        Ok(waiting) => PlanCheck::Stored(Box::new(waiting)),
        Err(reason) => PlanCheck::Unplanned(reason),
    }
}

/// Returns an Application's newest automatically stored plan, unless the plan was withdrawn or another
/// operation has executed it.
async fn newest_plan(shared: &Arc<SharedState>, application: &Application) -> Option<StoredPlanMetadata> {
    let name = instance_name(application);
    let all = with_plans(shared, |plans| plans.list()).await.ok()?;
    let line = all.into_iter().find(|line| line.application == name && line.is_by_itself)?;
    if line.is_withdrawn {
        return None;
    }
    let own = application.operation.as_ref().and_then(operation::engine_id);
    match line.operation {
        Some(id)
            if Some(id) != own
                && (own.is_some() || operation_history::is_operation_known(shared, id).await) =>
        {
            None
        }
        _ => Some(line),
    }
}

fn from_call_error(error: CallError) -> PlanFailure {
    let text = format!("cannot plan the sync: {}", error.message);
    if error.is_transient { PlanFailure::Unavailable(text) } else { PlanFailure::Invalid(text) }
}

async fn plan_input(
    shared: &Arc<SharedState>,
    application: &Application,
    lookup: RevisionLookup,
) -> Result<PlanInput, PlanFailure> {
    let wrong = PlanFailure::Invalid;
    let refused = |error: operation::OperationRefusal| PlanFailure::Invalid(error.to_string());
    let requested = application.operation.clone().unwrap_or_default();
    let (place, policy) = admit(shared, application)?;
    check_options(&requested).map_err(wrong)?;
    let sources = operation::operation_sources(application, &requested).map_err(refused)?;
    let names = operation::operation_revisions(&requested, &sources).map_err(refused)?;
    let revisions =
        shared.resolve_revisions(application, &sources, names.clone(), lookup).await.map_err(wrong)?;
    check_signatures(shared, application, &sources, &revisions, names).await.map_err(wrong)?;
    let manifests = shared.render_manifests(application, &place, &sources, &revisions).await?;
    check_selection(application, &requested, &manifests.targets, &place.namespace).map_err(wrong)?;
    let to = (place.destination.clone(), place.namespace.clone());
    let request = shared.operation_request(application, &requested, to, &revisions).map_err(refused)?;
    let request = SyncRequest { initiated_by: approval::plan_author(&requested).to_owned(), ..request };
    let windows = shared.projects.sync_windows(application, &place.target).stored_form;
    let held = operation_targets(shared.gates.read().await, windows, allow_fetched(policy, &manifests));
    let targets = Targets { targets: manifests.targets.as_ref().clone(), ..held };
    Ok(PlanInput { request, targets, place })
}

/// Returns true if the plan was created from the same request and the same manifests.
fn has_same_input(stored: &StoredPlan, input: &PlanInput) -> bool {
    let (before, now) = (&stored.targets.targets, &input.targets.targets);
    stored.request == input.request
        && before.len() == now.len()
        && before.iter().zip(now).all(|(before, now)| before.object == now.object)
}

/// Checks that a plan would still make the same changes.
async fn check_unchanged(
    shared: &Arc<SharedState>,
    input: &PlanInput,
    stored: StoredPlan,
    allows_drift: bool,
) -> Result<(), PlanError> {
    let inventory = operation_history::inventory(shared, &input.request).await;
    let (request, targets) = stored.pin(Vec::new(), allows_drift);
    let (cluster, now) = (input.place.cluster.as_ref(), SystemClock.now());
    effects::prepare(cluster, NO_OPERATION, &request, targets, now, inventory.as_ref()).await.map(drop)
}

async fn store_plan(
    shared: &Arc<SharedState>,
    input: PlanInput,
    is_by_itself: bool,
) -> Result<PendingPlan, PlanFailure> {
    let PlanInput { request, targets, place } = input;
    let inventory = operation_history::inventory(shared, &request).await;
    let now = SystemClock.now();
    let made = StoredPlan::create(place.cluster.as_ref(), request, targets, now, inventory.as_ref()).await;
    let (plan, _) = made.map_err(from_call_error)?;
    let stored = with_plans(shared, move |plans| {
        Ok((if is_by_itself { plans.store_automatic(&plan)? } else { plans.store(&plan)? }, plan))
    })
    .await;
    stored
        .map(|(line, plan)| PendingPlan::from_stored(line, &plan))
        .map_err(|error| PlanFailure::Unavailable(error.to_string()))
}

/// Creates and stores a plan for an operation that hasn't been requested yet.
pub async fn make_plan(
    shared: &Arc<SharedState>,
    application: &Application,
    request: OperationRequest,
) -> Result<StoredPlanMetadata, ServiceError> {
    let application = Application { operation: Some(request), ..application.clone() };
    let input = plan_input(shared, &application, RevisionLookup::NewObservation).await?;
    Ok(store_plan(shared, input, false).await?.summary)
}

/// Checks that a stored plan would still make the same changes. If `allows_drift` is set, fields outside the
/// plan may have changed. The error describes what has changed.
pub async fn check_plan(
    shared: &Arc<SharedState>,
    application: &Application,
    plan: StoredPlan,
    allows_drift: bool,
) -> Result<(), ServiceError> {
    let place = admit(shared, application).map_err(|none| ServiceError::refused(none.to_string()))?.0;
    check_application(&plan, application, &place).map_err(ServiceError::refused)?;
    let input = PlanInput { request: plan.request.clone(), targets: Targets::default(), place };
    match check_unchanged(shared, &input, plan, allows_drift).await {
        Ok(()) => Ok(()),
        Err(PlanError::Outdated(moved)) => Err(ServiceError::refused(moved.to_string())),
        Err(PlanError::Call(error)) => {
            Err(ServiceError::refused(format!("cannot read the cluster: {}", error.message)))
        }
    }
}

/// Returns the changes that a stored plan would make now. Includes a warning if the plan is outdated and
/// wouldn't run.
pub async fn plan_differences(
    shared: &Arc<SharedState>,
    application: &Application,
    plan: StoredPlan,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
    let place = admit(shared, application).map_err(|none| ServiceError::refused(none.to_string()))?.0;
    check_application(&plan, application, &place).map_err(ServiceError::refused)?;
    let unseen =
        |error: CallError| ServiceError::refused(format!("cannot read the cluster: {}", error.message));
    let inventory = operation_history::inventory(shared, &plan.request).await;
    let objects = plan.differences(place.cluster.as_ref(), inventory.as_ref()).await.map_err(unseen)?;
    let input = PlanInput { request: plan.request.clone(), targets: Targets::default(), place };
    let moved = match check_unchanged(shared, &input, plan, true).await {
        Ok(()) => None,
        Err(PlanError::Outdated(moved)) => Some(moved.to_string()),
        Err(PlanError::Call(error)) => return Err(unseen(error)),
    };
    let warning = |message| Warning {
        severity: Severity::Warning,
        code: "plan-moved".to_owned(),
        object: None,
        origin: None,
        message,
    };
    Ok((objects, moved.map(warning).into_iter().collect()))
}

/// Checks that a plan is for this Application and its current destination.
fn check_application(
    plan: &StoredPlan,
    application: &Application,
    place: &ResolvedDestination,
) -> Result<(), String> {
    let hash = plan.hash().short();
    let request = &plan.request;
    if request.application != instance_name(application) {
        return Err(format!(
            "plan {hash} belongs to application {}, not to this application",
            request.application
        ));
    }
    if request.destination != place.destination || request.namespace != place.namespace {
        return Err(format!(
            "plan {hash} is for a different destination than the application's current destination; create a new plan"
        ));
    }
    Ok(())
}

/// Returns the revisions that an operation's plan deploys, and the operation ID. Reserves the plan for this
/// operation, because a plan may be executed only once.
pub async fn prepare(
    shared: &Arc<SharedState>,
    application: &Application,
    hash: &str,
) -> Result<(Vec<String>, OperationId), String> {
    let (place, policy) = admit(shared, application).map_err(|none| none.to_string())?;
    let windows = shared.projects.sync_windows(application, &place.target);
    if let Some(held) = windows.find_hold(true, SystemClock.now()).filter(|_| !policy.is_automated) {
        return Err(window_error(&held));
    }
    let (plan, line) =
        find_stored_plan(shared, parse_digest(hash)?).await.map_err(|error| error.to_string())?;
    check_application(&plan, application, &place)?;
    let revisions = operation::deployed_revisions(&plan.request);
    let id = match line.operation {
        Some(id) if operation_history::is_operation_known(shared, id).await => {
            return Err(already_used_error(&line, id));
        }
        Some(id) => id,
        None => {
            let id = shared.engine.next_id().await.map_err(|error| error.to_string())?;
            let taken = with_plans(shared, move |plans| plans.take(line.hash, id)).await;
            taken.map_err(|error| error.to_string())?.operation.unwrap_or(id)
        }
    };
    Ok((revisions, id))
}

fn already_used_error(line: &StoredPlanMetadata, by: OperationId) -> String {
    format!(
        "plan {} was already executed by operation {by}, and a plan can be executed only once; create a new plan",
        line.hash.short()
    )
}

fn parse_digest(hash: &str) -> Result<Digest, String> {
    hash.parse().map_err(|_| format!("invalid plan hash {hash:?}"))
}

/// Calls a function with the stored plans in a blocking thread.
pub async fn with_plans<T: Send + 'static>(
    shared: &SharedState,
    work: impl FnOnce(&StoredPlans) -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    let Some(plans) = shared.plans.clone() else {
        return Err(ServiceError::refused(
            "cannot store plans: no permission to read the state directory's key; run as the owner of the state directory, or set the key in TIDEGATE_LOG_KEY",
        ));
    };
    match tokio::task::spawn_blocking(move || work(&plans)).await {
        Ok(done) => done,
        Err(_) => Err(LogError::Poisoned.into()),
    }
}

/// Returns a stored plan and its list entry.
pub async fn find_stored_plan(
    shared: &SharedState,
    hash: Digest,
) -> Result<(StoredPlan, StoredPlanMetadata), ServiceError> {
    let read = move |plans: &StoredPlans| {
        let line = plans.find(&hash.to_string())?;
        Ok((plans.read_plan(&line)?, line))
    };
    with_plans(shared, read).await
}

/// Rejects an operation that requires approval but hasn't been approved, no matter who requested it.
pub fn refuse_unapproved(policy: &ApprovalPolicy, request: &OperationRequest) -> Result<(), String> {
    if policy.is_required() && approval::requires_plan(request) && approval::requested_plan(request).is_none()
    {
        return Err(UNAPPROVED_RESULT.to_owned());
    }
    Ok(())
}

/// Message of an operation that finished without writing anything, because it turned out to require approval.
pub const UNAPPROVED_RESULT: &str =
    "the operation's plan requires an approval and has not been approved; nothing was written";

/// Starts an operation that executes a stored plan unchanged. If the operation is rejected before it reaches
/// the engine, the plan can be used again.
pub async fn begin_plan(
    shared: &Arc<SharedState>,
    application: &Application,
    requested: &OperationRequest,
    operation: OperationId,
    hash: &str,
) -> Result<(), StartError> {
    let hash = parse_digest(hash).map_err(StartError::Refused)?;
    let started = begin_claimed_plan(shared, application, requested, operation, hash).await;
    if matches!(&started, Err(StartError::Refused(_)))
        && !operation_history::is_operation_known(shared, operation).await
    {
        let released = with_plans(shared, move |plans| plans.release(hash, operation)).await;
        if let Err(error) = released {
            tracing::warn!(%error, "failed to release a plan that was not executed");
        }
    }
    started
}

async fn begin_claimed_plan(
    shared: &Arc<SharedState>,
    application: &Application,
    requested: &OperationRequest,
    operation: OperationId,
    hash: Digest,
) -> Result<(), StartError> {
    let failed = |error: ServiceError| StartError::Refused(error.to_string());
    let (plan, line) = find_stored_plan(shared, hash).await.map_err(failed)?;
    let (place, mandate) = admit(shared, application)?;
    check_application(&plan, application, &place).map_err(StartError::Refused)?;
    let policy = shared.approval_policy(application).map_err(StartError::Refused)?;
    if let Some(who) =
        policy.describe_missing(PlanRequesters::for_execution(&line.by, requested), &line.approvals)
    {
        return Err(StartError::Refused(format!(
            "plan {} cannot be executed: it needs {who}",
            line.hash.short()
        )));
    }
    let revisions = operation::deployed_revisions(&plan.request);
    let sources: Sources = operation::operation_sources(application, requested)
        .map_err(|error| StartError::Refused(error.to_string()))?;
    let names = operation::revision_names(requested);
    check_signatures(shared, application, &sources, &revisions, names).await.map_err(StartError::Refused)?;
    let taken = with_plans(shared, move |plans| plans.take(line.hash, operation)).await.map_err(failed)?;
    if let Some(other) = taken.operation.filter(|other| *other != operation) {
        return Err(StartError::Refused(already_used_error(&taken, other)));
    }
    let to = (place.destination.clone(), place.namespace.clone());
    let fresh = operation::sync_request(application, requested, to, &revisions)
        .map_err(|error| StartError::Refused(error.to_string()))?;
    let (request, pinned) = plan.pin(taken.approvals, approval::allows_drift(requested));
    let SyncRequest { initiated_by, retry, claim, .. } = fresh;
    let request = SyncRequest { initiated_by, retry, claim, ..request };
    let windows = shared.projects.sync_windows(application, &place.target).stored_form;
    let held = operation_targets(shared.gates.read().await, windows, mandate);
    let targets = Targets { targets: pinned.targets, pinned: pinned.pinned, ..held };
    Ok(shared.engine.ensure_with_policy(operation, request, targets, ClaimConflictPolicy::Queue).await?)
}
