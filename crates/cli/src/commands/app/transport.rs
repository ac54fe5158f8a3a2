//! Transport of the `app` commands: a service, or the Application resources in a cluster.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use serde::Serialize;
use tidegate_app_controller::DeletionOptions;
use tidegate_application::AppKey;
use tidegate_application::supersede::OPERATION_REFUSED_CONDITION;
use tidegate_daemon::direct_client::{ApplicationWatch, DirectClient, Resource};
use tidegate_model::argo::{Application, ApplicationCondition};
use tidegate_state::error::ServiceError;
use tidegate_state::summaries::SyncWindowSummary;
use tidegate_views::deletion::DeletionPlan;
use tidegate_views::protocol::Request;
use tokio::time::Instant;

use super::service_client::ServiceClient;
use crate::args::{ConnectionArgs, TransportArgs};
use crate::error::CliError;
use crate::output::Printer;

/// Time for a controller to react to a changed resource. After that, the command prints a warning.
const PICKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Transport for requests.
pub enum Transport {
    /// A service.
    Service(ServiceClient),
    /// The Application resources in a cluster.
    Cluster(Box<KubeTransport>),
}

/// Resources in a cluster.
pub struct KubeTransport {
    direct: DirectClient,
    /// Flags that select this transport in a suggested command.
    command_options: String,
    /// Rejections that the controller reported before the request, by application.
    earlier_rejections: RefCell<BTreeMap<AppKey, ApplicationCondition>>,
}

/// Application from a service or from its resource.
#[derive(Serialize)]
#[serde(untagged)]
pub enum ReportedApplication {
    FromService(Box<Application>),
    Read(Box<Resource>),
}

impl Deref for ReportedApplication {
    type Target = Application;

    fn deref(&self) -> &Application {
        match self {
            Self::FromService(application) => application,
            Self::Read(resource) => &resource.application,
        }
    }
}

impl Borrow<Application> for ReportedApplication {
    fn borrow(&self) -> &Application {
        self
    }
}

/// The Applications that could be read, and the errors for the others.
pub struct ApplicationQueryResult {
    pub applications: Vec<ReportedApplication>,
    pub problems: Vec<String>,
}

impl Transport {
    /// Returns the transport selected by the arguments.
    pub async fn from_args(args: &TransportArgs, printer: &Printer) -> Result<Self, CliError> {
        let direct = &args.direct;
        if direct.kube {
            let connection = direct.connection.to_connection();
            let command_options = direct.command_options();
            let opened = DirectClient::connect(&connection, direct.namespaces(), printer).await;
            let direct = opened.map_err(|error| match error {
                // This error suggests --sim, which these commands lack.
                ServiceError::Connect { source } => CliError::usage(source.to_string()),
                error => error.into(),
            })?;
            let kube = KubeTransport { direct, command_options, earlier_rejections: RefCell::default() };
            return Ok(Self::Cluster(Box::new(kube)));
        }
        Ok(Self::Service(connect_service(args)?))
    }

    /// Returns the service selected by the arguments, for data (`what`) that the resources lack.
    pub fn service_client(args: &TransportArgs, what: &str) -> Result<ServiceClient, CliError> {
        if args.direct.kube {
            Err(CliError::usage(service_required_message(what)))
        } else {
            connect_service(args)
        }
    }

    /// Returns all applications. Without a running service, prints a note and returns the last recorded
    /// state.
    pub async fn list(&self, printer: &Printer) -> Result<ApplicationQueryResult, CliError> {
        match self {
            Self::Service(desk) => {
                let found = desk.find(printer, None).await?;
                let reported = |application| ReportedApplication::FromService(Box::new(application));
                let applications = found.applications.into_iter().map(reported).collect();
                Ok(ApplicationQueryResult { applications, problems: found.problems })
            }
            Self::Cluster(kube) => {
                let all = kube.direct.list_applications().await.map_err(|error| kube.adapt_error(error))?;
                let problems = all.iter().filter_map(read_problem).collect();
                let applications =
                    all.into_iter().map(|one| ReportedApplication::Read(Box::new(one))).collect();
                Ok(ApplicationQueryResult { applications, problems })
            }
        }
    }

    /// Returns the only application with the given name.
    pub async fn get(&self, name: &str, printer: &Printer) -> Result<ReportedApplication, CliError> {
        match self {
            Self::Service(desk) => {
                Ok(ReportedApplication::FromService(Box::new(desk.get(name, printer).await?)))
            }
            Self::Cluster(kube) => {
                let one = kube.direct.find_one(name).await.map_err(|error| kube.adapt_error(error))?;
                read_problem(&one).iter().for_each(|problem| printer.warn(problem));
                Ok(ReportedApplication::Read(Box::new(one)))
            }
        }
    }

