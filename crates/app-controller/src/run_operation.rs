//! Runs the operation that an Application requests.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_application::AppKey;
use tidegate_application::approval;
use tidegate_application::deletion::unfounded_deletion_message;
use tidegate_application::machine::Input;
use tidegate_application::operation::{self, EngineProgress};
use tidegate_executor::{Clock as _, EngineError, SystemClock};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::argo::Application;
use tidegate_model::{ClaimConflictPolicy, ClaimHolder, Destination, OperationId, SafePoint};

use super::admission::{self, AdmittedSync, Stage};
use super::comparison_result::RetainedPlan;
use super::kubernetes_events::write_refusal_event;
use super::messages::AppMessage;
use super::operation_history::{load_operation, progress_from_summary, progress_from_view};
use super::operation_start::{StartError, check_selection};
use super::shared_state::SharedState;
use super::{delete, plan_approval};

/// Minimum interval between updates of an operation's status.
const STATUS_INTERVAL_MIN: Duration = Duration::from_millis(500);
/// Time limit for terminating an operation.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(2);
/// Delay before calling the engine again after an internal error.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Delay before contacting an unreachable cluster again.
const UNREACHABLE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Returns the revisions that an operation will deploy, and its ID, without starting it.
pub async fn prepare(
    shared: &Arc<SharedState>,
    application: &Application,
) -> Result<(Vec<String>, OperationId), String> {
    let request = application.operation.clone().unwrap_or_default();
    if let Some(reason) = unfounded_deletion_message(application) {
        return Err(reason);
    }
    if operation::deletion_cascade(&request).is_some() {
        return delete::prepare(shared, application).await;
    }
    if let Some(hash) = approval::requested_plan(&request) {
        return plan_approval::prepare(shared, application, hash).await;
    }
    let admitted = admission::check(shared, application, &request, Stage::Preparation)
        .await
        .map_err(StartError::into_reason)?;
    let AdmittedSync { place, sources, revisions, .. } = admitted;
    if request.sync.as_ref().is_some_and(|sync| !sync.resources.is_empty()) {
        match shared.render_manifests(application, &place, &sources, &revisions).await {
            Ok(manifests) => check_selection(application, &request, &manifests.targets, &place.namespace)?,
            // The operation will wait for its cluster, like an operation without a selection.
            Err(unmade) if unmade.is_cluster_unreachable => {}
            Err(unmade) => return Err(unmade.message),
        }
    }
    // Reject invalid requests now, before the engine receives them.
    operation::sync_request(application, &request, place.destination, place.namespace, &revisions)
        .map_err(|refusal| refusal.to_string())?;
    let id = shared.engine.next_id().await.map_err(|error| error.to_string())?;
    Ok((revisions, id))
}

/// Handover of an operation to the engine.
pub struct Handover {
    pub operation: OperationId,
    /// True if the engine can't have the operation yet.
    pub is_new: bool,
    /// Plan of the comparison that led to the operation.
    pub plan: Option<RetainedPlan>,
}

/// Runs the operation until it finishes, and reports its progress to the actor.
pub async fn run(
    shared: Arc<SharedState>,
    mut application: Arc<Application>,
    mut handover: Handover,
    actor: ActorRef<AppMessage>,
) {
    let operation = handover.operation;
    let notify = |progress| {
        let input = Input::Progress { operation, progress: Box::new(progress) };
        drop(actor.send_message(AppMessage::Input(input)));
    };
    // An operation on an unreachable cluster resumes once that cluster is back. By then, the Application may
    // have a different destination.
    let open = if handover.is_new { None } else { find_open_operation(&shared, operation).await };
    match open {
        Some((there, view)) if !shared.destinations.is_reachable(&there) => {
            let message = format!("waiting for the {there}: the target cluster is unreachable");
            notify(EngineProgress { message, ..progress_from_view(view) });
            shared.destinations.await_recorded(&there).await;
        }
        Some(_) => {}
        None => shared.destinations.await_reachable(&application.spec.destination).await,
    }
    loop {
        match begin(&shared, &application, &mut handover).await {
            Ok(()) => return follow_progress(&shared, operation, notify).await,
            Err(StartError::Unreachable(why)) => {
                let reason = format!("waiting for its cluster: {why}");
                drop(actor.send_message(AppMessage::Input(Input::Waiting { operation, reason })));
                tokio::time::sleep(UNREACHABLE_RETRY_DELAY).await;
                // By now, the Application may have a different destination.
                let now = shared.application_cache.get(&AppKey::of(&application));
                let is_same = |now: &Arc<Application>| {
                    now.operation.as_ref().and_then(operation::engine_id) == Some(operation)
                };
                application = now.filter(is_same).unwrap_or(application);
            }
            Err(StartError::Refused(message)) => {
                notify(EngineProgress::rejected(message.clone(), SystemClock.now()));
                return write_refusal_event(&shared, &application, &message).await;
            }
            Err(StartError::Stopped) => return,
        }
    }
}

/// Returns an operation's cluster and state, if the operation has started and hasn't finished.
pub async fn find_open_operation(
    shared: &Arc<SharedState>,
    operation: OperationId,
) -> Option<(Destination, OperationView)> {
    let log = Arc::clone(&shared.log);
    let looking = tokio::task::spawn_blocking(move || load_operation(&log, operation)).await;
    let (request, view) = looking.ok()?.ok()??;
    view.finished_at.is_none().then_some((request.destination, view))
}

