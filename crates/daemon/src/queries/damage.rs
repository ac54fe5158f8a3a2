//! Remains of an operation with a damaged or compacted log.

use std::time::Duration;

use tidegate_executor::{Clock as _, EngineError, Summary, SystemClock};
use tidegate_lifecycle::operation::{Driver, Explanation, OperationView, explain, summary_action, view};
use tidegate_model::{OperationId, OperationOutcome, Requester, Severity, Warning, format_duration};
use tidegate_oplog::{Log, LogError, TypedLog as _};
use tidegate_state::error::ServiceError;
use tidegate_state::operations::OperationEntry;

use tidegate_views::protocol::OperationDetails;
use tidegate_views::{ExplanationDocument, SummaryDocument};

/// Returns true if an error affects only an operation's details, not its summary.
pub(super) fn affects_only_details(error: &LogError) -> bool {
    matches!(
        error,
        LogError::Compacted { .. }
            | LogError::Damaged { .. }
            | LogError::NewerRecord { .. }
            | LogError::KeyUnreadable { .. }
    )
}

/// Returns the damage to an operation's log, if any.
pub(super) fn find_damage(log: &Log, operation: OperationId) -> Option<String> {
    log.impaired_streams()
        .into_iter()
        .find(|impaired| impaired.stream == operation.into())
        .map(|impaired| impaired.reason)
}

/// Converts damage to a warning.
pub(super) fn damage_warning(message: String) -> Warning {
    Warning { severity: Severity::Error, code: "damaged-log".to_owned(), object: None, origin: None, message }
}

/// Returns what is left of an operation with unreadable details.
pub(super) fn details_from_summary(
    summary: &Summary,
    reason: &LogError,
    at_work: Option<bool>,
) -> OperationDetails {
    let now = SystemClock.now();
    let compacted = matches!(reason, LogError::Compacted { .. });
    let known_summary = compacted.then(|| SummaryDocument {
        is_running: at_work,
        ..SummaryDocument::from(&OperationEntry::from_summary(summary.clone()))
    });
    let requester = Requester::from_operation(&summary.initiated_by);
    let non_empty = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let outcome = OperationOutcome::from_phase(summary.phase, &summary.message);
    let operation = OperationView {
        id: summary.operation,
        app: summary.application.clone(),
        phase: summary.phase,
        outcome,
        initiated_by: non_empty(requester.name),
        reason: non_empty(requester.reason),
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
        warnings: if compacted { Vec::new() } else { vec![damage_warning(reason.to_string())] },
    };
    let since = summary.finished_at.unwrap_or(summary.started_at);
    let ago = format_duration(Duration::from_secs(now.since(since).as_secs()));
    let position = match summary.finished_at {
        Some(_) => format!("{outcome} {ago} ago"),
        None => format!("started {ago} ago, last recorded as {}", summary.phase),
    };
    let details = if compacted { "its details were compacted".to_owned() } else { reason.to_string() };
    let progress = format!("{}; {details}", summary.message);
    let action = summary_action(summary.operation, &summary.application, summary.phase, &summary.message);
    let explanation = Explanation { progress, action, ..Explanation::new(&position, now) };
    let explanation = ExplanationDocument::new(&operation, explanation, at_work);
    OperationDetails { operation, explanation, summary: known_summary }
}

/// Reads an operation's status from the log.
pub(super) fn read_status(
    log: &Log,
    operation: OperationId,
) -> Result<(OperationView, Explanation), ServiceError> {
    match log.load_as(operation) {
        Ok(loaded) => {
            let driver = Driver::recover(loaded.snapshot, loaded.events)?;
            let view = view(driver.state()).ok_or(EngineError::UnknownOperation { operation })?;
            Ok((view, explain(driver.state(), SystemClock.now())))
        }
        Err(error) => Err(error.into()),
    }
}
