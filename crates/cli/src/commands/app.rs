//! `tidegate app`: the Applications of a `tidegate serve`, or of a cluster.

mod delete;
pub(super) mod desk;
mod explain;
mod hooks;
mod plans;
mod way;

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tidegate_application::approval::waiting;
use tidegate_application::operation::give_reason;
use tidegate_application::pushes::Push;
use tidegate_application::refresh;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::argo::{Application, OperationResource, OperationState, SyncStatusCode};
use tidegate_model::{HealthStatus, OperationPhase, ResourceSelector, Warning, format_duration};
use tidegate_service::applications::asking::{self, SyncWish};
use tidegate_service::applications::listing::Wanted;
use tidegate_service::applications::store::AppKey;
use tidegate_service::control::protocol::Request;
use tidegate_service::direct::is_taken_up;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::args::{
    AppCommand, AppRollbackArgs, AppSyncArgs, AppWaitArgs, EndArgs, Format, ListedArgs, OneAppArgs, WayArgs,
};
use crate::commands::diff;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, application, counted};
use crate::signals::Signals;

use self::desk::Desk;
use self::way::{Shown, Way};

/// How long whoever waits for applications waits for somebody to serve them.
const SERVED_WITHIN: Duration = Duration::from_secs(10);
/// How long what an operation has done is waited for, to be shown: the comparison may take long.
const SEEN_WITHIN: Duration = Duration::from_secs(10);
/// How long a comparison is waited for that was asked for in a resource; it may wait for a repository.
const REFRESHED_WITHIN: Duration = Duration::from_secs(300);

