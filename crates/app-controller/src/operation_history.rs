//! Reads an Application's operations from the log, in case its status was lost.

use std::sync::Arc;

use tidegate_application::history::{self, LogSummary, LoggedOperation};
use tidegate_application::instance_name;
use tidegate_application::operation::EngineProgress;
use tidegate_application::rollout_operation::Deployment;
use tidegate_executor::effects::cluster_identity;
use tidegate_executor::{EngineError, Summary};
use tidegate_lifecycle::operation::{Driver, OperationView, view};
use tidegate_model::argo::Application;
use tidegate_model::{OperationId, OperationPhase, SyncRequest};
use tidegate_oplog::{ApplicationInventory, Log, LogError, Lookup, TypedLog as _};
use tidegate_planner::Target;
use tidegate_state::error::ServiceError;
use tidegate_state::last_sync;
use tidegate_state::operations::{self, list_operations};

use super::shared_state::SharedState;

/// Name under which `orphaned_syncs` pauses and terminates operations.
pub(super) const CLEANUP_ACTOR: &str = "the deletion of its Application";

/// Returns true if an operation was stopped because its Application was deleted. A new Application of the
/// same name doesn't inherit it.
fn is_orphaned(view: &OperationView) -> bool {
    [&view.paused_by, &view.terminated_by].into_iter().flatten().any(|by| by == CLEANUP_ACTOR)
}

/// Returns an Application's operations in the log, oldest first, and a short entry for each. The list of
/// operations is empty unless the status lacks the newest operation, which is rare. Operations before `since`
/// were run for an earlier Application of the same name.
pub async fn load_history(
    shared: &Arc<SharedState>,
    application: &Application,
    since: Option<OperationId>,
) -> Result<(Vec<LoggedOperation>, Vec<LogSummary>), ServiceError> {
    let (log, application) = (Arc::clone(&shared.log), application.clone());
    let reading = tokio::task::spawn_blocking(move || read_operations(&log, &application, since)).await;
    reading.unwrap_or_else(|_| Err(LogError::Poisoned.into()))
}

/// A sync that has started and hasn't finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSync {
    /// Operation ID.
    pub operation: OperationId,
    /// Name of the Application in operations.
    pub application: String,
    /// True if one of the sync's hooks is running.
    pub has_running_hook: bool,
    /// True if the sync is being stopped because its Application was deleted.
    pub is_orphaned: bool,
}

/// Returns the unfinished syncs of one Application or of all Applications, except those that other replicas run. Reads only
/// the matching syncs, because there can be thousands.
pub async fn open_syncs(
    shared: &Arc<SharedState>,
    of: Option<String>,
    is_meant: impl Fn(OperationId, &str) -> bool + Send + 'static,
) -> Result<Vec<OpenSync>, ServiceError> {
    let all = shared.engine.open_operations(of).await?;
    let log = Arc::clone(&shared.log);
    let reading = tokio::task::spawn_blocking(move || {
        let own = all.into_iter().filter(|one| one.is_owned).map(|one| one.summary);
        let open = own.filter(|one| is_meant(one.operation, &one.application)).filter_map(|one| {
            let (request, view) = load_operation(&log, one.operation).ok()??;
            let is_sync = history::belongs_to_application(&request) && request.deletion.is_none();
            let mut resources = view.resources.iter();
            let has_running_hook =
                resources.any(|one| one.hook_phase.is_some_and(|phase| !phase.is_completed()));
            let (application, is_orphaned) = (request.application, is_orphaned(&view));
            is_sync.then_some(OpenSync {
                operation: one.operation,
                application,
                has_running_hook,
                is_orphaned,
            })
        });
        Ok(open.collect())
    });
    reading.await.unwrap_or_else(|_| Err(LogError::Poisoned.into()))
}

/// Returns an Application's inventory from the log.
pub async fn inventory(shared: &SharedState, request: &SyncRequest) -> Option<ApplicationInventory> {
    let (log, application) = (Arc::clone(&shared.log), request.application.clone());
    let cluster = cluster_identity(&request.destination)?;
    let reading = tokio::task::spawn_blocking(move || log.inventory(&cluster, &application)).await;
    // Without an inventory, the cluster is searched, as for an Application that has never had an inventory.
    reading.unwrap_or(Err(LogError::Poisoned)).unwrap_or_else(|error| {
        tracing::warn!(application = request.application, %error, "failed to read the inventory; searching the cluster instead");
        None
    })
}

