//! `tidegate app`: the Applications of a `tidegate serve`, or of a cluster.

mod delete;
pub(super) mod desk;
mod explain;
mod hooks;
mod own;
mod plans;
mod sync;
mod waiting;
mod way;

use std::time::Duration;

use tidegate_application::pushes::Push;
use tidegate_application::refresh;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::Warning;
use tidegate_model::argo::Application;
use tidegate_service::applications::listing::Wanted;
use tidegate_service::applications::store::AppKey;
use tidegate_service::control::protocol::Request;

use crate::args::{AppCommand, AppRollbackArgs, Format, ListedArgs, OneAppArgs, RevisionArgs, WayArgs};
use crate::commands::diff;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, application, counted};

use self::waiting::{Asked, Waited, finished, show_all, until, wait};
use self::way::{Shown, Way};

/// How long a comparison is waited for that was asked for in a resource; it may wait for a repository.
const REFRESHED_WITHIN: Duration = Duration::from_secs(300);

pub async fn run(command: AppCommand, printer: &Printer) -> Result<Ended, CliError> {
    match command {
        AppCommand::List { which, output, way } => list(&which, output, &way, printer).await,
        AppCommand::Get(one) => get(&one, printer).await,
        AppCommand::History(one) => history(&one, printer).await,
        AppCommand::Sync(args) => sync::run(&args, printer).await,
        AppCommand::Plan(args) => plans::make(&args, printer).await,
        AppCommand::Plans { name, output, way } => plans::list(name, output, &way, printer).await,
        AppCommand::Approve(args) => plans::approve(&args, printer).await,
        AppCommand::Refresh { name, hard, way } => refresh(name, hard, &way, printer).await,
        AppCommand::Diff { name, revisions, plan, output, way } => {
            match differences(&way, name, (&revisions, plan), printer).await {
                Ok((objects, findings)) => diff::report(&objects, &findings, output, printer),
                // Whatever goes wrong, the exit code is that of an error and not that of a difference.
                Err(error) => {
                    printer.error(&error);
                    Ok(Ended::NotCompared)
                }
            }
        }
        AppCommand::Terminate { name, why, way } => {
            let (by, reason) = (String::new(), why.reason);
            let request = Request::TerminateApplication { name, by, reason };
            Way::of(&way, printer).await?.tell(request).await?;
            Ok(Ended::Done)
        }
        AppCommand::Explain(one) => explain::run(&one, printer).await,
        AppCommand::Delete(args) => delete::run(&args, printer).await,
        AppCommand::Rollback(args) => rollback(&args, printer).await,
        AppCommand::Wait(args) => wait(&args, printer).await,
    }
}

/// The names of those that are meant: as they are given, or of all that are chosen; none where nothing is said.
async fn chosen(
    way: &Way,
    (names, which): (&[String], &ListedArgs),
    printer: &Printer,
) -> Result<Vec<String>, CliError> {
    if which.is_empty() {
        return Ok(names.to_vec());
    }
    let (found, is_chosen) = (way.all(printer).await?, listed(which));
    found.problems.iter().for_each(|problem| printer.warn(problem));
    let is_chosen = found.applications.iter().filter(|one| is_chosen(one));
    let chosen: Vec<String> = is_chosen.map(|one| full_name(&AppKey::of(one))).collect();
    if chosen.is_empty() {
        return Err(CliError::usage("no application is such; `tidegate app list` shows those there are"));
    }
    Ok(chosen)
}

/// The applications of these names, as they are known before anything is asked for: each once, however often it is named.
async fn each(
    way: &Way,
    names: impl IntoIterator<Item = String>,
    printer: &Printer,
) -> Result<Vec<(String, Shown)>, CliError> {
    let mut all: Vec<(String, Shown)> = Vec::new();
    for name in names {
        let known = way.one(&name, printer).await?;
        if all.iter().all(|(_, other)| AppKey::of(other) != AppKey::of(&known)) {
            all.push((name, known));
        }
    }
    Ok(all)
}

/// A name that no other application has.
fn full_name(AppKey { namespace, name }: &AppKey) -> String {
    if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") }
}