pub async fn run(command: AppCommand, printer: &Printer) -> Result<Ended, CliError> {
    match command {
        AppCommand::List { which, output, way } => list(&which, output, &way, printer).await,
        AppCommand::Get(one) => get(&one, printer).await,
        AppCommand::History(one) => history(&one, printer).await,
        AppCommand::Sync(args) => sync(&args, printer).await,
        AppCommand::Plan(args) => plans::make(&args, printer).await,
        AppCommand::Plans { name, output, way } => plans::list(name, output, &way, printer).await,
        AppCommand::Approve(args) => plans::approve(&args, printer).await,
        AppCommand::Refresh { name, hard, way } => refresh(name, hard, &way, printer).await,
        AppCommand::Diff { name, revision, plan, output, way } => {
            match differences(&way, name, (revision, plan)).await {
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
        Format::Text => printer.out(&application::list(&found.applications, printer.width()))?,
        format => printer.value(&application::document(&found.applications), format)?,
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

async fn sync(args: &AppSyncArgs, printer: &Printer) -> Result<Ended, CliError> {
    if let Some(hash) = args.plan.clone() {
        let desk = Way::service(&args.way, "a kept plan")?;
        let (name, allow_drift) = (args.name.clone(), args.allow_drift);
        let (by, reason) = (String::new(), args.why.reason.clone());
        desk.plans(&Request::SyncPlan { name, hash, allow_drift, by, reason }).await?;
        return finished(&Way::Service(desk), &args.name, &args.end, printer).await;
    }
    if args.follow_hooks {
        Way::service(&args.way, "what hooks write")?;
    }
    let way = Way::of(&args.way, printer).await?;
    let known = way.one(&args.name, printer).await?;
    let wish = SyncWish {
        revision: args.revision.clone().unwrap_or_default(),
        prune: args.prune,
        dry_run: args.dry_run,
        resources: args.resources.iter().map(named).collect(),
        policy: args.policy.into(),
    };
    let mut asked = asking::sync(&known, wish);
    give_reason(&mut asked, &args.why.reason);
    let request = Request::SyncApplication { name: args.name.clone(), operation: Box::new(asked) };
    way.tell(request).await?;
    let finished = finished(&way, &args.name, &args.end, printer);
    match &way {
        Way::Service(desk) if args.follow_hooks => hooks::beside(desk, &known, finished, printer).await,
        _ => finished.await,
    }
}

async fn differences(
    way: &WayArgs,
    name: String,
    (revision, plan): (Option<String>, Option<String>),
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), CliError> {
    let desk = Way::service(way, "what a sync would change")?;
    Ok(match plan {
        Some(hash) => desk.diff_plan(name, hash).await?,
        None => desk.diff(name, revision).await?,
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
    way.tell(request).await?;
    finished(&way, &args.name, &args.end, printer).await
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
    let waited = until(&way, &[name], Some(REFRESHED_WITHIN), printer, is_met).await?;
    Ok(if waited.is_some() { Ended::Done } else { Ended::NotFinished })
}

/// Waits for the end of an operation, if that is wished, and shows it.
async fn finished(way: &Way, name: &str, end: &EndArgs, printer: &Printer) -> Result<Ended, CliError> {
    if end.is_async {
        return Ok(Ended::Done);
    }
    let (told, since) = (RefCell::new(String::new()), Cell::new(None));
    let (is_over_soon, doubt) = (is_over_soon(&since), way.doubt(printer));
    let is_over = |application: &Application| {
        // Whoever waits is told what for, once for each plan.
        if let Some(words) = waiting(application).filter(|words| *told.borrow() != *words) {
            printer.note(words);
            words.clone_into(&mut told.borrow_mut());
        }
        doubt.look(is_taken_up(application));
        way.not_taken(application).is_some() || is_over_soon(application)
    };
    let waited = until(way, &[name.to_owned()], end.timeout, printer, is_over).await?;
    let Some(over) = waited.and_then(|mut found| found.pop()) else { return Ok(Ended::NotFinished) };
    if let Some(why) = way.not_taken(&over) {
        return Err(CliError::refused(why));
    }
    let state = over.status.operation_state.as_ref();
    printer.out(&application::show(&over, None, printer.width()))?;
    Ok(Ended::Operation(state.map_or(OperationPhase::Error, |state| state.phase)))
}

fn named(selector: &ResourceSelector) -> OperationResource {
    let ResourceSelector { group, kind, namespace, name } = selector.clone();
    OperationResource { group, kind, namespace, name, ..OperationResource::default() }
}

/// Nothing is under way, and what the last operation did has been seen. That is not awaited of one that has failed: the
/// comparison may hang on the very thing that it has failed at.
fn is_over(application: &Application) -> bool {
    let status = &application.status;
    let is_left_alone = refresh::is_skipped(application);
    let is_seen = |state: &OperationState| {
        let dry_run = state.operation.sync.as_ref().is_some_and(|sync| sync.dry_run);
        let shows_nothing = dry_run || is_left_alone || state.phase != OperationPhase::Succeeded;
        state
            .finished_at
            .is_some_and(|at| shows_nothing || status.reconciled_at.is_some_and(|seen| seen >= at))
    };
    application.operation.is_none() && status.operation_state.as_ref().is_none_or(is_seen)
}

/// The same of the operation that is waited for; but for a comparison only a while, counted from when it was first found to be
/// over.
fn is_over_soon(since: &Cell<Option<Instant>>) -> impl Fn(&Application) -> bool {
    move |application| {
        if is_over(application) {
            return true;
        }
        if application.operation.is_some() {
            return false;
        }
        let first = since.get().unwrap_or_else(Instant::now);
        since.set(Some(first));
        first.elapsed() >= SEEN_WITHIN
    }
}

async fn wait(args: &AppWaitArgs, printer: &Printer) -> Result<Ended, CliError> {
    let way = Way::of(&args.way, printer).await?;
    let all = !(args.sync || args.health || args.operation);
    let is_met = |application: &Application| {
        let status = &application.status;
        let synced = status.sync.as_ref().is_some_and(|sync| sync.status == SyncStatusCode::Synced);
        let healthy = status.health.as_ref().is_some_and(|health| health.status == HealthStatus::Healthy);
        (!(all || args.sync) || synced)
            && (!(all || args.health) || healthy)
            && (!(all || args.operation) || is_over(application))
    };
    let waited = until(&way, &args.names, args.timeout, printer, is_met).await?;
    let Some(found) = waited else { return Ok(Ended::NotFinished) };
    printer.out(&application::list(&found, printer.width()))?;
    Ok(Ended::Done)
}

/// So long a first look may take, however short the wait is to be.
const LOOK: Duration = Duration::from_secs(30);

/// Returns when it was waited long enough, and looked once.
async fn late(timeout: Option<Duration>, looked: &Notify) {
    tokio::time::sleep(timeout.unwrap_or(Duration::MAX)).await;
    drop(tokio::time::timeout(LOOK, looked.notified()).await);
}

/// Asks until all that are named are as they should be; nothing when that took too long, or somebody interrupts, which is told.
async fn until(
    way: &Way,
    names: &[String],
    timeout: Option<Duration>,
    printer: &Printer,
    is_met: impl Fn(&Application) -> bool,
) -> Result<Option<Vec<Application>>, CliError> {
    let mut signals = Signals::listen()?;
    let mut left = Vec::new();
    let looked = Notify::new();
    let asking = async {
        if let Way::Service(desk) = way {
            served(desk, printer).await?;
        }
        let mut sight = way.sight(names, printer);
        loop {
            let mut found = sight.look().await?;
            for name in names {
                if !found.iter().any(|one| is_meant(one, name)) {
                    return Err(way.absent(name).await);
                }
            }
            found.retain(|one| names.is_empty() || names.iter().any(|name| is_meant(one, name)));
            if found.is_empty() {
                return Err(CliError::usage(format!("{}: nothing to wait for", way.nowhere())));
            }
            left = found.iter().filter(|one| !is_met(one)).cloned().collect::<Vec<_>>();
            if left.is_empty() {
                return Ok(found);
            }
            looked.notify_one();
            sight.changed().await?;
        }
    };
    let why = tokio::select! {
        found = asking => return found.map(Some),
        signal = signals.next() => format!("interrupted by {signal}"),
        () = late(timeout, &looked) => {
            format!("not there after {}", format_duration(timeout.unwrap_or_default()))
        }
    };
    printer.warn(&why);
    printer.out(&application::list(&left, printer.width()))?;
    Ok(None)
}

/// Waits a moment for a service that is about to begin.
async fn served(desk: &Desk, printer: &Printer) -> Result<(), CliError> {
    let begun = async {
        let mut is_told = false;
        while !desk.is_served().await? {
            if !std::mem::replace(&mut is_told, true) {
                let wait = format_duration(SERVED_WITHIN);
                printer
                    .note(&format!("no `tidegate serve` is at work here yet; waiting for one, up to {wait}"));
            }
            tokio::time::sleep(desk.pause()).await;
        }
        Ok(())
    };
    // Whoever asks next says that there is none.
    tokio::time::timeout(SERVED_WITHIN, begun).await.unwrap_or(Ok(()))
}

fn is_meant(application: &Application, text: &str) -> bool {
    AppKey::of(application).is_meant(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(phase: &str, reconciled_at: &str) -> Application {
        serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"},
            "spec": {"project": "default", "destination": {"name": "in-cluster"}},
            "status": {
                "reconciledAt": reconciled_at,
                "operationState": {
                    "operation": {"sync": {}}, "phase": phase,
                    "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:05Z",
                },
            },
        }))
        .unwrap()
    }

    /// A comparison may hang on the very repository that an operation was ended for.
    #[test]
    fn what_has_failed_is_over_though_nothing_was_compared_since() {
        let (before, since) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:06Z");
        assert!(is_over(&after("Failed", before)) && is_over(&after("Error", before)));
        assert!(is_over(&after("Succeeded", since)) && !is_over(&after("Succeeded", before)));
        let mut under_way = after("Failed", before);
        under_way.operation = Some(under_way.status.operation_state.clone().unwrap().operation);
        assert!(!is_over(&under_way));
        let mut left_alone = after("Succeeded", before);
        left_alone.metadata.annotations.insert(refresh::SKIP_ANNOTATION.to_owned(), "true".to_owned());
        assert!(is_over(&left_alone), "it is compared no more");
    }

    #[test]
    fn what_was_compared_too_slowly_is_over_after_a_while() {
        let first = Cell::new(None);
        let slow = after("Succeeded", "2026-01-01T00:00:00Z");
        assert!(!is_over_soon(&first)(&slow));
        first.set(Instant::now().checked_sub(SEEN_WITHIN));
        assert!(is_over_soon(&first)(&slow));
    }
}