/// Terminates an operation. Returns once this is durable, or false if the engine doesn't have the operation.
pub async fn terminate(shared: &Arc<SharedState>, operation: OperationId, by: &str) -> Result<bool, String> {
    let ending = async {
        match shared.engine.terminate(operation, by).await {
            // The operation is in the log but isn't running, so it must be resumed before it can be
            // terminated.
            Err(EngineError::NotRunning { .. }) => match shared.engine.resume(operation).await {
                Ok(()) => shared.engine.terminate(operation, by).await,
                other => other,
            },
            other => other,
        }
    };
    match tokio::time::timeout(TERMINATION_TIMEOUT, ending).await {
        Ok(Ok(()) | Err(EngineError::AlreadyFinished { .. })) => Ok(true),
        Ok(Err(EngineError::UnknownOperation { .. })) => Ok(false),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the engine does not respond; retry, or restart the process".to_owned()),
    }
}

/// Stops an operation in favor of another sync. Returns once this is durable, or the reason why it isn't
/// safe.
pub async fn supersede(
    shared: &Arc<SharedState>,
    operation: OperationId,
    by: ClaimHolder,
    when: SafePoint,
) -> Result<(), String> {
    let ending = shared.engine.supersede(operation, by, when);
    match tokio::time::timeout(TERMINATION_TIMEOUT, ending).await {
        Ok(Ok(()) | Err(EngineError::AlreadyFinished { .. })) => Ok(()),
        Ok(Err(EngineError::UnknownOperation { .. } | EngineError::NotRunning { .. })) => {
            Err("the operation has not started yet".to_owned())
        }
        Ok(Err(EngineError::Rejected { reason, .. })) => Err(reason),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the engine does not respond".to_owned()),
    }
}

async fn begin(
    shared: &Arc<SharedState>,
    application: &Application,
    handover: &mut Handover,
) -> Result<(), StartError> {
    let (operation, is_new, plan) = (handover.operation, handover.is_new, handover.plan.take());
    if !is_new {
        match shared.engine.resume(operation).await {
            Ok(()) | Err(EngineError::AlreadyFinished { .. }) => return Ok(()),
            Err(EngineError::UnknownOperation { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let requested = application.operation.clone().unwrap_or_default();
    if let Some(reason) = unfounded_deletion_message(application) {
        return Err(StartError::Refused(reason));
    }
    // If another operation of the Application is running, for example because of `tidegate sync`, that
    // operation finishes first.
    let if_open = ClaimConflictPolicy::Queue;
    let start = async |request, targets| match is_new {
        true => shared.engine.start_with_policy(operation, request, targets, if_open).await,
        false => shared.engine.ensure_with_policy(operation, request, targets, if_open).await,
    };
    if operation::deletion_cascade(&requested).is_some() {
        let (request, targets) =
            delete::engine_request(shared, application).await.map_err(StartError::Refused)?;
        return Ok(start(request, targets).await?);
    }
    if let Some(hash) = approval::requested_plan(&requested) {
        return plan_approval::begin_plan(shared, application, &requested, operation, hash).await;
    }
    let policy = shared.approval_policy(application).map_err(StartError::Refused)?;
    approval::refuse_unapproved(&policy, &requested).map_err(StartError::Refused)?;
    // The permission may have changed since the request. Every write is checked as well.
    let admitted = admission::check(shared, application, &requested, Stage::Start).await?;
    let (request, mut targets) = admitted.engine_input(shared, application, &requested).await?;
    targets.compared = plan.map(|retained| retained.plan);
    Ok(start(request, targets).await?)
}

/// Reports an operation's progress after each change, but at most once per interval.
async fn follow_progress(shared: &Arc<SharedState>, operation: OperationId, notify: impl Fn(EngineProgress)) {
    let engine = &shared.engine;
    loop {
        let ended = engine.wait(operation);
        tokio::pin!(ended);
        let mut events = engine.events(operation, 0).await.ok();
        let ended = loop {
            if let Ok((view, _)) = engine.inspect(operation).await {
                notify(progress_from_view(view));
            }
            let happens = async {
                tokio::time::sleep(STATUS_INTERVAL_MIN).await;
                match &mut events {
                    Some(events) => drop(events.next().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = &mut ended => break ended,
                () = happens => {}
            }
        };
        match ended {
            Ok(view) => return notify(progress_from_view(view)),
            Err(EngineError::ShuttingDown | EngineError::Stopped | EngineError::LogFailed { .. }) => return,
            Err(error) => {
                tracing::warn!(%operation, %error, "resuming an operation that is not running");
                tokio::time::sleep(RETRY_DELAY).await;
                match engine.resume(operation).await {
                    // The log may have only a summary of an old operation.
                    Err(EngineError::AlreadyFinished { .. }) => {
                        if let Some(over) = summary_progress(shared, operation).await {
                            return notify(over);
                        }
                    }
                    Err(error) => tracing::warn!(%operation, %error, "failed to resume an operation"),
                    Ok(()) => {}
                }
            }
        }
    }
}

async fn summary_progress(shared: &Arc<SharedState>, operation: OperationId) -> Option<EngineProgress> {
    let all = shared.engine.list().await.ok()?;
    all.into_iter().find(|summary| summary.operation == operation).map(progress_from_summary)
}
