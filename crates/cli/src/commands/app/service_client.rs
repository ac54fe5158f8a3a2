//! API client for applications, connected to the process in a state directory or to a remote service.

use std::time::Duration;

use tidegate_app_controller::DeletionOptions;
use tidegate_application::AppKey;
use tidegate_application::instance_name;
use tidegate_daemon::application_access::{self, ApplicationListing};
use tidegate_daemon::control::client;
use tidegate_daemon::operation_access;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::argo::Application;
use tidegate_model::{OperationId, Plan, Warning};
use tidegate_server::{ApiClient, HookOutputStream};
use tidegate_state::error::ServiceError;
use tidegate_state::state_dir::{StateDir, suggest_remote};
use tidegate_state::summaries::{PlanSummary, SyncWindowSummary};
use tidegate_views::ExplanationDocument;
use tidegate_views::deletion::DeletionPlan;
use tidegate_views::output::OutputDocument;
use tidegate_views::protocol::{Reply, Request};

use crate::args::ServiceArgs;
use crate::error::CliError;
use crate::output::Printer;

/// Maximum number of applications to request individually by name.
const NAME_QUERIES_MAX: usize = 8;
/// Poll interval for a local process.
const LOCAL_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Poll interval for a remote service.
const REMOTE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Client for a service.
pub enum ServiceClient {
    /// The process in a local state directory.
    Local(StateDir),
    /// A remote service, accessed through its API.
    Remote(Box<ApiClient>),
}

impl ServiceClient {
    pub fn from_args(args: &ServiceArgs) -> Result<Self, CliError> {
        Ok(match &args.server {
            Some(url) => {
                args.command_options().into_iter().for_each(suggest_remote);
                Self::Remote(Box::new(ApiClient::new(url, args.token_file.as_deref(), args.ca.as_deref())?))
            }
            None => Self::Local(StateDir::resolve(args.state.state_dir())?),
        })
    }

    /// Returns all applications, or those with this name. Without a running service, prints a note and
    /// returns the last recorded state.
    pub async fn find(
        &self,
        printer: &Printer,
        name: Option<&str>,
    ) -> Result<ApplicationListing, ServiceError> {
        match self {
            Self::Local(state_dir) => application_access::list_or_stored(state_dir, printer, name).await,
            Self::Remote(remote) => remote.applications(name).await,
        }
    }

