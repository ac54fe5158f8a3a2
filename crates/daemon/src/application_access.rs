//! Access to the Applications of a state directory, through the process that manages them or from their
//! stored state.

mod stored_appsets;

use tidegate_app_controller::DeletionOptions;
use tidegate_application::AppKey;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_model::{Plan, Warning};
use tidegate_state::error::ServiceError;
use tidegate_state::notices::Notices;
use tidegate_state::state_dir::StateDir;
use tidegate_state::summaries::{PlanSummary, SyncWindowSummary};
use tidegate_stores::applications::read_applications;
use tidegate_views::appset_actions::{AppSetDeletionPreview, AppSetExplanation};
use tidegate_views::deletion::DeletionPlan;
use tidegate_views::protocol::{Reply, Request};

use crate::control::client::{self, RequestOutcome};
use crate::operation_access::{check_reply, unexpected_reply_error};

pub use stored_appsets::{explain_or_stored_appset, list_or_stored_appsets};

/// Listed Applications, and problems with those that couldn't be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApplicationListing {
    /// Applications, sorted by name.
    pub applications: Vec<Application>,
    /// Problems with unreadable Applications.
    pub problems: Vec<String>,
}

/// Listed ApplicationSets, and problems with those that couldn't be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppSetListing {
    /// ApplicationSets, sorted by name.
    pub appsets: Vec<ApplicationSet>,
    /// Problems with unreadable ApplicationSets.
    pub problems: Vec<String>,
    /// Options that apply to all ApplicationSets.
    pub options: AppSetRuleOptions,
}

fn no_process_error(state_dir: &StateDir) -> ServiceError {
    let place = state_dir.path().display();
    ServiceError::refused(format!(
        "no `tidegate serve` is running in {place}; start it, or use another --state-dir"
    ))
}

/// Returns the response from the running process, or `None` if no process is running.
async fn request_reply(state_dir: &StateDir, request: &Request) -> Result<Option<Reply>, ServiceError> {
    match client::send_request(&state_dir.socket(), request).await? {
        RequestOutcome::Reply(reply) => check_reply(reply).map(Some),
        RequestOutcome::NoProcess => Ok(None),
        RequestOutcome::NoResponse => {
            Err(ServiceError::NoResponse { state_dir: state_dir.path().to_path_buf() })
        }
    }
}

/// Sends a request to the running process, and returns once the process has stored it durably.
pub async fn send_request(state_dir: &StateDir, request: &Request) -> Result<(), ServiceError> {
    match request_reply(state_dir, request).await? {
        Some(Reply::Done) => Ok(()),
        Some(other) => Err(unexpected_reply_error(&other)),
        None => Err(no_process_error(state_dir)),
    }
}

/// Gets the Applications named `name`, or all Applications, from the running process. Returns `None` if no
/// process is running.
pub async fn query_running(
    state_dir: &StateDir,
    name: Option<&str>,
) -> Result<Option<ApplicationListing>, ServiceError> {
    let request = Request::Applications { name: name.map(str::to_owned) };
    match request_reply(state_dir, &request).await? {
        Some(Reply::Applications { applications, problems }) => {
            Ok(Some(ApplicationListing { applications, problems }))
        }
        Some(other) => Err(unexpected_reply_error(&other)),
        None => Ok(None),
    }
}

/// Asks the running process for the changes that syncing an Application would make. `revisions` has one
/// revision per source, or is empty for the Application's own revisions.
pub async fn diff_application(
    state_dir: &StateDir,
    name: String,
    mut revisions: Vec<String>,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
    // Earlier versions of Tidegate only read `revision`, so send a single revision there.
    let revision = if revisions.len() == 1 { revisions.pop() } else { None };
    request_differences(state_dir, &Request::DiffApplication { name, revision, revisions }).await
}

/// Returns the changes that an Application's stored plan would make now.
pub async fn diff_plan(
    state_dir: &StateDir,
    name: String,
    hash: String,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
    request_differences(state_dir, &Request::DiffPlan { name, hash }).await
}

async fn request_differences(
    state_dir: &StateDir,
    request: &Request,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
    match request_reply(state_dir, request).await? {
        Some(Reply::Differences { objects, findings }) => Ok((objects, findings)),
        Some(other) => Err(unexpected_reply_error(&other)),
        None => Err(no_process_error(state_dir)),
    }
}

