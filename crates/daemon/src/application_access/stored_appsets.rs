//! Last known state of ApplicationSets, from the state directory and the log, for when no service is running.

use tidegate_application::AppKey;
use tidegate_applicationset::rollout::qualified_name;
use tidegate_lifecycle::NextAction;
use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSet;
use tidegate_state::error::ServiceError;
use tidegate_state::notices::Notices;
use tidegate_state::state_dir::StateDir;
use tidegate_stores::applications::state_files;
use tidegate_views::appset_actions::AppSetExplanation;
use tidegate_views::runs::{RunDetails, RunKind, RunSummary};

use super::{AppSetListing, stored_state_reason};
use crate::operation_access;

/// Like [`list_appsets`](super::list_appsets), but if no service responds, shows a notice and returns the
/// last known state.
///
/// # Errors
///
/// Returns an error if no service responds and no ApplicationSets are stored.
pub async fn list_or_stored_appsets(
    state_dir: &StateDir,
    notices: &dyn Notices,
    name: Option<&str>,
) -> Result<AppSetListing, ServiceError> {
    let refused = match super::list_appsets(state_dir, name).await {
        Err(error @ (ServiceError::Refused { .. } | ServiceError::NoResponse { .. })) => error,
        answer => return answer,
    };
    let mut appsets = state_files::read_all::<ApplicationSet>(&state_dir.application_sets())?;
    if appsets.is_empty() {
        return Err(no_stored_state_error(state_dir, refused));
    }
    appsets.sort_by_key(AppKey::of_appset);
    name.iter().for_each(|name| AppKey::retain_resolved(&mut appsets, AppKey::of_appset, name));
    notices.note(&format!(
        "{}; showing the last recorded status of the ApplicationSets",
        stored_state_reason(&refused)
    ));
    Ok(AppSetListing { appsets, ..AppSetListing::default() })
}

/// Explains the status of an ApplicationSet, identified by its full name. Asks the running service like
/// [`explain_appset`](super::explain_appset) or, without it, explains the newest rollout and deletion in the
/// log.
///
/// # Errors
///
/// Returns an error if no service is running and no state is stored, or if the log is unreadable.
pub async fn explain_or_stored_appset(
    state_dir: &StateDir,
    notices: &dyn Notices,
    name: &str,
) -> Result<AppSetExplanation, ServiceError> {
    let refused = match super::explain_appset(state_dir, name.to_owned()).await {
        Err(error @ (ServiceError::Refused { .. } | ServiceError::NoResponse { .. })) => error,
        answer => return answer,
    };
    let mut sets = state_files::read_all::<ApplicationSet>(&state_dir.application_sets())?;
    AppKey::retain_resolved(&mut sets, AppKey::of_appset, name);
    let Some(set) = sets.into_iter().next() else {
        return Err(refused);
    };
    // Ignore runs of an earlier ApplicationSet of the same name.
    let made_at = set.metadata.creation_timestamp.map(|at| at.timestamp()).unwrap_or_default();
    let mut lines = operation_access::list_runs(state_dir, notices, Some(&qualified_name(&set))).await?;
    lines.retain(|line| line.damage.is_none() && line.started_at >= made_at);
    let rollout = newest_run(state_dir, notices, &lines, RunKind::Rollout).await?;
    let teardown = newest_run(state_dir, notices, &lines, RunKind::Deletion).await?;
    Ok(explain_stored(&set, rollout, teardown))
}

async fn newest_run(
    state_dir: &StateDir,
    notices: &dyn Notices,
    lines: &[RunSummary],
    kind: RunKind,
) -> Result<Option<RunDetails>, ServiceError> {
    let Some(line) = lines.iter().rfind(|line| line.kind == kind) else { return Ok(None) };
    Ok(Some(operation_access::find_run(state_dir, notices, &line.id.to_string()).await?.run))
}

/// Explains an ApplicationSet based on its newest rollout and deletion.
fn explain_stored(
    set: &ApplicationSet,
    rollout: Option<RunDetails>,
    teardown: Option<RunDetails>,
) -> AppSetExplanation {
    let id = |run: &Option<RunDetails>| run.as_ref().map(|run| run.line.id);
    let (rollout_id, teardown_id) = (id(&rollout), id(&teardown));
    let is_open = |run: &&RunDetails| run.line.finished_at.is_none();
    // Unfinished runs take precedence over finished ones, and newer runs over older ones.
    let open = teardown.as_ref().filter(is_open).or(rollout.as_ref().filter(is_open));
    let selected = open.or_else(|| [&rollout, &teardown].into_iter().flatten().max_by_key(|run| run.line.id));
    let error = set.status.conditions.iter().find(|one| one.kind == "ErrorOccurred" && one.status == "True");
    let text = selected.map_or_else(|| "no rollout or deletion is recorded".to_owned(), describe_run);
    let line = error.iter().fold(text, |line, error| format!("{line}; {}", error.message));
    let next_action = match open.and_then(|run| run.explanation.as_ref()) {
        Some(_) => {
            NextAction::change("start `tidegate serve` with the same options as before to continue the run")
        }
        None => selected.map_or_else(NextAction::default, next_action_after_end),
    };
    AppSetExplanation {
        set: AppKey::of_appset(set).to_string(),
        line: line.split_whitespace().collect::<Vec<_>>().join(" "),
        explanation: selected.and_then(|run| run.explanation.clone()),
        outside: selected.and_then(|run| Some(run.explanation.as_ref()?.outside.clone())).unwrap_or_default(),
        rollout: rollout.and_then(|run| run.rollout),
        rollout_id,
        teardown: teardown.and_then(|run| run.deletion),
        teardown_id,
        next_action,
        ..AppSetExplanation::default()
    }
}

/// Returns the next action after a finished run.
fn next_action_after_end(run: &RunDetails) -> NextAction {
    match (run.line.end.as_deref(), &run.line.set) {
        (Some("Completed" | "Superseded") | None, _) | (_, None) => {
            NextAction::nothing("`tidegate serve` will apply the next change")
        }
        (Some(_), Some(set)) => NextAction::change("start `tidegate serve` with the same options as before")
            .or(&format!("then restart the run with `tidegate appset retry {set}`")),
    }
}

fn describe_run(run: &RunDetails) -> String {
    let (line, kind) = (&run.line, run.line.kind.word());
    let at = |at: Option<Timestamp>| at.map(|at| format!(" at {at}")).unwrap_or_default();
    match (&run.explanation, &line.end) {
        (Some(explanation), _) => {
            format!("the {kind} is unfinished, and no process is running it: {explanation}")
        }
        (None, Some(end)) => {
            format!("the last {kind} ended{} ({end}): {}", at(line.finished_at), line.message)
        }
        (None, None) => line.message.clone(),
    }
}

/// Returns the error for missing stored state, with alternatives.
fn no_stored_state_error(state_dir: &StateDir, refused: ServiceError) -> ServiceError {
    let ServiceError::Refused { .. } = refused else { return refused };
    let place = state_dir.path().display();
    ServiceError::refused(format!(
        "no `tidegate serve` is running in {place}, and no ApplicationSet is recorded there; start it, or \
         use another --state-dir. `tidegate appset runs` lists the recorded rollouts and deletions, and \
         `tidegate ops list` lists the operations"
    ))
}
