//! Reaching the applications of a state directory: through the process that serves them, or in what it has kept.

mod kept_sets;

use tidegate_applicationset::policy::Options;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_model::{Cascade, Plan, Warning};

use crate::applications::store::{AppKey, kept_applications};
use crate::control::client::{self, Asked};
use crate::control::protocol::{Reply, Request};
use crate::documents::deletion::DeletionPlan;
use crate::error::ServiceError;
use crate::lines::{PlanLine, WindowLine};
use crate::notices::Notices;
use crate::route::{accept, unexpected};
use crate::sets::{SetDeletion, SetExplanation};
use crate::state_dir::StateDir;

pub use kept_sets::{find_explanation, find_sets};

/// Applications, and what could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reached {
    /// By name.
    pub applications: Vec<Application>,
    /// What cannot be read and belongs to none.
    pub problems: Vec<String>,
}

/// ApplicationSets, and what could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReachedSets {
    /// By name.
    pub sets: Vec<ApplicationSet>,
    /// What cannot be read and belongs to none.
    pub problems: Vec<String>,
    /// What is decided for all of them.
    pub options: Options,
}

fn nobody(state_dir: &StateDir) -> ServiceError {
    let place = state_dir.path().display();
    ServiceError::refused(format!(
        "no `tidegate serve` is at work in {place}; start one, or name another --state-dir"
    ))
}

/// The answer of the process at work; nothing where none is.
async fn answer(state_dir: &StateDir, request: &Request) -> Result<Option<Reply>, ServiceError> {
    match client::ask(&state_dir.socket(), request).await? {
        Asked::Answered(reply) => accept(reply).map(Some),
        Asked::Nobody => Ok(None),
        Asked::Silent => Err(ServiceError::Silent { state_dir: state_dir.path().to_path_buf() }),
    }
}

/// Tells the process at work what to do. Returns when that is durable.
pub async fn tell(state_dir: &StateDir, request: &Request) -> Result<(), ServiceError> {
    match answer(state_dir, request).await? {
        Some(Reply::Done) => Ok(()),
        Some(other) => Err(unexpected(&other)),
        None => Err(nobody(state_dir)),
    }
}

/// Applications as the process at work knows them: all, or those that are meant. Nothing where no process is at work.
pub async fn look(state_dir: &StateDir, name: Option<&str>) -> Result<Option<Reached>, ServiceError> {
    let request = Request::Applications { name: name.map(str::to_owned) };
    match answer(state_dir, &request).await? {
        Some(Reply::Applications { applications, problems }) => Ok(Some(Reached { applications, problems })),
        Some(other) => Err(unexpected(&other)),
        None => Ok(None),
    }
}

/// What a sync of an application would change, to the revisions that are named, one for each source, or to its own, as the
/// process at work finds it.
pub async fn diff(
    state_dir: &StateDir,
    name: String,
    mut revisions: Vec<String>,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
    // One alone is said as earlier services know it.
    let revision = if revisions.len() == 1 { revisions.pop() } else { None };
    differences(state_dir, &Request::DiffApplication { name, revision, revisions }).await
}

/// What a kept plan of an application would change now.
pub async fn diff_plan(
    state_dir: &StateDir,
    name: String,
    hash: String,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
    differences(state_dir, &Request::DiffPlan { name, hash }).await
}

async fn differences(
    state_dir: &StateDir,
    request: &Request,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
    match answer(state_dir, request).await? {
        Some(Reply::Differences { objects, findings }) => Ok((objects, findings)),
        Some(other) => Err(unexpected(&other)),
        None => Err(nobody(state_dir)),
    }
}

/// What the deletion of an application would do.
pub async fn plan_application_deletion(
    state_dir: &StateDir,
    name: String,
    cascade: Cascade,
) -> Result<DeletionPlan, ServiceError> {
    match answer(state_dir, &Request::PlanDeletion { name, cascade }).await? {
        Some(Reply::DeletionPlan(plan)) => Ok(*plan),
        Some(other) => Err(unexpected(&other)),
        None => Err(nobody(state_dir)),
    }
}