async fn list(
    which: &ListedArgs,
    output: Format,
    way: &WayArgs,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let way = Way::of(way, printer).await?;
    let mut found = way.all(printer).await?;
    found.problems.iter().for_each(|problem| printer.warn(problem));
    let all = found.applications.len();
    let is_listed = listed(which);
    found.applications.retain(|one| is_listed(one));
    match output {
        Format::Text if all == 0 => printer.note(&way.nowhere()),
        Format::Text if found.applications.is_empty() => {
            printer.note(&format!(
                "none of {} is such",
                counted(u32::try_from(all).unwrap_or(u32::MAX), "application", "applications")
            ));
        }
        format => show_all(&found.applications, format, printer)?,
    }
    Ok(Ended::Done)
}

/// Whether an application is one of those that are asked for.
fn listed(which: &ListedArgs) -> impl Fn(&Application) -> bool {
    let (projects, labels) = (which.projects.clone(), which.labels.clone().unwrap_or_default());
    let wanted = Wanted { projects, labels, ..Wanted::default() };
    let repository = which.repository.as_deref().map(|url| (url, Push::to([url])));
    move |application| {
        let is_of = |(url, push): &(&str, Push)| {
            application.sources().iter().any(|source| source.repo_url == *url || push.is_to(source))
        };
        wanted.wants(application) && repository.as_ref().is_none_or(is_of)
    }
}

async fn get(args: &OneAppArgs, printer: &Printer) -> Result<Ended, CliError> {
    let way = Way::of(&args.way, printer).await?;
    let found = way.one(&args.name, printer).await?;
    match args.output {
        Format::Text => {
            let window = way.window(&AppKey::of(&found)).await;
            printer.out(&application::show(&found, window.as_ref(), printer.width()))?;
        }
        format => printer.value(&found, format)?,
    }
    Ok(Ended::Done)
}

async fn history(args: &OneAppArgs, printer: &Printer) -> Result<Ended, CliError> {
    let found = Way::of(&args.way, printer).await?.one(&args.name, printer).await?;
    match (args.output, &found) {
        (Format::Text, _) if found.status.history.is_empty() => {
            printer.note(&format!("no sync of {} has succeeded yet", args.name));
        }
        (Format::Text, _) => printer.out(&application::history(&found.status.history, printer.width()))?,
        (format, Shown::Told(told)) => printer.value(&told.status.history, format)?,
        (format, Shown::Read(read)) => printer.value(&read.history(), format)?,
    }
    Ok(Ended::Done)
}

async fn differences(
    way: &WayArgs,
    name: String,
    (revisions, plan): (&RevisionArgs, Option<String>),
    printer: &Printer,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), CliError> {
    let desk = Way::service(way, "what a sync would change")?;
    Ok(match plan {
        Some(hash) => desk.diff_plan(name, hash).await?,
        None => {
            let mut named: Vec<String> = revisions.revision.iter().cloned().collect();
            if !revisions.revisions.is_empty() {
                named = sync::several(revisions, &desk.one(&name, printer).await?)?;
            }
            desk.diff(name, named).await?
        }
    })
}

async fn rollback(args: &AppRollbackArgs, printer: &Printer) -> Result<Ended, CliError> {
    let way = Way::of(&args.way, printer).await?;
    let request = Request::RollbackApplication {
        name: args.name.clone(),
        id: args.id,
        prune: args.prune,
        by: String::new(),
        reason: args.why.reason.clone(),
    };
    let known = way.one(&args.name, printer).await?;
    way.tell(request).await?;
    let asked = [Asked::before(&args.name, &known)];
    finished(&way, &asked, (&args.end, args.output), printer).await
}

/// Asks for a comparison. What is asked for in a resource is waited for: it is done when the annotation is gone.
async fn refresh(name: String, hard: bool, way: &WayArgs, printer: &Printer) -> Result<Ended, CliError> {
    let way = Way::of(way, printer).await?;
    way.tell(Request::RefreshApplication { name: name.clone(), hard }).await?;
    if let Way::Service(_) = way {
        return Ok(Ended::Done);
    }
    let doubt = way.doubt(printer);
    let is_met = |application: &Application| {
        let is_met = application.annotation(refresh::REFRESH_ANNOTATION).is_none();
        doubt.look(is_met);
        is_met
    };
    match until(&way, (&[name], Some(REFRESHED_WITHIN)), printer, is_met).await? {
        Waited::Met(_) => Ok(Ended::Done),
        Waited::Left(left) => {
            show_all(&left, Format::Text, printer)?;
            Ok(Ended::NotFinished)
        }
    }
}
