//! Who is asked about applications: the process at work in a state directory, or one elsewhere.

use std::time::Duration;

use tidegate_application::instance_name;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::argo::Application;
use tidegate_model::{Cascade, OperationId, Plan, Warning};
use tidegate_server::{Remote, RemoteOutput};
use tidegate_service::applications::store::AppKey;
use tidegate_service::control::client;
use tidegate_service::control::protocol::{Reply, Request};
use tidegate_service::documents::ExplanationDocument;
use tidegate_service::documents::deletion::DeletionPlan;
use tidegate_service::documents::output::OutputDocument;
use tidegate_service::error::ServiceError;
use tidegate_service::lines::{PlanLine, WindowLine};
use tidegate_service::reach::{self, Reached};
use tidegate_service::route;
use tidegate_service::state_dir::{StateDir, ask_elsewhere};

use crate::args::ServiceArgs;
use crate::error::CliError;
use crate::output::Printer;

/// So many applications are asked for by their names, one by one.
const ASKED_SINGLY: usize = 8;
/// How often whoever waits asks again: a process on this machine, and one elsewhere.
const ASK_EVERY: Duration = Duration::from_millis(250);
const ASK_AFAR_EVERY: Duration = Duration::from_secs(1);

/// Who is asked.
pub enum Desk {
    /// The process at work here.
    Here(StateDir),
    /// One elsewhere, by its API.
    There(Box<Remote>),
}

impl Desk {
    pub fn of(args: &ServiceArgs) -> Result<Self, CliError> {
        Ok(match &args.server {
            Some(url) => {
                args.hint().into_iter().for_each(ask_elsewhere);
                Self::There(Box::new(Remote::new(url, args.token_file.as_deref(), args.ca.as_deref())?))
            }
            None => Self::Here(StateDir::resolve(args.state.named())?),
        })
    }

    /// The applications, or those that are meant; where nobody serves them here, as they were last, and that is told.
    pub async fn find(&self, printer: &Printer, name: Option<&str>) -> Result<Reached, ServiceError> {
        match self {
            Self::Here(state_dir) => reach::find(state_dir, printer, name).await,
            Self::There(remote) => remote.applications(name).await,
        }
    }

