//! Which way `app` goes: to a service, or to the resources in a cluster, where no service is asked.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use serde::Serialize;
use tidegate_application::superseding::NOT_TAKEN;
use tidegate_model::Cascade;
use tidegate_model::argo::{Application, ApplicationCondition};
use tidegate_service::applications::store::AppKey;
use tidegate_service::control::protocol::Request;
use tidegate_service::direct::{Direct, Resource, Watching};
use tidegate_service::documents::deletion::DeletionPlan;
use tidegate_service::error::ServiceError;
use tidegate_service::lines::WindowLine;
use tidegate_service::user::user;
use tokio::time::Instant;

use super::desk::Desk;
use crate::args::{ConnectionArgs, WayArgs};
use crate::error::CliError;
use crate::output::Printer;

/// Whoever serves an application takes up what is written into its resource within this time; after it that is doubted aloud.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(10);

/// Which way is gone.
pub enum Way {
    /// To a service.
    Service(Desk),
    /// To the resources themselves.
    Cluster(Box<Kube>),
}

/// The resources in a cluster.
pub struct Kube {
    direct: Direct,
    /// What a suggested command needs to go the same way.
    hint: String,
    /// What its service had refused of an application before something was asked for.
    refused_before: RefCell<BTreeMap<AppKey, ApplicationCondition>>,
}

/// An application: as a service tells of it, or as its resource has it.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Shown {
    Told(Box<Application>),
    Read(Box<Resource>),
}

impl Deref for Shown {
    type Target = Application;

    fn deref(&self) -> &Application {
        match self {
            Self::Told(application) => application,
            Self::Read(resource) => &resource.application,
        }
    }
}

impl Borrow<Application> for Shown {
    fn borrow(&self) -> &Application {
        self
    }
}

/// Applications, and what could not be read.
pub struct Found {
    pub applications: Vec<Shown>,
    pub problems: Vec<String>,
}

impl Way {
    /// The way that the arguments name.
    pub async fn of(args: &WayArgs, printer: &Printer) -> Result<Self, CliError> {
        let direct = &args.direct;
        if direct.kube {
            let connection = direct.connection.to_connection();
            let hint = direct.hint();
            let opened = Direct::open(&connection, direct.namespaces(), user(), printer).await;
            let direct = opened.map_err(|error| match error {
                // What else could be said, a simulated cluster, is no help here.
                ServiceError::Connect { source } => CliError::usage(source.to_string()),
                error => error.into(),
            })?;
            let kube = Kube { direct, hint, refused_before: RefCell::default() };
            return Ok(Self::Cluster(Box::new(kube)));
        }
        Ok(Self::Service(served(args)?))
    }

    /// The service that the arguments name, for what no resource says.
    pub fn service(args: &WayArgs, what: &str) -> Result<Desk, CliError> {
        if args.direct.kube { Err(CliError::usage(only_served(what))) } else { served(args) }
    }

    /// The applications; where nobody serves them here, as they were last, and that is told.
    pub async fn all(&self, printer: &Printer) -> Result<Found, CliError> {
        match self {
            Self::Service(desk) => {
                let found = desk.find(printer, None).await?;
                let told = |application| Shown::Told(Box::new(application));
                let applications = found.applications.into_iter().map(told).collect();
                Ok(Found { applications, problems: found.problems })
            }
            Self::Cluster(kube) => {
                let all = kube.direct.all().await.map_err(|error| kube.hinted(error))?;
                let problems = all.iter().filter_map(unreadable).collect();
                let applications = all.into_iter().map(|one| Shown::Read(Box::new(one))).collect();
                Ok(Found { applications, problems })
            }
        }
    }

    /// The only application that is meant.
    pub async fn one(&self, name: &str, printer: &Printer) -> Result<Shown, CliError> {
        match self {
            Self::Service(desk) => Ok(Shown::Told(Box::new(desk.one(name, printer).await?))),
            Self::Cluster(kube) => {
                let one = kube.direct.one(name).await.map_err(|error| kube.hinted(error))?;
                unreadable(&one).iter().for_each(|problem| printer.warn(problem));
                Ok(Shown::Read(Box::new(one)))
            }
        }
    }