fn read_operations(
    log: &Log,
    application: &Application,
    since: Option<OperationId>,
) -> Result<(Vec<LoggedOperation>, Vec<LogSummary>), ServiceError> {
    let mut summaries = read_summaries(log, application, since)?;
    let of_another = |one: &Summary| matches!(load_operation(log, one.operation), Ok(Some((_, view))) if is_orphaned(&view));
    let is_unknown = |newest: &Summary| !history::knows_operation(application, newest.operation);
    let others = match summaries.last() {
        Some(newest) if is_unknown(newest) => {
            summaries.iter().rposition(of_another).map_or(0, |place| place + 1)
        }
        _ => 0,
    };
    let summaries = summaries.split_off(others);
    let line = |one: &Summary| LogSummary { operation: one.operation, is_running: one.finished_at.is_none() };
    let lines = summaries.iter().map(line).collect();
    let recorded = match summaries.last() {
        Some(newest) if is_unknown(newest) => {
            summaries.into_iter().map(|summary| logged_operation(log, summary)).collect()
        }
        _ => Vec::new(),
    };
    Ok((recorded, lines))
}

/// Returns a summary of each of an Application's operations since `since`, oldest first.
fn read_summaries(
    log: &Log,
    application: &Application,
    since: Option<OperationId>,
) -> Result<Vec<Summary>, ServiceError> {
    let all = list_operations(log, &Lookup::of_application(instance_name(application)))?;
    let own = all.into_iter().filter(|one| since.is_none_or(|since| one.operation >= since));
    Ok(own.filter_map(|one| one.summary).collect())
}

/// Returns an operation with all of its data that is still in the log.
fn logged_operation(log: &Log, summary: Summary) -> LoggedOperation {
    let operation = summary.operation;
    match load_operation(log, operation) {
        Ok(Some((request, view))) => {
            LoggedOperation { operation, request: Some(request), progress: progress_from_view(view) }
        }
        Ok(None) | Err(_) => {
            LoggedOperation { operation, request: None, progress: progress_from_summary(summary) }
        }
    }
}

/// Returns the result of a finished operation, regardless of which client requested it.
pub async fn operation_result(
    shared: &Arc<SharedState>,
    operation: OperationId,
) -> Result<Option<(OperationPhase, String)>, ServiceError> {
    let log = Arc::clone(&shared.log);
    let reading = tokio::task::spawn_blocking(move || operations::find_outcome(&log, operation)).await;
    reading.unwrap_or_else(|_| Err(LogError::Poisoned.into()))
}

/// Returns true if an operation is running or in the log, or if that can't be determined.
pub async fn is_operation_known(shared: &Arc<SharedState>, operation: OperationId) -> bool {
    // The order matters: an operation that finishes between the two checks is then already in the log.
    if shared.engine.running_operations().await.map_or(true, |all| all.contains(&operation)) {
        return true;
    }
    let log = Arc::clone(&shared.log);
    let reading = tokio::task::spawn_blocking(move || operations::find_operation(&log, operation)).await;
    !matches!(reading, Ok(Ok(None)))
}

/// Returns the newest operation since `since` that, according to the log, deployed the whole Application.
pub async fn newest_deployment(
    shared: &Arc<SharedState>,
    application: &Application,
    since: Option<OperationId>,
) -> Option<Deployment> {
    let (log, application) = (Arc::clone(&shared.log), application.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let summaries = read_summaries(&log, &application, since).ok()?;
        history::newest_deployment(summaries.into_iter().map(|summary| logged_operation(&log, summary)))
    });
    reading.await.ok()?
}

/// Returns an operation's request and state from the log.
pub fn load_operation(
    log: &Log,
    operation: OperationId,
) -> Result<Option<(SyncRequest, OperationView)>, ServiceError> {
    let loaded = log.load_as(operation)?;
    let driver = Driver::recover(loaded.snapshot, loaded.events).map_err(EngineError::from)?;
    Ok(driver.state().header().map(|header| header.request.clone()).zip(view(driver.state())))
}

/// Returns the manifests that an operation started with, or `None` if they are no longer in the log.
pub async fn manifests(
    shared: &SharedState,
    operation: OperationId,
) -> Result<Option<Vec<Target>>, ServiceError> {
    let log = Arc::clone(&shared.log);
    let reading = tokio::task::spawn_blocking(move || last_sync::read_sync(&log, operation));
    let known = reading.await.unwrap_or_else(|_| Err(LogError::Poisoned.into()))?;
    Ok(known.map(|known| known.targets.targets))
}

/// Returns the progress of an operation that only has a summary in the log.
pub fn progress_from_summary(summary: Summary) -> EngineProgress {
    let Summary { phase, message, started_at, finished_at, .. } = summary;
    EngineProgress { phase, message, started_at, finished_at, retry_count: 0, resources: Vec::new() }
}

/// Converts an operation's view to the progress that an Application's status shows.
pub fn progress_from_view(view: OperationView) -> EngineProgress {
    EngineProgress {
        phase: view.phase,
        message: view.message,
        started_at: view.started_at,
        finished_at: view.finished_at,
        retry_count: view.retry_count,
        resources: view.resources,
    }
}
