//! Operations of progressive syncs: requests, starts and results.
//!
//! A progressive sync assigns an operation's ID and revisions before the application receives it. The
//! operation starts only once under this ID, and waits while the application runs another operation.

use tidegate_model::argo::{
    Application, OperationInitiator, OperationRequest, OperationState, Retry, RevisionHistory, SyncOperation,
};
use tidegate_model::{HealthStatus, OperationId, OperationPhase, SyncRequest, Timestamp};

use crate::controller_info::{ID_INFO, ROLLOUT_INFO};
use crate::operation::{self, EngineProgress, REASON_INFO};
use crate::previous_operation;
use crate::refresh::{self, SKIP_RECONCILE_ANNOTATION};
use crate::sources::{Sources, revisions_of_fields};
use crate::sync_windows::{SyncWindows, WindowHold};

/// Requester of operations started by a progressive sync, as in Argo CD.
pub const ROLLOUT_REQUESTER: &str = SyncRequest::ROLLOUT_REQUESTER;
/// Reason recorded for these operations, as in Argo CD.
const ROLLOUT_REASON: &str = "ApplicationSet RollingSync triggered a sync of this Application resource";
/// Default number of retries of these operations.
const RETRY_LIMIT_DEFAULT: i64 = 5;

/// Deployment of an Application as part of a progressive sync.
#[derive(Clone, Copy, Debug)]
pub struct RolloutDeployment<'a> {
    /// Display name of the ApplicationSet.
    pub appset: &'a str,
    /// Revisions to deploy, in source order.
    pub revisions: &'a [String],
    /// True if objects that are gone from the manifests are deleted.
    pub prune: bool,
}

/// Returns the operation that deploys these revisions of the application's current sources.
pub fn deployment_request(application: &Application, deploy: RolloutDeployment<'_>) -> OperationRequest {
    build_request(application, &Sources::from_application(application).without_credentials(), deploy)
}

/// Returns the operation that rolls back to previously deployed revisions, with the sources of that
/// deployment.
pub fn rollback_request(application: &Application, deploy: RolloutDeployment<'_>) -> OperationRequest {
    let of = |one: &&RevisionHistory| revisions_of_fields(&one.revision, &one.revisions) == deploy.revisions;
    let before = application.status.history.iter().rev().find(of);
    let sources = before.and_then(|one| Sources::from_fields(one.source.as_ref(), &one.sources));
    build_request(
        application,
        &sources.unwrap_or_else(|| Sources::from_application(application).without_credentials()),
        deploy,
    )
}

fn build_request(
    application: &Application,
    sources: &Sources,
    deploy: RolloutDeployment<'_>,
) -> OperationRequest {
    let policy = application.spec.sync_policy.clone().unwrap_or_default();
    let (revision, revisions) = sources.revision_fields(deploy.revisions);
    let mut asked = OperationRequest {
        sync: Some(SyncOperation {
            revision,
            revisions,
            source: sources.single_field(),
            sources: sources.list_field(),
            prune: deploy.prune,
            sync_options: policy.sync_options,
            ..SyncOperation::default()
        }),
        initiated_by: OperationInitiator {
            username: ROLLOUT_REQUESTER.to_owned(),
            automated: true,
            ..OperationInitiator::default()
        },
        retry: Some(policy.retry.unwrap_or_else(|| Retry { limit: RETRY_LIMIT_DEFAULT, ..Retry::default() })),
        ..OperationRequest::default()
    };
    asked.set_info(REASON_INFO, ROLLOUT_REASON);
    asked.set_info(ROLLOUT_INFO, deploy.appset);
    asked
}

/// Returns true if an operation is part of a progressive sync.
pub fn is_of_rollout(asked: &OperationRequest) -> bool {
    asked.info_value(ROLLOUT_INFO).is_some()
}

/// Returns the ID of the application's current operation if it is part of a progressive sync, started or not.
pub fn current_rollout_operation(application: &Application) -> Option<OperationId> {
    application.operation.as_ref().filter(|asked| is_of_rollout(asked)).and_then(operation::engine_id)
}

/// Next step for a progressive sync's operation that the application hasn't received yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartDecision {
    /// Makes the operation the current one.
    Start,
    /// Waits for the application's current operation to finish.
    Wait,
    /// Waits for sync windows, and checks again later.
    Blocked(WindowHold),
    /// Can't start. The reason may be temporary.
    Unavailable(String),
}