    /// There is no application of this name.
    pub async fn absent(&self, name: &str) -> CliError {
        match self {
            Self::Service(_) => Desk::absent(name),
            Self::Cluster(kube) => kube.hinted(kube.direct.absent(name).await),
        }
    }

    /// Where there are no applications, in words.
    pub fn nowhere(&self) -> String {
        match self {
            Self::Service(_) => "there are no applications".to_owned(),
            Self::Cluster(kube) => format!(
                "there are no applications in {}; --app-namespace names others, or '*' for all",
                kube.direct.place()
            ),
        }
    }

    /// Tells what to do with an application. Returns when that is durable.
    pub async fn tell(&self, request: Request) -> Result<(), CliError> {
        match self {
            Self::Service(desk) => Ok(desk.tell(&request).await?),
            Self::Cluster(kube) => kube.tell(request).await.map_err(|error| kube.hinted(error)),
        }
    }

    /// At least those that one of the names means, or all where there are none, for as long as somebody waits for them.
    pub fn sight<'a>(&'a self, names: &'a [String], printer: &'a Printer) -> Sight<'a> {
        match self {
            Self::Service(desk) => Sight::Asked(desk, names),
            Self::Cluster(kube) => Sight::Watched(Box::new(kube.direct.watch(names, printer)), kube),
        }
    }

    /// Whether sync windows let an application be synced now; nothing where nobody says so.
    pub async fn window(&self, key: &AppKey) -> Option<WindowLine> {
        match self {
            Self::Service(desk) => desk.window(key).await,
            Self::Cluster(_) => None,
        }
    }

    /// What the deletion of an application would do.
    pub async fn plan_deletion(&self, name: String, cascade: Cascade) -> Result<DeletionPlan, CliError> {
        match self {
            Self::Service(desk) => Ok(desk.plan_deletion(name, cascade).await?),
            Self::Cluster(_) => Err(CliError::usage(only_served("in which order objects go"))),
        }
    }

    /// What the newest operation of an application says, which may be gone by now; nothing where nobody knows.
    pub async fn last_message(&self, printer: &Printer, application: &Application) -> Option<String> {
        match self {
            Self::Service(desk) => desk.last_message(printer, application).await,
            Self::Cluster(_) => None,
        }
    }

    /// Why its service has not taken what was written into the resource of an application.
    pub fn not_taken(&self, application: &Application) -> Option<String> {
        let Self::Cluster(kube) = self else { return None };
        let before = kube.refused_before.borrow();
        let said = not_taken(application).filter(|said| before.get(&AppKey::of(application)) != Some(*said));
        said.map(|said| said.message.clone())
    }

    /// Doubts aloud that anybody takes up what is written from now on.
    pub fn doubt<'a>(&'a self, printer: &'a Printer) -> Doubt<'a> {
        Doubt { way: self, printer, since: Instant::now(), is_told: Cell::new(false) }
    }
}

impl Kube {
    async fn tell(&self, request: Request) -> Result<(), ServiceError> {
        let direct = &self.direct;
        match request {
            Request::SyncApplication { name, operation } => {
                let known = self.known(&name).await?;
                direct.sync(&known, *operation).await
            }
            Request::RollbackApplication { name, id, prune, reason, .. } => {
                let known = self.known(&name).await?;
                direct.rollback(&known, id, prune, &reason).await
            }
            Request::TerminateApplication { reason, .. } if !reason.is_empty() => {
                Err(ServiceError::BadInput {
                    message: "a resource has no place for why its operation is ended; leave --reason out, or ask a service with --server URL".to_owned(),
                })
            }
            Request::TerminateApplication { name, .. } => direct.terminate(&direct.one(&name).await?).await,
            Request::DeleteApplication { name, cascade, reason, .. } => {
                direct.delete(&direct.one(&name).await?, cascade, &reason).await
            }
            Request::RefreshApplication { name, hard } => {
                direct.refresh(&direct.one(&name).await?, hard).await
            }
            _ => Err(ServiceError::BadInput { message: only_served("that") }),
        }
    }