    /// Returns the only application with the given name.
    pub async fn get(&self, name: &str, printer: &Printer) -> Result<Application, CliError> {
        let mut found = self.find(printer, Some(name)).await?.applications;
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => {
                Err(CliError::usage(format!("several applications are named {name}; use NAMESPACE/NAME")))
            }
            (None, _) => Err(Self::not_found_error(name)),
        }
    }

    /// Returns the error for an unknown application.
    pub fn not_found_error(name: &str) -> CliError {
        CliError::usage(format!("application {name} not found; `tidegate app list` lists all applications"))
    }

    /// Returns at least the named applications, or all without names. Unlike [`Self::find`], this needs a
    /// running service.
    pub async fn query(&self, names: &[String]) -> Result<ApplicationListing, ServiceError> {
        match (self, names) {
            (Self::Local(state_dir), [only]) => application_access::list_managed(state_dir, Some(only)).await,
            (Self::Local(state_dir), _) => application_access::list_managed(state_dir, None).await,
            // One list request is cheaper than many single ones.
            (Self::Remote(remote), names) if names.len() > NAME_QUERIES_MAX => {
                remote.applications(None).await
            }
            (Self::Remote(remote), names) => remote.find_applications(names).await,
        }
    }

    /// Returns true if a service manages applications. Queries a remote service.
    pub async fn has_service(&self) -> Result<bool, ServiceError> {
        match self {
            Self::Local(state_dir) => Ok(application_access::query_running(state_dir, None).await?.is_some()),
            Self::Remote(_) => Ok(true),
        }
    }

    /// Returns the poll interval.
    pub fn poll_interval(&self) -> Duration {
        match self {
            Self::Local(_) => LOCAL_POLL_INTERVAL,
            Self::Remote(_) => REMOTE_POLL_INTERVAL,
        }
    }

    /// Sends a request for an application. Returns once it is stored durably.
    pub async fn send(&self, request: &Request) -> Result<(), ServiceError> {
        match self {
            Self::Local(state_dir) => application_access::send_request(state_dir, request).await,
            Self::Remote(remote) => remote.send_request(request).await,
        }
    }

    /// Sends a query or request about stored plans. Returns the plans' summaries.
    pub async fn send_plan_request(&self, request: &Request) -> Result<Vec<PlanSummary>, ServiceError> {
        match self {
            Self::Local(state_dir) => application_access::request_plans(state_dir, request).await,
            Self::Remote(remote) => remote.request_plans(request).await,
        }
    }

    /// Returns a stored plan, or creates one.
    pub async fn get_or_create_plan(&self, request: &Request) -> Result<(PlanSummary, Plan), ServiceError> {
        match self {
            Self::Local(state_dir) => application_access::request_plan(state_dir, request).await,
            Self::Remote(remote) => remote.request_plan(request).await,
        }
    }

    /// Returns the state of an application's sync windows, or `None` if it can't be determined.
    pub async fn sync_window(&self, key: &AppKey) -> Option<SyncWindowSummary> {
        match self {
            Self::Local(state_dir) => {
                application_access::sync_windows(state_dir, format!("{}/{}", key.namespace, key.name)).await
            }
            Self::Remote(remote) => remote.sync_window(key).await.ok(),
        }
    }

    /// Returns the changes that a sync of an application would make.
    pub async fn diff(
        &self,
        name: String,
        revisions: Vec<String>,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        match self {
            Self::Local(state_dir) => application_access::diff_application(state_dir, name, revisions).await,
            Self::Remote(remote) => remote.diff(&name, &revisions).await,
        }
    }

    /// Returns the changes that an application's stored plan would make now.
    pub async fn diff_plan(
        &self,
        name: String,
        hash: String,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        match self {
            Self::Local(state_dir) => application_access::diff_plan(state_dir, name, hash).await,
            Self::Remote(remote) => remote.diff_plan(&name, &hash).await,
        }
    }

    /// Follows the output of an operation's running hooks.
    pub async fn follow_output(&self, operation: OperationId) -> Result<HookOutputSource, ServiceError> {
        match self {
            Self::Local(state_dir) => {
                let following = client::stream_output(&state_dir.socket(), operation).await?;
                let ended = || ServiceError::Control { problem: "has ended".to_owned() };
                following.map(HookOutputSource::Local).ok_or_else(ended)
            }
            Self::Remote(remote) => remote.follow_output(operation).await.map(HookOutputSource::Remote),
        }
    }

    /// Returns the effects of an application's deletion.
    pub async fn plan_deletion(
        &self,
        name: String,
        options: DeletionOptions,
    ) -> Result<DeletionPlan, ServiceError> {
        match self {
            Self::Local(state_dir) => {
                application_access::plan_application_deletion(state_dir, name, options).await
            }
            Self::Remote(remote) => remote.plan_application_deletion(&name, options).await,
        }
    }

    /// Returns the message of an application's newest operation, even if the application is gone, or `None`
    /// if the message is unknown.
    pub async fn last_message(&self, printer: &Printer, application: &Application) -> Option<String> {
        let app = instance_name(application);
        let state_dir = match self {
            Self::Local(state_dir) => state_dir,
            Self::Remote(remote) => return remote.last_message(&app).await.ok().flatten(),
        };
        let request = Request::List { app: Some(app), open: false };
        let Ok(Reply::Operations(all)) = operation_access::query(state_dir, printer, request).await else {
            return None;
        };
        let newest = all.into_iter().max_by_key(|one| one.operation)?;
        newest.summary.map(|summary| summary.message)
    }

    /// Explains the current state of an operation.
    pub async fn explain(
        &self,
        printer: &Printer,
        operation: OperationId,
    ) -> Result<ExplanationDocument, ServiceError> {
        let state_dir = match self {
            Self::Local(state_dir) => state_dir,
            Self::Remote(remote) => return remote.explain_operation(operation).await,
        };
        match operation_access::query(state_dir, printer, Request::Inspect { operation }).await? {
            Reply::Operation(inspected) => Ok(inspected.explanation),
            other => Err(operation_access::unexpected_reply_error(&other)),
        }
    }
}

/// Output of an operation's hooks, local or remote.
pub enum HookOutputSource {
    Local(client::OutputStream),
    Remote(HookOutputStream),
}

impl HookOutputSource {
    /// Returns the next event, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<OutputDocument>, ServiceError> {
        match self {
            Self::Local(following) => Ok(following.next().await?.map(OutputDocument::from)),
            Self::Remote(output) => output.next().await,
        }
    }
}