    /// Returns the error for an unknown application.
    pub async fn not_found_error(&self, name: &str) -> CliError {
        match self {
            Self::Service(_) => ServiceClient::not_found_error(name),
            Self::Cluster(kube) => kube.adapt_error(kube.direct.not_found_error(name).await),
        }
    }

    /// Describes where Tidegate looked for the applications.
    pub fn describe_location(&self) -> String {
        match self {
            Self::Service(_) => "there are no applications".to_owned(),
            Self::Cluster(kube) => format!(
                "there are no applications in {}; use --app-namespace for other namespaces, or '*' for all",
                kube.direct.describe_namespaces()
            ),
        }
    }

    /// Sends a request for an application. Returns once it is stored durably.
    pub async fn send(&self, request: Request) -> Result<(), CliError> {
        match self {
            Self::Service(desk) => Ok(desk.send(&request).await?),
            Self::Cluster(kube) => kube.send(request).await.map_err(|error| kube.adapt_error(error)),
        }
    }

    /// Watches at least the named applications, or all without names.
    pub fn watch<'a>(&'a self, names: &'a [String], printer: &'a Printer) -> ApplicationWatcher<'a> {
        match self {
            Self::Service(desk) => ApplicationWatcher::Polled(desk, names),
            Self::Cluster(kube) => {
                ApplicationWatcher::Watched(Box::new(kube.direct.watch(names, printer)), kube)
            }
        }
    }

    /// Returns the state of an application's sync windows, or `None` if it can't be determined.
    pub async fn sync_window(&self, key: &AppKey) -> Option<SyncWindowSummary> {
        match self {
            Self::Service(desk) => desk.sync_window(key).await,
            Self::Cluster(_) => None,
        }
    }

    /// Returns the effects of an application's deletion.
    pub async fn plan_deletion(
        &self,
        name: String,
        options: DeletionOptions,
    ) -> Result<DeletionPlan, CliError> {
        match self {
            Self::Service(desk) => Ok(desk.plan_deletion(name, options).await?),
            Self::Cluster(_) => Err(CliError::usage(service_required_message("the deletion order"))),
        }
    }

    /// Returns the message of an application's newest operation, even if the application is gone, or `None`
    /// if the message is unknown.
    pub async fn last_message(&self, printer: &Printer, application: &Application) -> Option<String> {
        match self {
            Self::Service(desk) => desk.last_message(printer, application).await,
            Self::Cluster(_) => None,
        }
    }

    /// Returns the reason the controller rejected the request in the Application resource.
    pub fn rejection(&self, application: &Application) -> Option<String> {
        let Self::Cluster(kube) = self else { return None };
        let before = kube.earlier_rejections.borrow();
        let said = rejection_condition(application)
            .filter(|said| before.get(&AppKey::of(application)) != Some(*said));
        said.map(|said| said.message.clone())
    }

    /// Returns a check that warns if no controller reacts to later requests.
    pub fn pickup_check<'a>(&'a self, printer: &'a Printer) -> PickupCheck<'a> {
        PickupCheck { transport: self, printer, since: Instant::now(), has_warned: Cell::new(false) }
    }
}

impl KubeTransport {
    async fn send(&self, request: Request) -> Result<(), ServiceError> {
        let direct = &self.direct;
        match request {
            Request::SyncApplication { name, operation } => {
                let known = self.get(&name).await?;
                direct.sync(&known, *operation).await
            }
            Request::RollbackApplication { name, id, prune, reason, .. } => {
                let known = self.get(&name).await?;
                direct.rollback(&known, id, prune, &reason).await
            }
            Request::TerminateApplication { reason, .. } if !reason.is_empty() => {
                Err(ServiceError::BadInput {
                    message: "a reason cannot be recorded in the Application resource; omit --reason, or use a service with --server URL".to_owned(),
                })
            }
            Request::TerminateApplication { name, .. } => direct.terminate(&direct.find_one(&name).await?).await,
            Request::DeleteApplication { name, cascade, no_hooks, reason, .. } => {
                let options = DeletionOptions { cascade, no_hooks };
                direct.delete(&direct.find_one(&name).await?, options, &reason).await
            }
            Request::RefreshApplication { name, hard } => {
                direct.refresh(&direct.find_one(&name).await?, hard).await
            }
            _ => Err(ServiceError::BadInput { message: service_required_message("this request") }),
        }
    }