/// Returns a preview of an Application's deletion.
pub async fn plan_application_deletion(
    state_dir: &StateDir,
    name: String,
    options: DeletionOptions,
) -> Result<DeletionPlan, ServiceError> {
    let DeletionOptions { cascade, no_hooks } = options;
    match request_reply(state_dir, &Request::PlanDeletion { name, cascade, no_hooks }).await? {
        Some(Reply::DeletionPlan(plan)) => Ok(*plan),
        Some(other) => Err(unexpected_reply_error(&other)),
        None => Err(no_process_error(state_dir)),
    }
}

/// Sends a query or request for stored plans, and returns the plans.
pub async fn request_plans(
    state_dir: &StateDir,
    request: &Request,
) -> Result<Vec<PlanSummary>, ServiceError> {
    match request_reply(state_dir, request).await? {
        Some(Reply::Plans(lines)) => Ok(lines),
        Some(other) => Err(unexpected_reply_error(&other)),
        None => Err(no_process_error(state_dir)),
    }
}

/// Returns a stored plan or creates a new one, depending on the request.
pub async fn request_plan(
    state_dir: &StateDir,
    request: &Request,
) -> Result<(PlanSummary, Plan), ServiceError> {
    match request_reply(state_dir, request).await? {
        Some(Reply::Plan { line, plan }) => Ok((*line, *plan)),
        Some(other) => Err(unexpected_reply_error(&other)),
        None => Err(no_process_error(state_dir)),
    }
}

/// Returns an Application's current sync windows. `None` if no process is running or its version of Tidegate
/// doesn't know the query.
pub async fn sync_windows(state_dir: &StateDir, name: String) -> Option<SyncWindowSummary> {
    match request_reply(state_dir, &Request::SyncWindow { name }).await {
        Ok(Some(Reply::SyncWindow(line))) => Some(line),
        _ => None,
    }
}

/// Like [`query_running`], but fails if no process is running.
pub async fn list_managed(
    state_dir: &StateDir,
    name: Option<&str>,
) -> Result<ApplicationListing, ServiceError> {
    query_running(state_dir, name).await?.ok_or_else(|| no_process_error(state_dir))
}

/// Like [`list_managed`], but if no process responds, shows a notice and returns the last stored state.
pub async fn list_or_stored(
    state_dir: &StateDir,
    notices: &dyn Notices,
    name: Option<&str>,
) -> Result<ApplicationListing, ServiceError> {
    let refused = match list_managed(state_dir, name).await {
        Err(error @ (ServiceError::Refused { .. } | ServiceError::NoResponse { .. })) => error,
        answer => return answer,
    };
    let mut applications = read_applications(&state_dir.applications())?;
    if applications.is_empty() {
        return Err(refused);
    }
    name.iter().for_each(|name| AppKey::retain_resolved(&mut applications, AppKey::of, name));
    notices.note(&format!(
        "{}; showing the last recorded status of the applications",
        stored_state_reason(&refused)
    ));
    Ok(ApplicationListing { applications, problems: Vec::new() })
}

/// Returns the reason for showing the stored state.
fn stored_state_reason(refused: &ServiceError) -> &'static str {
    match refused {
        ServiceError::NoResponse { .. } => "`tidegate serve` is not responding",
        _ => "no `tidegate serve` is running in this state directory",
    }
}

/// Gets the matching ApplicationSets, or all ApplicationSets, from the running process.
pub async fn list_appsets(state_dir: &StateDir, name: Option<&str>) -> Result<AppSetListing, ServiceError> {
    let request = Request::ApplicationSets { name: name.map(str::to_owned) };
    match request_reply(state_dir, &request).await? {
        Some(Reply::ApplicationSets { sets, problems, options }) => {
            Ok(AppSetListing { appsets: sets, problems, options })
        }
        Some(other) => Err(unexpected_reply_error(&other)),
        None => Err(no_process_error(state_dir)),
    }
}

/// Explains the status of an ApplicationSet.
pub async fn explain_appset(state_dir: &StateDir, name: String) -> Result<AppSetExplanation, ServiceError> {
    match request_reply(state_dir, &Request::ExplainApplicationSet { name }).await? {
        Some(Reply::ApplicationSet(explanation)) => Ok(*explanation),
        Some(other) => Err(unexpected_reply_error(&other)),
        None => Err(no_process_error(state_dir)),
    }
}

/// Returns a preview of an ApplicationSet's deletion, including the order in which its Applications would be
/// deleted.
pub async fn plan_appset_deletion(
    state_dir: &StateDir,
    name: String,
) -> Result<AppSetDeletionPreview, ServiceError> {
    match request_reply(state_dir, &Request::PlanApplicationSetDeletion { name }).await? {
        Some(Reply::Deletion(view)) => Ok(*view),
        Some(other) => Err(unexpected_reply_error(&other)),
        None => Err(no_process_error(state_dir)),
    }
}