    /// The only application that is meant.
    pub async fn one(&self, name: &str, printer: &Printer) -> Result<Application, CliError> {
        let mut found = self.find(printer, Some(name)).await?.applications;
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => {
                Err(CliError::usage(format!("there are several applications {name}; write NAMESPACE/NAME")))
            }
            (None, _) => Err(Self::absent(name)),
        }
    }

    /// There is no application of this name.
    pub fn absent(name: &str) -> CliError {
        CliError::usage(format!("there is no application {name}; `tidegate app list` shows those there are"))
    }

    /// As [`Self::find`], and only as they are now: at least those that one of the names means, or all where there are none.
    pub async fn ask(&self, names: &[String]) -> Result<Reached, ServiceError> {
        match (self, names) {
            (Self::Here(state_dir), [only]) => reach::ask(state_dir, Some(only)).await,
            (Self::Here(state_dir), _) => reach::ask(state_dir, None).await,
            // One list costs less than so many questions.
            (Self::There(remote), names) if names.len() > ASKED_SINGLY => remote.applications(None).await,
            (Self::There(remote), names) => remote.named(names).await,
        }
    }

    /// Whether somebody serves applications. One elsewhere says so itself.
    pub async fn is_served(&self) -> Result<bool, ServiceError> {
        match self {
            Self::Here(state_dir) => Ok(reach::look(state_dir, None).await?.is_some()),
            Self::There(_) => Ok(true),
        }
    }

    /// How often whoever waits asks again.
    pub fn pause(&self) -> Duration {
        match self {
            Self::Here(_) => ASK_EVERY,
            Self::There(_) => ASK_AFAR_EVERY,
        }
    }

    /// Tells what to do with an application. Returns when that is durable.
    pub async fn tell(&self, request: &Request) -> Result<(), ServiceError> {
        match self {
            Self::Here(state_dir) => reach::tell(state_dir, request).await,
            Self::There(remote) => remote.tell(request).await,
        }
    }

    /// A question about kept plans, or a wish for one, and the lines that answer it.
    pub async fn plans(&self, request: &Request) -> Result<Vec<PlanLine>, ServiceError> {
        match self {
            Self::Here(state_dir) => reach::plans(state_dir, request).await,
            Self::There(remote) => remote.plans(request).await,
        }
    }

    /// A kept plan, or one that is made.
    pub async fn plan(&self, request: &Request) -> Result<(PlanLine, Plan), ServiceError> {
        match self {
            Self::Here(state_dir) => reach::plan(state_dir, request).await,
            Self::There(remote) => remote.plan(request).await,
        }
    }

    /// Whether sync windows let an application be synced now; nothing where nobody says so.
    pub async fn window(&self, key: &AppKey) -> Option<WindowLine> {
        match self {
            Self::Here(state_dir) => {
                reach::window(state_dir, format!("{}/{}", key.namespace, key.name)).await
            }
            Self::There(remote) => remote.window(key).await.ok(),
        }
    }

    /// What a sync of an application would change.
    pub async fn diff(
        &self,
        name: String,
        revisions: Vec<String>,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        match self {
            Self::Here(state_dir) => reach::diff(state_dir, name, revisions).await,
            Self::There(remote) => remote.diff(&name, &revisions).await,
        }
    }

    /// What a kept plan of an application would change now.
    pub async fn diff_plan(
        &self,
        name: String,
        hash: String,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        match self {
            Self::Here(state_dir) => reach::diff_plan(state_dir, name, hash).await,
            Self::There(remote) => remote.diff_plan(&name, &hash).await,
        }
    }

    /// What the hooks of an operation write while they run.
    pub async fn follow_output(&self, operation: OperationId) -> Result<Followed, ServiceError> {
        match self {
            Self::Here(state_dir) => {
                let following = client::follow(&state_dir.socket(), operation).await?;
                let nobody = || ServiceError::Control { problem: "has ended".to_owned() };
                following.map(Followed::Here).ok_or_else(nobody)
            }
            Self::There(remote) => remote.follow_output(operation).await.map(Followed::There),
        }
    }

    /// What the deletion of an application would do.
    pub async fn plan_deletion(&self, name: String, cascade: Cascade) -> Result<DeletionPlan, ServiceError> {
        match self {
            Self::Here(state_dir) => reach::plan_application_deletion(state_dir, name, cascade).await,
            Self::There(remote) => remote.plan_application_deletion(&name, cascade).await,
        }
    }

    /// What the newest operation of an application says, which may be gone by now; nothing where nobody knows.
    pub async fn last_message(&self, printer: &Printer, application: &Application) -> Option<String> {
        let app = instance_name(application);
        let state_dir = match self {
            Self::Here(state_dir) => state_dir,
            Self::There(remote) => return remote.last_message(&app).await.ok().flatten(),
        };
        let asked = Request::List { app: Some(app), open: false };
        let Ok(Reply::Operations(all)) = route::ask(state_dir, printer, asked).await else { return None };
        let newest = all.into_iter().max_by_key(|one| one.operation)?;
        newest.summary.map(|summary| summary.message)
    }

    /// Why an operation is where it is.
    pub async fn explain(
        &self,
        printer: &Printer,
        operation: OperationId,
    ) -> Result<ExplanationDocument, ServiceError> {
        let state_dir = match self {
            Self::Here(state_dir) => state_dir,
            Self::There(remote) => return remote.explain(operation).await,
        };
        match route::ask(state_dir, printer, Request::Inspect { operation }).await? {
            Reply::Operation(inspected) => Ok(inspected.explanation),
            other => Err(route::unexpected(&other)),
        }
    }
}

/// The output of an operation's hooks, by either way.
pub enum Followed {
    Here(client::Following),
    There(RemoteOutput),
}

impl Followed {
    /// What is told next; nothing where nothing will follow.
    pub async fn next(&mut self) -> Result<Option<OutputDocument>, ServiceError> {
        match self {
            Self::Here(following) => Ok(following.next().await?.map(OutputDocument::from)),
            Self::There(output) => output.next().await,
        }
    }
}