/// Decides whether an application can receive a progressive sync's operation now. Sync windows treat it as
/// automated.
pub fn decide_start(application: &Application, windows: &SyncWindows, now: Timestamp) -> StartDecision {
    let name = &application.metadata.name;
    if application.is_deleting() {
        return StartDecision::Unavailable(format!("application {name} is being deleted"));
    }
    if refresh::is_skipped(application) {
        return StartDecision::Unavailable(format!(
            "application {name} is skipped because of its {SKIP_RECONCILE_ANNOTATION} annotation"
        ));
    }
    if application.operation.is_some() {
        return StartDecision::Wait;
    }
    windows.find_hold(false, now).map_or(StartDecision::Start, StartDecision::Blocked)
}

/// Makes an operation the application's current one, under the given ID.
pub fn assign_operation(application: &mut Application, operation: OperationId, mut asked: OperationRequest) {
    asked.set_info(ID_INFO, operation.to_string());
    application.operation = Some(asked);
}

/// Removes an operation that hasn't started. Its ID is removed from the status too, so that the operation can
/// be requested again.
pub fn withdraw_operation(application: &mut Application, operation: OperationId, now: Timestamp) {
    if current_rollout_operation(application) != Some(operation) {
        return;
    }
    if is_of_operation(application.status.operation_state.as_ref(), operation) {
        operation::apply_progress(application, EngineProgress::terminated(ROLLOUT_REQUESTER, now));
        if let Some(state) = &mut application.status.operation_state {
            operation::remove_controller_infos(&mut state.operation);
        }
    }
    application.operation = None;
}

fn is_of_operation(state: Option<&OperationState>, operation: OperationId) -> bool {
    state.is_some_and(|state| operation::engine_id(&state.operation) == Some(operation))
}

/// Returns the result of a finished operation if the status has it.
pub fn operation_result(
    application: &Application,
    operation: OperationId,
) -> Option<(OperationPhase, String)> {
    let state = application.status.operation_state.as_ref();
    let state = state.filter(|_| is_of_operation(state, operation))?;
    (state.phase.is_completed() && state.finished_at.is_some()).then(|| (state.phase, state.message.clone()))
}

/// Completed operations that a progressive sync accepts instead of deploying again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptableOperations {
    /// Only operations later than this one are accepted.
    pub after: Option<OperationId>,
    /// The progressive sync. Its own successful operations aren't accepted, since a user may have asked to
    /// repeat them.
    pub rollout: OperationId,
    /// Revisions whose manifests are known to equal those to deploy. Other revisions may have equal manifests
    /// too.
    pub revisions: Vec<Vec<String>>,
    /// True if operations of Degraded applications are accepted. Otherwise, those applications are synced
    /// again, which may fix them.
    pub includes_degraded: bool,
}

impl AdoptableOperations {
    /// Returns true if an application with this health doesn't need another sync.
    pub fn accepts_health(&self, health: Option<HealthStatus>) -> bool {
        self.includes_degraded || !matches!(health, Some(HealthStatus::Degraded | HealthStatus::Missing))
    }
}

/// Returns the last deployment if it may already have deployed the progressive sync's target. The caller must
/// still check that the deployed manifests match the target's and that nothing has changed since.
pub fn adoption_candidate(
    application: &Application,
    asked: &OperationRequest,
    adoption: &AdoptableOperations,
) -> Option<Deployment> {
    let last = previous_operation::last_attempt(application.status.operation_state.as_ref()?)?;
    let deployment = deployment_of(&last)?;
    let (of, wanted) = (last.sync_result.as_ref()?, asked.sync.as_ref()?);
    let is_its_own = is_of_rollout(&last.operation) && deployment.operation > adoption.rollout;
    let is_it = adoption.after.is_none_or(|after| deployment.operation > after)
        && !is_its_own
        && (&of.source, &of.sources) == (&wanted.source, &wanted.sources);
    is_it.then_some(deployment)
}

/// Operation that deployed a whole application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// ID of the operation.
    pub operation: OperationId,
    /// Deployed revisions, one per source.
    pub revisions: Vec<String>,
}

/// Returns the last operation if it successfully deployed the whole application.
pub fn last_deployment(application: &Application) -> Option<Deployment> {
    deployment_of(application.status.operation_state.as_ref()?)
}

fn deployment_of(state: &OperationState) -> Option<Deployment> {
    let sync = state.operation.sync.as_ref()?;
    let is_whole =
        !sync.dry_run && sync.resources.is_empty() && operation::deletion_cascade(&state.operation).is_none();
    let is_done = state.phase == OperationPhase::Succeeded && state.finished_at.is_some();
    (is_whole && is_done).then_some(())?;
    let of = state.sync_result.as_ref()?;
    let revisions = revisions_of_fields(&of.revision, &of.revisions);
    Some(Deployment { operation: operation::engine_id(&state.operation)?, revisions })
}
