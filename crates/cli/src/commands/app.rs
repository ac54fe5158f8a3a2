//! `tidegate app`: Applications managed by `tidegate serve` or stored in a cluster.

mod app_wait;
mod delete;
mod explain;
mod hooks;
mod pending_request;
mod plans;
pub(super) mod service_client;
mod sync;
mod transport;

use std::time::Duration;

use tidegate_app_controller::listing::ApplicationFilter;
use tidegate_application::AppKey;
use tidegate_application::push_events::PushEvent;
use tidegate_application::refresh;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::Warning;
use tidegate_model::argo::Application;
use tidegate_views::protocol::Request;

use crate::args::{
    AppCommand, AppRollbackArgs, ApplicationFilterArgs, Format, RevisionArgs, SingleAppArgs, TransportArgs,
};
use crate::commands::diff;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, application, format_count};

use self::app_wait::{AwaitedOperation, GoalResult, poll_until, show_list, wait, wait_until_finished};
use self::transport::{ReportedApplication, Transport};

/// Timeout of a comparison requested through an Application resource, which may have to wait for a
/// repository.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(300);

pub async fn run(command: AppCommand, printer: &Printer) -> Result<CommandOutcome, CliError> {
    match command {
        AppCommand::List { which, output, transport } => list(&which, output, &transport, printer).await,
        AppCommand::Get(one) => get(&one, printer).await,
        AppCommand::History(one) => history(&one, printer).await,
        AppCommand::Sync(args) => sync::run(&args, printer).await,
        AppCommand::Plan(args) => plans::create(&args, printer).await,
        AppCommand::Plans { name, output, transport } => plans::list(name, output, &transport, printer).await,
        AppCommand::Approve(args) => plans::approve(&args, printer).await,
        AppCommand::Refresh { name, hard, transport } => refresh(name, hard, &transport, printer).await,
        AppCommand::Diff { name, revisions, plan, output, transport } => {
            match show_differences(&transport, name, &revisions, plan, printer).await {
                Ok((objects, findings)) => diff::print_differences(&objects, &findings, output, printer),
                // An error must not use the exit code for differences.
                Err(error) => {
                    printer.error(&error);
                    Ok(CommandOutcome::NotCompared)
                }
            }
        }
        AppCommand::Terminate { name, reason: why, transport } => {
            let (by, reason) = (String::new(), why.reason);
            let request = Request::TerminateApplication { name, by, reason };
            Transport::from_args(&transport, printer).await?.send(request).await?;
            Ok(CommandOutcome::Done)
        }
        AppCommand::Explain(one) => explain::run(&one, printer).await,
        AppCommand::Delete(args) => delete::run(&args, printer).await,
        AppCommand::Rollback(args) => rollback(&args, printer).await,
        AppCommand::Wait(args) => wait(&args, printer).await,
    }
}

/// Returns the names of the selected applications: those given, or all that match the filter. Empty without
/// names and filter.
async fn select_names(
    transport: &Transport,
    names: &[String],
    which: &ApplicationFilterArgs,
    printer: &Printer,
) -> Result<Vec<String>, CliError> {
    if which.is_empty() {
        return Ok(names.to_vec());
    }
    let (found, is_chosen) = (transport.list(printer).await?, application_filter(which));
    found.problems.iter().for_each(|problem| printer.warn(problem));
    let is_chosen = found.applications.iter().filter(|one| is_chosen(one));
    let chosen: Vec<String> = is_chosen.map(|one| full_name(&AppKey::of(one))).collect();
    if chosen.is_empty() {
        return Err(CliError::usage(
            "no application matches the filters; `tidegate app list` lists all applications",
        ));
    }
    Ok(chosen)
}

/// Returns the named applications, without duplicates, as they were before the first request.
async fn find_each(
    transport: &Transport,
    names: impl IntoIterator<Item = String>,
    printer: &Printer,
) -> Result<Vec<(String, ReportedApplication)>, CliError> {
    let mut all: Vec<(String, ReportedApplication)> = Vec::new();
    for name in names {
        let known = transport.get(&name, printer).await?;
        if all.iter().all(|(_, other)| AppKey::of(other) != AppKey::of(&known)) {
            all.push((name, known));
        }
    }
    Ok(all)
}

/// Returns the application's unambiguous name.
fn full_name(AppKey { namespace, name }: &AppKey) -> String {
    if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") }
}