    /// Returns the application's state before a request, and records the rejection that it currently reports.
    async fn get(&self, name: &str) -> Result<Resource, ServiceError> {
        let known = self.direct.find_one(name).await?;
        if let Some(message) = rejection_condition(&known.application) {
            self.earlier_rejections.borrow_mut().insert(AppKey::of(&known.application), message.clone());
        }
        Ok(known)
    }

    /// Adds this transport's options to the commands that the error suggests.
    fn adapt_error(&self, error: ServiceError) -> CliError {
        CliError::Service(match error {
            ServiceError::Refused { message } => {
                ServiceError::Refused { message: add_command_options(&message, &self.command_options) }
            }
            ServiceError::BadInput { message } => {
                ServiceError::BadInput { message: add_command_options(&message, &self.command_options) }
            }
            other => other,
        })
    }
}

/// Watched applications.
pub enum ApplicationWatcher<'a> {
    Polled(&'a ServiceClient, &'a [String]),
    Watched(Box<ApplicationWatch<'a>>, &'a KubeTransport),
}

impl ApplicationWatcher<'_> {
    /// Returns the current state of the applications, skipping intermediate states.
    pub async fn observe(&mut self) -> Result<Vec<Application>, CliError> {
        match self {
            Self::Polled(desk, names) => Ok(desk.query(names).await?.applications),
            Self::Watched(watching, kube) => {
                watching.refresh().await.map_err(|error| kube.adapt_error(error))
            }
        }
    }

    /// Returns once the applications may have changed.
    pub async fn wait_for_change(&mut self) -> Result<(), CliError> {
        match self {
            Self::Polled(desk, _) => {
                tokio::time::sleep(desk.poll_interval()).await;
                Ok(())
            }
            Self::Watched(watching, kube) => {
                watching.wait_for_change().await.map_err(|error| kube.adapt_error(error))
            }
        }
    }
}

/// Check that warns once if no controller reacts to a request in a resource.
pub struct PickupCheck<'a> {
    transport: &'a Transport,
    printer: &'a Printer,
    since: Instant,
    has_warned: Cell<bool>,
}

impl PickupCheck<'_> {
    /// Prints the warning if the timeout has expired and `is_taken_up` is false.
    pub fn check(&self, is_taken_up: bool) {
        let is_late =
            matches!(self.transport, Transport::Cluster(_)) && self.since.elapsed() >= PICKUP_TIMEOUT;
        if is_late && !is_taken_up && !self.has_warned.replace(true) {
            self.printer.note(
                "still waiting: no service has picked up the request from the Application resource; \
                 check that a service manages this namespace",
            );
        }
    }
}

fn connect_service(args: &TransportArgs) -> Result<ServiceClient, CliError> {
    if args.direct.connection != ConnectionArgs::default() {
        return Err(CliError::usage(
            "--kubeconfig, --context, --as, --as-group and --request-timeout require --kube; without --kube, the command uses a service",
        ));
    }
    ServiceClient::from_args(&args.service)
}

fn rejection_condition(application: &Application) -> Option<&ApplicationCondition> {
    application.status.conditions.iter().find(|one| one.kind.to_string() == OPERATION_REFUSED_CONDITION)
}

fn read_problem(one: &Resource) -> Option<String> {
    one.problem.as_ref().map(|problem| format!("cannot read application {}: {problem}", one.full_name()))
}

fn service_required_message(what: &str) -> String {
    format!(
        "{what} is only available from `tidegate serve`, not from the resources: use --server URL, or omit --kube on the service's machine"
    )
}

fn add_command_options(text: &str, hint: &str) -> String {
    let hinted = text.split('`').enumerate().map(|(at, part)| {
        let is_command = at % 2 == 1 && part.starts_with("tidegate app ");
        if is_command && !part.contains("--kube") && !part.contains("--server") {
            format!("{part}{hint}")
        } else {
            part.to_owned()
        }
    });
    hinted.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_suggested_app_commands_get_the_options_of_the_transport() {
        assert_eq!(
            add_command_options(
                "wait: `tidegate app wait a`, `--policy queue`; `tidegate crds`",
                " --kube --context b"
            ),
            "wait: `tidegate app wait a --kube --context b`, `--policy queue`; `tidegate crds`"
        );
    }
}
