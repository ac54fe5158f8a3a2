//! What can be said of an operation whose record is damaged, or is not kept any more.

use std::time::Duration;

use tidegate_executor::{Clock as _, EngineError, Summary, SystemClock};
use tidegate_lifecycle::operation::{Driver, Explanation, OperationView, explain, view};
use tidegate_model::{OperationId, Severity, Warning, Wisher, format_duration};
use tidegate_oplog::{Log, LogError, TypedLog as _};

use crate::control::protocol::Inspected;
use crate::documents::{ExplanationDocument, SummaryDocument};
use crate::error::ServiceError;
use crate::operations::Listed;

/// Whether an error leaves an operation its summary.
pub(super) fn costs_details(error: &LogError) -> bool {
    matches!(
        error,
        LogError::Compacted { .. }
            | LogError::Damaged { .. }
            | LogError::NewerRecord { .. }
            | LogError::KeyUnreadable { .. }
    )
}

/// What is damaged of an operation.
pub(super) fn damage_of(log: &Log, operation: OperationId) -> Option<String> {
    log.impaired()
        .into_iter()
        .find(|impaired| impaired.stream == operation.into())
        .map(|impaired| impaired.reason)
}

/// Damage as a finding.
pub(super) fn damaged(message: String) -> Warning {
    Warning { severity: Severity::Error, code: "damaged-log".to_owned(), object: None, origin: None, message }
}

/// What is left of an operation whose details cannot be read.
pub(super) fn of_summary(summary: &Summary, why: &LogError, at_work: Option<bool>) -> Inspected {
    let now = SystemClock.now();
    let compacted = matches!(why, LogError::Compacted { .. });
    let kept = compacted
        .then(|| SummaryDocument { at_work, ..SummaryDocument::from(&Listed::whole(summary.clone())) });
    let asker = Wisher::of_operation(&summary.initiated_by);
    let said = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let operation = OperationView {
        id: summary.operation,
        app: summary.application.clone(),
        phase: summary.phase,
        initiated_by: said(asker.by),
        reason: said(asker.reason),
        plan: None,
        message: summary.message.clone(),
        started_at: summary.started_at,
        finished_at: summary.finished_at,
        retry_count: 0,
        paused_by: None,
        terminated_by: None,
        waves: Vec::new(),
        resources: Vec::new(),
        hook_logs: Vec::new(),
        claim: None,
        deletion: None,
        dry_run: summary.dry_run,
        health_rules: None,
        warnings: if compacted { Vec::new() } else { vec![damaged(why.to_string())] },
    };
    let since = summary.finished_at.unwrap_or(summary.started_at);
    let ago = format_duration(Duration::from_secs(now.since(since).as_secs()));
    let position = match summary.finished_at {
        Some(_) => format!("{} {ago} ago", summary.phase),
        None => format!("begun {ago} ago, and {} when it was recorded last", summary.phase),
    };
    let details = if compacted { "its details were compacted".to_owned() } else { why.to_string() };
    let progress = format!("{}; {details}", summary.message);
    let explanation = Explanation { progress, ..Explanation::at(&position, now) };
    let explanation = ExplanationDocument::new(&operation, explanation, at_work);
    Inspected { operation, explanation, kept }
}

/// How an operation stands according to the log.
pub(super) fn read(log: &Log, operation: OperationId) -> Result<(OperationView, Explanation), ServiceError> {
    match log.load_as(operation) {
        Ok(loaded) => {
            let driver = Driver::recover(loaded.snapshot, loaded.facts)?;
            let view = view(driver.state()).ok_or(EngineError::Unknown { operation })?;
            Ok((view, explain(driver.state(), SystemClock.now())))
        }
        Err(error) => Err(error.into()),
    }
}
