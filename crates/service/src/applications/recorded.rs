//! What the operation log has of an application whose status may have been lost.

use std::sync::Arc;

use tidegate_application::instance_name;
use tidegate_application::operation::Progress;
use tidegate_application::recorded::{self, Line, Recorded};
use tidegate_application::running::Deployed;
use tidegate_executor::effects::cluster_of;
use tidegate_executor::{EngineError, Summary};
use tidegate_lifecycle::operation::{Driver, OperationView, view};
use tidegate_model::argo::Application;
use tidegate_model::{OperationId, OperationPhase, SyncRequest};
use tidegate_oplog::{Known, Log, LogError, Lookup, TypedLog as _};

use super::parting::is_parted;
use super::shared::Shared;
use crate::error::ServiceError;
use crate::operations::{self, Listed, listed};

/// The operations that the log has of an application, oldest first: all of them where its status does not know the newest,
/// which is unusual, and a line of each. Those before `since` are of another one that had its name.
pub(crate) async fn known(
    shared: &Arc<Shared>,
    application: &Application,
    since: Option<OperationId>,
) -> Result<(Vec<Recorded>, Vec<Line>), ServiceError> {
    let (log, application) = (Arc::clone(&shared.log), application.clone());
    let reading = tokio::task::spawn_blocking(move || read(&log, &application, since)).await;
    reading.unwrap_or_else(|_| Err(LogError::Poisoned.into()))
}

/// A sync that was begun for an application and is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Open {
    /// Which.
    pub operation: OperationId,
    /// Of which application, as operations name it.
    pub application: String,
    /// A hook of it is at work.
    pub runs_hook: bool,
    /// It ends because its application is gone.
    pub is_parted: bool,
}

/// The syncs that were begun for an application, or for any, and are not over: those of them that are meant. The others are not
/// read, as there may be thousands.
pub(crate) async fn open(
    shared: &Arc<Shared>,
    of: Option<String>,
    is_meant: impl Fn(OperationId, &str) -> bool + Send + 'static,
) -> Result<Vec<Open>, ServiceError> {
    let log = Arc::clone(&shared.log);
    let reading = tokio::task::spawn_blocking(move || {
        let all = listed(&log, &Lookup { application: of, ..Lookup::open() })?;
        let is_meant = |one: &Listed| {
            one.summary.as_ref().is_some_and(|summary| is_meant(one.operation, &summary.application))
        };
        let open = all.into_iter().filter(is_meant).filter_map(|one| {
            let (request, view) = loaded(&log, one.operation).ok()??;
            let is_sync = recorded::is_own(&request) && request.deletion.is_none();
            let mut resources = view.resources.iter();
            let runs_hook = resources.any(|one| one.hook_phase.is_some_and(|phase| !phase.is_completed()));
            let (application, is_parted) = (request.application, is_parted(&view));
            is_sync.then_some(Open { operation: one.operation, application, runs_hook, is_parted })
        });
        Ok(open.collect())
    });
    reading.await.unwrap_or_else(|_| Err(LogError::Poisoned.into()))
}

/// What the log knows of the objects of an application.
pub(crate) async fn inventory(shared: &Shared, request: &SyncRequest) -> Option<Known> {
    let (log, application) = (Arc::clone(&shared.log), request.application.clone());
    let cluster = cluster_of(&request.destination)?;
    let reading = tokio::task::spawn_blocking(move || log.inventory(&cluster, &application)).await;
    // Without it the cluster is searched, as it is where there never was one.
    reading.unwrap_or(Err(LogError::Poisoned)).unwrap_or_else(|error| {
        tracing::warn!(application = request.application, %error, "the inventory cannot be read; the cluster is searched instead");
        None
    })
}

