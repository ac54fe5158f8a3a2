//! What happens to applications, as structured lines: one for each change of how an application stands.

use tidegate_application::operation;
use tidegate_application::sources::revisions;
use tidegate_model::argo::{Application, ApplicationCondition};

use super::store::AppKey;

/// Tells what is different now. Of an application that was not known before, all there is.
pub(crate) fn tell(key: &AppKey, before: Option<&Application>, now: &Application) {
    tell_operation(key, before, now);
    let status = |application: &Application| {
        let (sync, health) = (application.status.sync.as_ref(), application.status.health.as_ref());
        (sync.map(|sync| sync.status), health.map(|health| health.status))
    };
    let (was, is) = (before.map(status).unwrap_or_default(), status(now));
    if let (true, Some(sync)) = (was.0 != is.0, is.0) {
        let revision =
            now.status.sync.as_ref().map(|sync| told(&sync.revision, &sync.revisions)).unwrap_or_default();
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
        tracing::info!(application = %key, condition = %kind, message, "condition is over");
    }
}

fn told(revision: &str, several: &[String]) -> String {
    revisions(revision, several).join(" ")
}

fn tell_operation(key: &AppKey, before: Option<&Application>, now: &Application) {
    let under_way = |application: &Application| application.operation.as_ref().and_then(operation::id);
    let begun = under_way(now).filter(|id| before.and_then(under_way) != Some(*id));
    if let (Some(operation), Some(asked)) = (begun, &now.operation) {
        let by = asked.initiated_by.name();
        let revision =
            asked.sync.as_ref().map(|sync| told(&sync.revision, &sync.revisions)).unwrap_or_default();
        tracing::info!(application = %key, %operation, revision, by, "operation begun");
    }
    let ended = |application: &Application| {
        application.status.operation_state.clone().filter(|state| state.finished_at.is_some())
    };
    let Some(state) = ended(now).filter(|state| {
        before.and_then(ended).is_none_or(|before| {
            (operation::id(&before.operation), before.finished_at)
                != (operation::id(&state.operation), state.finished_at)
        })
    }) else {
        return;
    };
    let operation = operation::id(&state.operation).map(|id| id.to_string()).unwrap_or_default();
    let (phase, message) = (state.phase, state.message);
    if phase == tidegate_model::OperationPhase::Succeeded {
        tracing::info!(application = %key, operation, %phase, message, "operation ended");
    } else {
        tracing::warn!(application = %key, operation, %phase, message, "operation ended");
    }
}