async fn list(
    which: &ApplicationFilterArgs,
    output: Format,
    transport: &TransportArgs,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let transport = Transport::from_args(transport, printer).await?;
    let mut found = transport.list(printer).await?;
    found.problems.iter().for_each(|problem| printer.warn(problem));
    let all = found.applications.len();
    let is_listed = application_filter(which);
    found.applications.retain(|one| is_listed(one));
    match output {
        Format::Text if all == 0 => printer.note(&transport.describe_location()),
        Format::Text if found.applications.is_empty() => {
            printer.note(&format!(
                "none of {} matches the filters",
                format_count(u32::try_from(all).unwrap_or(u32::MAX), "application", "applications")
            ));
        }
        format => show_list(&found.applications, format, printer)?,
    }
    Ok(CommandOutcome::Done)
}

fn application_filter(which: &ApplicationFilterArgs) -> impl Fn(&Application) -> bool {
    let (projects, labels) = (which.projects.clone(), which.labels.clone().unwrap_or_default());
    let wanted = ApplicationFilter { projects, labels, ..ApplicationFilter::default() };
    let repository = which.repository.as_deref().map(|url| (url, PushEvent::new([url])));
    move |application| {
        let is_of = |(url, push): &(&str, PushEvent)| {
            application.sources().iter().any(|source| source.repo_url == *url || push.is_to(source))
        };
        wanted.matches(application) && repository.as_ref().is_none_or(is_of)
    }
}

async fn get(args: &SingleAppArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let transport = Transport::from_args(&args.transport, printer).await?;
    let found = transport.get(&args.name, printer).await?;
    match args.output {
        Format::Text => {
            let window = transport.sync_window(&AppKey::of(&found)).await;
            printer.print(&application::show(&found, window.as_ref(), printer.width()))?;
        }
        format => printer.print_value(&found, format)?,
    }
    Ok(CommandOutcome::Done)
}

async fn history(args: &SingleAppArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let found = Transport::from_args(&args.transport, printer).await?.get(&args.name, printer).await?;
    match (args.output, &found) {
        (Format::Text, _) if found.status.history.is_empty() => {
            printer.note(&format!("no sync of {} has succeeded yet", args.name));
        }
        (Format::Text, _) => printer.print(&application::history(&found.status.history, printer.width()))?,
        (format, ReportedApplication::FromService(reported)) => {
            printer.print_value(&reported.status.history, format)?
        }
        (format, ReportedApplication::Read(read)) => printer.print_value(&read.history(), format)?,
    }
    Ok(CommandOutcome::Done)
}

async fn show_differences(
    transport: &TransportArgs,
    name: String,
    revisions: &RevisionArgs,
    plan: Option<String>,
    printer: &Printer,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), CliError> {
    let client = Transport::service_client(transport, "a diff")?;
    Ok(match plan {
        Some(hash) => client.diff_plan(name, hash).await?,
        None => {
            let mut named: Vec<String> = revisions.revision.iter().cloned().collect();
            if !revisions.revisions.is_empty() {
                named = sync::source_revisions(revisions, &client.get(&name, printer).await?)?;
            }
            client.diff(name, named).await?
        }
    })
}

async fn rollback(args: &AppRollbackArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let transport = Transport::from_args(&args.transport, printer).await?;
    let request = Request::RollbackApplication {
        name: args.name.clone(),
        id: args.id,
        prune: args.prune,
        by: String::new(),
        reason: args.reason.reason.clone(),
    };
    let known = transport.get(&args.name, printer).await?;
    transport.send(request).await?;
    let awaited = [AwaitedOperation::new(&args.name, &known)];
    wait_until_finished(&transport, &awaited, &args.end, args.output, printer).await
}

/// Requests a comparison. If the request is an annotation on a resource, waits until the controller removes
/// it.
async fn refresh(
    name: String,
    hard: bool,
    transport: &TransportArgs,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let transport = Transport::from_args(transport, printer).await?;
    transport.send(Request::RefreshApplication { name: name.clone(), hard }).await?;
    if let Transport::Service(_) = transport {
        return Ok(CommandOutcome::Done);
    }
    let doubt = transport.pickup_check(printer);
    let is_met = |application: &Application| {
        let is_met = application.annotation(refresh::REFRESH_ANNOTATION).is_none();
        doubt.check(is_met);
        is_met
    };
    match poll_until(&transport, &[name], Some(REFRESH_TIMEOUT), printer, is_met).await? {
        GoalResult::Met(_) => Ok(CommandOutcome::Done),
        GoalResult::Unmet(left) => {
            show_list(&left, Format::Text, printer)?;
            Ok(CommandOutcome::NotFinished)
        }
    }
}