fn read(
    log: &Log,
    application: &Application,
    since: Option<OperationId>,
) -> Result<(Vec<Recorded>, Vec<Line>), ServiceError> {
    let mut summaries = summaries(log, application, since)?;
    let of_another =
        |one: &Summary| matches!(loaded(log, one.operation), Ok(Some((_, view))) if is_parted(&view));
    let is_unknown = |newest: &Summary| !recorded::is_known(application, newest.operation);
    let others = match summaries.last() {
        Some(newest) if is_unknown(newest) => {
            summaries.iter().rposition(of_another).map_or(0, |place| place + 1)
        }
        _ => 0,
    };
    let summaries = summaries.split_off(others);
    let line = |one: &Summary| Line { operation: one.operation, is_open: one.finished_at.is_none() };
    let lines = summaries.iter().map(line).collect();
    let recorded = match summaries.last() {
        Some(newest) if is_unknown(newest) => {
            summaries.into_iter().map(|summary| one(log, summary)).collect()
        }
        _ => Vec::new(),
    };
    Ok((recorded, lines))
}

/// A line of each operation of an application since this one, oldest first.
fn summaries(
    log: &Log,
    application: &Application,
    since: Option<OperationId>,
) -> Result<Vec<Summary>, ServiceError> {
    let all = listed(log, &Lookup::of_application(instance_name(application)))?;
    let own = all.into_iter().filter(|one| since.is_none_or(|since| one.operation >= since));
    Ok(own.filter_map(|one| one.summary).collect())
}

/// One operation, with all that is kept of it.
fn one(log: &Log, summary: Summary) -> Recorded {
    let operation = summary.operation;
    match loaded(log, operation) {
        Ok(Some((request, view))) => Recorded { operation, request: Some(request), progress: progress(view) },
        Ok(None) | Err(_) => Recorded { operation, request: None, progress: of_summary(summary) },
    }
}

/// How an operation has ended, if it has, whoever began it.
pub(crate) async fn ended(
    shared: &Arc<Shared>,
    operation: OperationId,
) -> Result<Option<(OperationPhase, String)>, ServiceError> {
    let log = Arc::clone(&shared.log);
    let reading = tokio::task::spawn_blocking(move || operations::ended(&log, operation)).await;
    reading.unwrap_or_else(|_| Err(LogError::Poisoned.into()))
}

/// Whether the engine has heard of an operation: it is at work, or the log has it. What cannot be told may be so.
pub(crate) async fn is_known(shared: &Arc<Shared>, operation: OperationId) -> bool {
    // In this order: what ends in between is in the log by then.
    if shared.engine.at_work().await.map_or(true, |all| all.contains(&operation)) {
        return true;
    }
    let log = Arc::clone(&shared.log);
    let reading = tokio::task::spawn_blocking(move || operations::known(&log, operation)).await;
    !matches!(reading, Ok(Ok(None)))
}

/// The newest operation that has deployed all of an application, of those that the log has since this one.
pub(crate) async fn deployed(
    shared: &Arc<Shared>,
    application: &Application,
    since: Option<OperationId>,
) -> Option<Deployed> {
    let (log, application) = (Arc::clone(&shared.log), application.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let summaries = summaries(&log, &application, since).ok()?;
        recorded::deployed(summaries.into_iter().map(|summary| one(&log, summary)))
    });
    reading.await.ok()?
}

/// What an operation was asked, and how it stands, according to the log.
pub(crate) fn loaded(
    log: &Log,
    operation: OperationId,
) -> Result<Option<(SyncRequest, OperationView)>, ServiceError> {
    let loaded = log.load_as(operation)?;
    let driver = Driver::recover(loaded.snapshot, loaded.facts).map_err(EngineError::from)?;
    Ok(driver.state().header().map(|header| header.request.clone()).zip(view(driver.state())))
}

/// How an operation stands of which only a line is left.
pub(crate) fn of_summary(summary: Summary) -> Progress {
    let Summary { phase, message, started_at, finished_at, .. } = summary;
    Progress { phase, message, started_at, finished_at, retry_count: 0, resources: Vec::new() }
}

/// How an operation stands, as the status of an application says it.
pub(crate) fn progress(view: OperationView) -> Progress {
    Progress {
        phase: view.phase,
        message: view.message,
        started_at: view.started_at,
        finished_at: view.finished_at,
        retry_count: view.retry_count,
        resources: view.resources,
    }
}