    /// An application, before something is asked of it.
    async fn known(&self, name: &str) -> Result<Resource, ServiceError> {
        let known = self.direct.one(name).await?;
        if let Some(said) = not_taken(&known.application) {
            self.refused_before.borrow_mut().insert(AppKey::of(&known.application), said.clone());
        }
        Ok(known)
    }

    /// The commands that are suggested go the same way.
    fn hinted(&self, error: ServiceError) -> CliError {
        CliError::Service(match error {
            ServiceError::Refused { message } => {
                ServiceError::Refused { message: with_hint(&message, &self.hint) }
            }
            ServiceError::BadInput { message } => {
                ServiceError::BadInput { message: with_hint(&message, &self.hint) }
            }
            other => other,
        })
    }
}

/// Applications that somebody waits for.
pub enum Sight<'a> {
    Asked(&'a Desk, &'a [String]),
    Watched(Box<Watching<'a>>, &'a Kube),
}

impl Sight<'_> {
    /// As they are now, and no longer than that.
    pub async fn look(&mut self) -> Result<Vec<Application>, CliError> {
        match self {
            Self::Asked(desk, names) => Ok(desk.ask(names).await?.applications),
            Self::Watched(watching, kube) => watching.look().await.map_err(|error| kube.hinted(error)),
        }
    }

    /// Returns when another look is worth it.
    pub async fn changed(&mut self) -> Result<(), CliError> {
        match self {
            Self::Asked(desk, _) => {
                tokio::time::sleep(desk.pause()).await;
                Ok(())
            }
            Self::Watched(watching, kube) => watching.changed().await.map_err(|error| kube.hinted(error)),
        }
    }
}

/// Says once that nobody seems to take up what was written into a resource.
pub struct Doubt<'a> {
    way: &'a Way,
    printer: &'a Printer,
    since: Instant,
    is_told: Cell<bool>,
}

impl Doubt<'_> {
    /// Looks whether it is time to say so.
    pub fn look(&self, is_taken_up: bool) {
        let is_late = matches!(self.way, Way::Cluster(_)) && self.since.elapsed() >= TAKEN_UP_WITHIN;
        if is_late && !is_taken_up && !self.is_told.replace(true) {
            self.printer.note(
                "nobody has taken up yet what is written into the resource; is a `tidegate serve` at work on this cluster, for this namespace? It is waited for",
            );
        }
    }
}

fn served(args: &WayArgs) -> Result<Desk, CliError> {
    if args.direct.connection != ConnectionArgs::default() {
        return Err(CliError::usage(
            "--kubeconfig, --context, --as, --as-group and --request-timeout say which cluster is meant by --kube; without that a service is asked",
        ));
    }
    Desk::of(&args.service)
}

fn not_taken(application: &Application) -> Option<&ApplicationCondition> {
    application.status.conditions.iter().find(|one| one.kind.to_string() == NOT_TAKEN)
}

fn unreadable(one: &Resource) -> Option<String> {
    one.problem.as_ref().map(|problem| format!("application {} cannot be read: {problem}", one.full_name()))
}

fn only_served(what: &str) -> String {
    format!(
        "{what} is known to a `tidegate serve` alone, and in no resource: ask the one that serves the applications, with --server URL, or without --kube where it is at work"
    )
}

fn with_hint(text: &str, hint: &str) -> String {
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
    fn a_suggested_command_goes_the_same_way_and_others_are_left_as_they_are() {
        assert_eq!(
            with_hint(
                "wait: `tidegate app wait a`, `--policy queue`; `tidegate crds`",
                " --kube --context b"
            ),
            "wait: `tidegate app wait a --kube --context b`, `--policy queue`; `tidegate crds`"
        );
    }
}
