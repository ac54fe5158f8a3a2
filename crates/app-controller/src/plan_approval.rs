//! Plans for an Application's operations. A plan is created and stored while the operation is waiting for
//! approval, checked again when the cluster changes, and executed unchanged.

use std::sync::Arc;

use tidegate_application::approval::{self, PlanRequesters};
use tidegate_application::machine::{PendingPlan, PlanCheck, PlanFailure};
use tidegate_application::sources::Sources;
use tidegate_application::{instance_name, operation};
use tidegate_executor::effects::{self, NO_OPERATION, ObjectDifference, PlanError};
use tidegate_executor::{Clock as _, StoredPlan, SystemClock, Targets};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{
    ClaimConflictPolicy, Digest, OperationId, PlanApproval, Severity, SyncRequest, Warning,
};
use tidegate_oplog::LogError;
use tidegate_state::error::ServiceError;
use tidegate_state::stored_plans::{StoredPlanMetadata, StoredPlans};

use super::admission::{self, AdmittedSync, Stage, admit, check_signatures, check_windows};
use super::destinations::ResolvedDestination;
use super::manifests::RevisionLookup;
use super::operation_history;
use super::operation_start::{StartError, check_selection, operation_targets};
use super::shared_state::SharedState;

/// Number of characters in an abbreviated commit.
const SHORT_COMMIT_CHARS: usize = 7;

impl From<StartError> for PlanFailure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Refused(reason) => Self::Invalid(reason),
            unavailable => Self::Unavailable(unavailable.into_reason()),
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
    before: Option<Digest>,
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
        Some(hash) => Some(hash),
        None => newest_plan(shared, application).await,
    };
    if let Some(hash) = known
        && let Ok((stored, line)) = find_stored_plan(shared, hash).await
        && has_same_input(&stored, &input)
    {
        match check_unchanged(shared, &input, stored.clone(), true).await {
            Ok(()) if before.is_some() => return PlanCheck::Current,
            // An earlier process stored this plan, and a user may have approved it since.
            Ok(()) => return PlanCheck::Stored(Box::new(pending_plan(line, &stored))),
            Err(PlanError::Outdated(_)) => {}
            Err(PlanError::Call(error)) => return PlanCheck::Unplanned(from_call_error(error)),
        }
    }
    match store_plan(shared, input, true).await {
        Ok((line, stored)) => PlanCheck::Stored(Box::new(pending_plan(line, &stored))),
        Err(reason) => PlanCheck::Unplanned(reason),
    }
}

/// Returns the hash of an Application's newest automatically stored plan, unless the plan was withdrawn or another
/// operation has executed it.
async fn newest_plan(shared: &Arc<SharedState>, application: &Application) -> Option<Digest> {
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
        _ => Some(line.hash),
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
    let requested = application.operation.clone().unwrap_or_default();
    let admitted = admission::check(shared, application, &requested, Stage::Plan(lookup)).await?;
    let (request, targets) = admitted.engine_input(shared, application, &requested).await?;
    let AdmittedSync { place, .. } = admitted;
    check_selection(application, &requested, &targets.targets, &place.namespace)
        .map_err(PlanFailure::Invalid)?;
    let request = SyncRequest { initiated_by: approval::plan_author(&requested).to_owned(), ..request };
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
) -> Result<(StoredPlanMetadata, StoredPlan), PlanFailure> {
    let PlanInput { request, targets, place } = input;
    let inventory = operation_history::inventory(shared, &request).await;
    let now = SystemClock.now();
    let made = StoredPlan::create(place.cluster.as_ref(), request, targets, now, inventory.as_ref()).await;
    let (plan, _) = made.map_err(from_call_error)?;
    let stored = with_plans(shared, move |plans| {
        Ok((if is_by_itself { plans.store_automatic(&plan)? } else { plans.store(&plan)? }, plan))
    })
    .await;
    stored.map_err(|error| PlanFailure::Unavailable(error.to_string()))
}

/// Creates and stores a plan for an operation that hasn't been requested yet.
pub async fn make_plan(
    shared: &Arc<SharedState>,
    application: &Application,
    request: OperationRequest,
) -> Result<StoredPlanMetadata, ServiceError> {
    let application = Application { operation: Some(request), ..application.clone() };
    let refused =
        |(PlanFailure::Invalid(reason) | PlanFailure::Unavailable(reason))| ServiceError::refused(reason);
    let input = plan_input(shared, &application, RevisionLookup::NewObservation).await.map_err(refused)?;
    let (line, _) = store_plan(shared, input, false).await.map_err(refused)?;
    Ok(line)
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
    check_windows(shared, application, &place, &policy).map_err(StartError::into_reason)?;
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

/// Withdraws an obsolete plan, so that a later request for the same operation doesn't reuse it. Later errors
/// name `by`, the user who withdrew it.
pub async fn withdraw_plan(shared: &SharedState, plan: Digest, by: Option<PlanApproval>) {
    if let Err(error) = with_plans(shared, move |plans| plans.withdraw(plan, by)).await {
        tracing::warn!(%plan, %error, "failed to withdraw an obsolete plan");
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
    let (destination, namespace) = (place.destination.clone(), place.namespace.clone());
    let fresh = operation::sync_request(application, requested, destination, namespace, &revisions)
        .map_err(|error| StartError::Refused(error.to_string()))?;
    let (request, pinned) = plan.pin(taken.approvals, approval::allows_drift(requested));
    let SyncRequest { initiated_by, retry, claim, .. } = fresh;
    let request = SyncRequest { initiated_by, retry, claim, ..request };
    let windows = shared.projects.sync_windows(application, &place.target).stored_form;
    let held = operation_targets(shared.gates.read().await, windows, mandate);
    let targets = Targets { targets: pinned.targets, pinned: pinned.pinned, ..held };
    Ok(shared.engine.ensure_with_policy(operation, request, targets, ClaimConflictPolicy::Queue).await?)
}

/// Loads a stored plan for an operation that is waiting for its approval.
pub async fn load_pending_plan(shared: &Arc<SharedState>, hash: Digest) -> Result<PendingPlan, ServiceError> {
    let (plan, line) = find_stored_plan(shared, hash).await?;
    Ok(pending_plan(line, &plan))
}

fn pending_plan(line: StoredPlanMetadata, plan: &StoredPlan) -> PendingPlan {
    PendingPlan {
        description: describe_plan(&line, plan),
        hash: line.hash,
        author: line.by,
        approvals: line.approvals,
        revisions: operation::deployed_revisions(&plan.request),
    }
}

/// Returns a plan's summary, such as `3 to create, 1 to prune, including 1 hook; revision 3f2a9c4`.
fn describe_plan(line: &StoredPlanMetadata, StoredPlan { plan, request, .. }: &StoredPlan) -> String {
    let hooks = match plan.tasks.iter().filter(|task| task.is_hook()).count() {
        0 => String::new(),
        1 => ", including 1 hook".to_owned(),
        hooks => format!(", including {hooks} hooks"),
    };
    let short = |one: &String| one.chars().take(SHORT_COMMIT_CHARS).collect::<String>();
    let revisions: Vec<String> = operation::deployed_revisions(request).iter().map(short).collect();
    format!("{}{hooks}; revision {}", line.describe_actions(), revisions.join(" "))
}
