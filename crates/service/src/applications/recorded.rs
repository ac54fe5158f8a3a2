//! What the operation log has of an application whose status may have been lost.

use std::sync::Arc;

use tidegate_application::instance_name;
use tidegate_application::operation::Progress;
use tidegate_application::recorded::{self, Line, Recorded};
use tidegate_executor::{EngineError, Summary};
use tidegate_lifecycle::operation::{Driver, OperationView, view};
use tidegate_model::argo::Application;
use tidegate_oplog::{Log, LogError, Lookup, TypedLog as _};

use super::shared::Shared;
use crate::error::ServiceError;
use crate::operations::listed;

/// The operations that the log has of an application, oldest first: all of them where its status does not know the newest,
/// which is unusual, and a line of each.
pub(crate) async fn known(
    shared: &Arc<Shared>,
    application: &Application,
) -> Result<(Vec<Recorded>, Vec<Line>), ServiceError> {
    let (log, application) = (Arc::clone(&shared.log), application.clone());
    let reading = tokio::task::spawn_blocking(move || read(&log, &application)).await;
    reading.unwrap_or_else(|_| Err(LogError::Poisoned.into()))
}

fn read(log: &Log, application: &Application) -> Result<(Vec<Recorded>, Vec<Line>), ServiceError> {
    let all = listed(log, &Lookup::of_application(instance_name(application)))?;
    let summaries: Vec<Summary> = all.into_iter().filter_map(|one| one.summary).collect();
    let line = |one: &Summary| Line { operation: one.operation, is_open: one.finished_at.is_none() };
    let lines = summaries.iter().map(line).collect();
    let recorded = match summaries.last() {
        Some(newest) if !recorded::is_known(application, newest.operation) => {
            summaries.into_iter().map(|summary| one(log, summary)).collect()
        }
        _ => Vec::new(),
    };
    Ok((recorded, lines))
}

/// One operation, with all that is kept of it.
fn one(log: &Log, summary: Summary) -> Recorded {
    let operation = summary.operation;
    let loading = || -> Result<Option<Recorded>, ServiceError> {
        let loaded = log.load_as(operation)?;
        let driver = Driver::recover(loaded.snapshot, loaded.facts).map_err(EngineError::from)?;
        let both = driver.state().header().map(|header| header.request.clone()).zip(view(driver.state()));
        Ok(both.map(|(request, view)| Recorded {
            operation,
            request: Some(request),
            progress: progress(view),
        }))
    };
    match loading() {
        Ok(Some(recorded)) => recorded,
        Ok(None) | Err(_) => Recorded { operation, request: None, progress: of_summary(summary) },
    }
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