/// A question about kept plans, or a wish for one, and the lines that answer it.
pub async fn plans(state_dir: &StateDir, request: &Request) -> Result<Vec<PlanLine>, ServiceError> {
    match answer(state_dir, request).await? {
        Some(Reply::Plans(lines)) => Ok(lines),
        Some(other) => Err(unexpected(&other)),
        None => Err(nobody(state_dir)),
    }
}

/// A kept plan, or one that is made.
pub async fn plan(state_dir: &StateDir, request: &Request) -> Result<(PlanLine, Plan), ServiceError> {
    match answer(state_dir, request).await? {
        Some(Reply::Plan { line, plan }) => Ok((*line, *plan)),
        Some(other) => Err(unexpected(&other)),
        None => Err(nobody(state_dir)),
    }
}

/// Whether sync windows let an application be synced now; nothing where no process is at work, or an older one.
pub async fn window(state_dir: &StateDir, name: String) -> Option<WindowLine> {
    match answer(state_dir, &Request::SyncWindow { name }).await {
        Ok(Some(Reply::SyncWindow(line))) => Some(line),
        _ => None,
    }
}

/// As [`look`]; that no process is at work is an error.
pub async fn ask(state_dir: &StateDir, name: Option<&str>) -> Result<Reached, ServiceError> {
    look(state_dir, name).await?.ok_or_else(|| nobody(state_dir))
}

/// As [`ask`]; where nobody serves them, as they were last, and that is told.
pub async fn find(
    state_dir: &StateDir,
    notices: &dyn Notices,
    name: Option<&str>,
) -> Result<Reached, ServiceError> {
    let refused = match ask(state_dir, name).await {
        Err(error @ (ServiceError::Refused { .. } | ServiceError::Silent { .. })) => error,
        answer => return answer,
    };
    let mut applications = kept_applications(&state_dir.applications())?;
    if applications.is_empty() {
        return Err(refused);
    }
    applications.retain(|one| name.is_none_or(|name| AppKey::of(one).is_meant(name)));
    notices.note(&format!("{}; this is how the applications stood last", unserved(&refused)));
    Ok(Reached { applications, problems: Vec::new() })
}

/// Why what was kept is shown.
fn unserved(refused: &ServiceError) -> &'static str {
    match refused {
        ServiceError::Silent { .. } => "the `tidegate serve` at work here does not answer",
        _ => "no `tidegate serve` is at work here",
    }
}

/// ApplicationSets as the process at work knows them: all, or those that are meant.
pub async fn sets(state_dir: &StateDir, name: Option<&str>) -> Result<ReachedSets, ServiceError> {
    let request = Request::ApplicationSets { name: name.map(str::to_owned) };
    match answer(state_dir, &request).await? {
        Some(Reply::ApplicationSets { sets, problems, options }) => {
            Ok(ReachedSets { sets, problems, options })
        }
        Some(other) => Err(unexpected(&other)),
        None => Err(nobody(state_dir)),
    }
}

/// Where an ApplicationSet stands, and why.
pub async fn explain_set(state_dir: &StateDir, name: String) -> Result<SetExplanation, ServiceError> {
    match answer(state_dir, &Request::ExplainApplicationSet { name }).await? {
        Some(Reply::ApplicationSet(explanation)) => Ok(*explanation),
        Some(other) => Err(unexpected(&other)),
        None => Err(nobody(state_dir)),
    }
}

/// In which order the Applications of an ApplicationSet would be deleted with it.
pub async fn plan_deletion(state_dir: &StateDir, name: String) -> Result<SetDeletion, ServiceError> {
    match answer(state_dir, &Request::PlanApplicationSetDeletion { name }).await? {
        Some(Reply::Deletion(view)) => Ok(*view),
        Some(other) => Err(unexpected(&other)),
        None => Err(nobody(state_dir)),
    }
}
