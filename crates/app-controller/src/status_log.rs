//! Structured log of changes to Applications' statuses, with one line for each change.

use tidegate_application::operation;
use tidegate_application::sources::revisions_of_fields;
use tidegate_model::argo::{Application, ApplicationCondition, OperationState};
use tidegate_model::{OperationOutcome, OperationPhase};
use tracing::Level;

use tidegate_application::AppKey;

/// Logs the differences. For an Application's first state, logs the status and the conditions, but not the
/// end of its last operation.
pub fn log_changes(key: &AppKey, before: Option<&Application>, now: &Application) {
    log_operation(key, before, now);
    let status = |application: &Application| {
        let (sync, health) = (application.status.sync.as_ref(), application.status.health.as_ref());
        (sync.map(|sync| sync.status), health.map(|health| health.status))
    };
    let (was, is) = (before.map(status).unwrap_or_default(), status(now));
    if let (true, Some(sync)) = (was.0 != is.0, is.0) {
        let revision = now
            .status
            .sync
            .as_ref()
            .map(|sync| format_revisions(&sync.revision, &sync.revisions))
            .unwrap_or_default();
        tracing::info!(application = %key, %sync, revision, "sync status changed");
    }
    if let (true, Some(health)) = (was.1 != is.1, is.1) {
        tracing::info!(application = %key, ?health, "health changed");
    }
    let conditions = |application: Option<&Application>| {
        application.map(|one| one.status.conditions.clone()).unwrap_or_default()
    };
    let (had, has) = (conditions(before), conditions(Some(now)));
    let is_in = |all: &[ApplicationCondition], one: &ApplicationCondition| {
        all.iter().any(|other| (&other.kind, &other.message) == (&one.kind, &one.message))
    };
    for ApplicationCondition { kind, message, .. } in has.iter().filter(|one| !is_in(&had, one)) {
        if kind.is_error() {
            tracing::warn!(application = %key, condition = %kind, message, "condition");
        } else {
            tracing::info!(application = %key, condition = %kind, message, "condition");
        }
    }
    for ApplicationCondition { kind, message, .. } in had.iter().filter(|one| !is_in(&has, one)) {
        tracing::info!(application = %key, condition = %kind, message, "condition cleared");
    }
}

fn format_revisions(revision: &str, several: &[String]) -> String {
    revisions_of_fields(revision, several).join(" ")
}

fn log_operation(key: &AppKey, before: Option<&Application>, now: &Application) {
    let running_id =
        |application: &Application| application.operation.as_ref().and_then(operation::engine_id);
    let begun = running_id(now).filter(|id| before.and_then(running_id) != Some(*id));
    if let (Some(operation), Some(request)) = (begun, &now.operation) {
        let by = request.initiated_by.name();
        let revision = request
            .sync
            .as_ref()
            .map(|sync| format_revisions(&sync.revision, &sync.revisions))
            .unwrap_or_default();
        tracing::info!(application = %key, %operation, revision, by, "operation started");
    }
    let Some(state) = newly_ended_operation(before, now) else { return };
    let operation = operation::engine_id(&state.operation).map(|id| id.to_string()).unwrap_or_default();
    let message = &state.message;
    let (phase, level) = ending(state.phase, message);
    if level == Level::WARN {
        tracing::warn!(application = %key, operation, %phase, message, "operation ended");
    } else {
        tracing::info!(application = %key, operation, %phase, message, "operation ended");
    }
}

/// Returns the outcome of a finished operation, and the level at which to log it.
fn ending(phase: OperationPhase, message: &str) -> (OperationOutcome, Level) {
    let outcome = OperationOutcome::from_phase(phase, message);
    (outcome, if outcome.is_unsuccessful() { Level::WARN } else { Level::INFO })
}

/// Returns the operation that has finished since `before`. Without a previous state, returns `None`, because
/// the process that ran the operation has already logged it.
fn newly_ended_operation(before: Option<&Application>, now: &Application) -> Option<OperationState> {
    let ended = |application: &Application| {
        application.status.operation_state.clone().filter(|state| state.finished_at.is_some())
    };
    let which = |state: &OperationState| (operation::engine_id(&state.operation), state.finished_at);
    let before = ended(before?);
    ended(now).filter(|state| before.as_ref().map(which) != Some(which(state)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;
    use tidegate_model::SUPERSEDED_PREFIX;

    use super::*;

    fn application_with_end(finished_at: Option<&str>) -> Application {
        let mut application = Application::default();
        let state = json!({
            "operation": {}, "phase": if finished_at.is_some() { "Failed" } else { "Running" },
            "startedAt": "2026-01-01T00:00:00Z", "finishedAt": finished_at,
        });
        application.status.operation_state = Some(serde_json::from_value(state).unwrap());
        application
    }

    #[test]
    fn the_end_of_an_operation_is_logged_by_the_process_that_saw_it() {
        let (first, second) = (
            application_with_end(Some("2026-01-01T00:00:01Z")),
            application_with_end(Some("2026-01-01T00:00:02Z")),
        );
        let phase = |before: Option<&Application>, now: &Application| {
            newly_ended_operation(before, now).map(|state| state.phase)
        };
        assert_eq!(phase(None, &first), None, "an earlier process has already logged it");
        assert_eq!(phase(Some(&first), &first), None);
        assert_eq!(phase(Some(&application_with_end(None)), &first), Some(OperationPhase::Failed));
        assert_eq!(phase(Some(&Application::default()), &first), Some(OperationPhase::Failed));
        assert_eq!(phase(Some(&first), &second), Some(OperationPhase::Failed));
        assert_eq!(phase(Some(&first), &application_with_end(None)), None);
    }

    #[test]
    fn only_the_end_of_a_failed_operation_is_a_warning() {
        let superseded = format!("{SUPERSEDED_PREFIX}a sync of ann");
        for (phase, message, expected) in [
            (OperationPhase::Succeeded, "successfully synced", (OperationOutcome::Succeeded, Level::INFO)),
            (OperationPhase::Failed, &superseded, (OperationOutcome::Superseded, Level::INFO)),
            (OperationPhase::Failed, "Operation terminated", (OperationOutcome::Failed, Level::WARN)),
            (OperationPhase::Error, "it broke", (OperationOutcome::Error, Level::WARN)),
        ] {
            assert_eq!(ending(phase, message), expected, "{message}");
        }
    }
}
