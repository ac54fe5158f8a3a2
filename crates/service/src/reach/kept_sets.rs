//! ApplicationSets where nobody serves them: as they stood last, by what the state directory has kept and the log has recorded.

use tidegate_applicationset::rollout::full_name;
use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSet;

use super::{ReachedSets, unserved};
use crate::applications::store::{AppKey, kept};
use crate::documents::runs::{RunDocument, RunKind, RunLine};
use crate::error::ServiceError;
use crate::notices::Notices;
use crate::route;
use crate::sets::SetExplanation;
use crate::state_dir::StateDir;

/// As [`sets`](super::sets); where nobody serves them, as they stood last, and that is told.
///
/// # Errors
///
/// Nobody serves them, and nothing is kept of any; or whoever does cannot be asked.
pub async fn find_sets(
    state_dir: &StateDir,
    notices: &dyn Notices,
    name: Option<&str>,
) -> Result<ReachedSets, ServiceError> {
    let refused = match super::sets(state_dir, name).await {
        Err(error @ (ServiceError::Refused { .. } | ServiceError::Silent { .. })) => error,
        answer => return answer,
    };
    let mut sets = kept::all::<ApplicationSet>(&state_dir.application_sets())?;
    if sets.is_empty() {
        return Err(nothing_kept(state_dir, refused));
    }
    sets.sort_by_key(AppKey::of_set);
    sets.retain(|one| name.is_none_or(|name| AppKey::of_set(one).is_meant(name)));
    notices.note(&format!("{}; this is how the ApplicationSets stood last", unserved(&refused)));
    Ok(ReachedSets { sets, ..ReachedSets::default() })
}

/// As [`explain_set`](super::explain_set) of a set by its full name; where nobody serves it, by its newest rollout and deletion in
/// the log.
///
/// # Errors
///
/// Nobody serves it, and nothing is kept of it; or the log cannot be read.
pub async fn find_explanation(
    state_dir: &StateDir,
    notices: &dyn Notices,
    name: &str,
) -> Result<SetExplanation, ServiceError> {
    let refused = match super::explain_set(state_dir, name.to_owned()).await {
        Err(error @ (ServiceError::Refused { .. } | ServiceError::Silent { .. })) => error,
        answer => return answer,
    };
    let sets = kept::all::<ApplicationSet>(&state_dir.application_sets())?;
    let Some(set) = sets.into_iter().find(|one| AppKey::of_set(one).is_meant(name)) else {
        return Err(refused);
    };
    // One that was made again under its name has nothing to do with what was before.
    let made_at = set.metadata.creation_timestamp.map(|at| at.moment()).unwrap_or_default();
    let mut lines = route::run_list(state_dir, notices, Some(&full_name(&set))).await?;
    lines.retain(|line| line.damage.is_none() && line.started_at >= made_at);
    let rollout = newest(state_dir, notices, (&lines, RunKind::Rollout)).await?;
    let teardown = newest(state_dir, notices, (&lines, RunKind::Deletion)).await?;
    Ok(explanation(&set, rollout, teardown))
}

async fn newest(
    state_dir: &StateDir,
    notices: &dyn Notices,
    (lines, kind): (&[RunLine], RunKind),
) -> Result<Option<RunDocument>, ServiceError> {
    let Some(line) = lines.iter().rfind(|line| line.kind == kind) else { return Ok(None) };
    Ok(Some(route::run(state_dir, notices, &line.id.to_string()).await?.run))
}

/// What is said of a set by its newest rollout and deletion.
fn explanation(
    set: &ApplicationSet,
    rollout: Option<RunDocument>,
    teardown: Option<RunDocument>,
) -> SetExplanation {
    let id = |run: &Option<RunDocument>| run.as_ref().map(|run| run.line.id);
    let (rollout_id, teardown_id) = (id(&rollout), id(&teardown));
    let is_open = |run: &&RunDocument| run.line.finished_at.is_none();
    // What is under way says more than what is over, and what is newer than what is older.
    let open = teardown.as_ref().filter(is_open).or(rollout.as_ref().filter(is_open));
    let told = open.or_else(|| [&rollout, &teardown].into_iter().flatten().max_by_key(|run| run.line.id));
    let error = set.status.conditions.iter().find(|one| one.kind == "ErrorOccurred" && one.status == "True");
    let words = told.map_or_else(|| "no rollout and no deletion of it is recorded".to_owned(), words);
    let line = error.iter().fold(words, |line, error| format!("{line}; {}", error.message));
    SetExplanation {
        set: AppKey::of_set(set).to_string(),
        line: line.split_whitespace().collect::<Vec<_>>().join(" "),
        explanation: told.and_then(|run| run.explanation.clone()),
        outside: told.and_then(|run| Some(run.explanation.as_ref()?.outside.clone())).unwrap_or_default(),
        rollout: rollout.and_then(|run| run.rollout),
        rollout_id,
        teardown: teardown.and_then(|run| run.deletion),
        teardown_id,
        ..SetExplanation::default()
    }
}

fn words(run: &RunDocument) -> String {
    let (line, kind) = (&run.line, run.line.kind.word());
    let at = |at: Option<Timestamp>| at.map(|at| format!(" at {at}")).unwrap_or_default();
    match (&run.explanation, &line.end) {
        (Some(explanation), _) => {
            format!("its {kind} is not over, and nobody is at work on it: {explanation}")
        }
        (None, Some(end)) => {
            format!("its last {kind} has ended{} ({end}): {}", at(line.finished_at), line.message)
        }
        (None, None) => line.message.clone(),
    }
}

/// There is nothing to be shown; what else may be looked at is said.
fn nothing_kept(state_dir: &StateDir, refused: ServiceError) -> ServiceError {
    let ServiceError::Refused { .. } = refused else { return refused };
    let place = state_dir.path().display();
    ServiceError::refused(format!(
        "no `tidegate serve` is at work in {place}, and nothing of ApplicationSets is kept there; start one, or name another --state-dir. `tidegate appset runs` shows the rollouts and deletions that are recorded here, `tidegate ops list` the operations"
    ))
}
