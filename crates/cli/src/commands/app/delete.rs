//! `tidegate app delete`: deletes an Application and its objects.

use std::cell::Cell;
use std::time::Duration;

use tidegate_app_controller::DeletionOptions;
use tidegate_application::deletion::{self, DELETION_CONDITION};
use tidegate_application::operation;
use tidegate_model::argo::{Application, ApplicationCondition, ConditionType, OperationRequest};
use tidegate_model::{Cascade, OperationPhase, format_duration};
use tidegate_views::deletion::{DeletionPlan, DeletionStep};
use tidegate_views::protocol::Request;
use tokio::time::Instant;

use super::find_each;
use super::transport::{ReportedApplication, Transport};
use crate::args::AppDeleteArgs;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{FILE_REMOVAL_WARNING, Printer, Style, Text, format_count, one_line};
use crate::signals::Signals;

/// Prefix of an operation's message while its deletions wait for confirmation.
const UNCONFIRMED_PREFIX: &str = "waiting for pruning confirmation";
/// Separator before the retained objects in a deletion's message.
const KEPT_PREFIX: &str = "; left in place: ";

pub async fn run(args: &AppDeleteArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let transport = Transport::from_args(&args.transport, printer).await?;
    let all = find_each(&transport, args.names.iter().cloned(), printer).await?;
    let options = DeletionOptions { cascade: args.cascade.into(), no_hooks: args.no_hooks };
    if !args.yes {
        for (name, known) in &all {
            if all.len() > 1 {
                printer.print(&lines_to_text(vec![format!("application {name}:")]))?;
            }
            print_preview(name, known, options, &transport, printer).await?;
        }
        let what = if all.len() == 1 { "application" } else { "applications" };
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(", ");
        return Err(CliError::usage(format!("nothing was deleted; use --yes to delete {what} {names}")));
    }
    let (mut awaited, mut refused) = (Vec::new(), None);
    for (name, known) in &all {
        let (by, reason) = (String::new(), args.reason.reason.clone());
        let DeletionOptions { cascade, no_hooks } = options;
        let request = Request::DeleteApplication { name: name.clone(), cascade, no_hooks, by, reason };
        match transport.send(request).await {
            Ok(()) => awaited.push((name.as_str(), &**known)),
            Err(error) if all.len() == 1 => return Err(error),
            Err(error) => {
                printer.error(&error);
                refused = Some(CommandOutcome::ClaimConflict);
            }
        }
    }
    let mut ended = Vec::from_iter(refused);
    if !args.end.is_async {
        let by = args.end.timeout.map(|timeout| Instant::now() + timeout);
        for (name, known) in awaited {
            ended.push(wait_until_gone(&transport, name, known, args.end.timeout, by, printer).await?);
            // The timeout expired, or the user interrupted the wait.
            if ended.last() == Some(&CommandOutcome::NotFinished) {
                break;
            }
        }
    }
    Ok(CommandOutcome::worst(ended))
}

/// Prints the effects of an application's deletion.
async fn print_preview(
    name: &str,
    known: &ReportedApplication,
    options: DeletionOptions,
    transport: &Transport,
    printer: &Printer,
) -> Result<(), CliError> {
    match (transport.plan_deletion(name.to_owned(), options).await, known) {
        (Ok(plan), _) => {
            printer.print(&lines_to_text(describe_plan(&plan)))?;
            plan.warnings.iter().for_each(|warning| printer.warn(&warning.to_string()));
            if plan.removes_file {
                printer.warn(FILE_REMOVAL_WARNING);
            }
        }
        (Err(error), ReportedApplication::FromService(_)) => {
            printer.warn(&format!("cannot preview the deletion: {error}"))
        }
        (Err(error), ReportedApplication::Read(read)) => {
            printer.print(&lines_to_text(describe_from_status(&read.application, options.cascade)))?;
            printer.note(&error.to_string());
        }
    }
    Ok(())
}

/// Describes the effects that the application's status shows. The service may know more, such as the retained
/// objects.
fn describe_from_status(application: &Application, cascade: Cascade) -> Vec<String> {
    let known = match cascade {
        Cascade::Orphan => Default::default(),
        _ => deletion::owned_objects(application),
    };
    let first = match u32::try_from(known.len()).unwrap_or(u32::MAX) {
        0 => "the application's status lists no objects to delete".to_owned(),
        number => format!(
            "{} listed in the application's status may be deleted",
            format_count(number, "object", "objects")
        ),
    };
    let each = known.into_iter().map(|(gvk, namespace, name)| {
        let place = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
        format!("may be deleted: {} {place}", gvk.kind)
    });
    std::iter::once(first).chain(each).collect()
}

/// Returns the objects to delete, in order, and the objects to retain, with the reasons.
fn describe_plan(plan: &DeletionPlan) -> Vec<String> {
    let count = |steps: &[&DeletionStep]| u32::try_from(steps.len()).unwrap_or(u32::MAX);
    let (hooks, goes): (Vec<&DeletionStep>, Vec<&DeletionStep>) = plan.steps.iter().partition(|one| one.hook);
    let mut lines = vec![match goes.is_empty() {
        true => "no objects will be deleted".to_owned(),
        false => {
            format!("{} will be deleted, in this order", format_count(count(&goes), "object", "objects"))
        }
    }];
    lines.extend(plan.steps.iter().map(|step| {
        let (phase, wave) = (step.phase, step.wave);
        match step.hook {
            true => format!("hook to run: {} ({phase}, wave {wave})", step.object()),
            false if step.needs_confirmation => {
                format!("to delete after confirmation: {} (wave {wave})", step.object())
            }
            false => format!("to delete: {} (wave {wave})", step.object()),
        }
    }));
    lines.extend(plan.stays.iter().map(|step| format!("to keep: {}: {}", step.object(), step.reason)));
    if !hooks.is_empty() {
        let hooks = format_count(count(&hooks), "deletion hook", "deletion hooks");
        lines.push(format!("{hooks} will run"));
    }
    lines
}

fn lines_to_text(lines: Vec<String>) -> Text {
    let mut text = Text::new();
    for line in lines {
        text.add(Style::Plain, one_line(&line));
        text.end_line();
    }
    text
}

/// Waits until the application is deleted or its deletion fails.
async fn wait_until_gone(
    transport: &Transport,
    name: &str,
    known: &Application,
    timeout: Option<Duration>,
    by: Option<Instant>,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let mut signals = Signals::listen()?;
    let mut text = String::new();
    let is_told = Cell::new(false);
    let names = [name.to_owned()];
    let doubt = transport.pickup_check(printer);
    let poll = async {
        let mut observation = transport.watch(&names, printer);
        loop {
            let found = observation.observe().await?;
            // A recreated Application has a different UID. Applications in a folder have no UID, so one that
            // isn't being deleted must be new.
            let uid = &known.metadata.uid;
            let same =
                |one: &&Application| one.metadata.uid == *uid && (!uid.is_empty() || one.is_deleting());
            let Some(left) = found.iter().find(same) else { return Ok::<_, CliError>(None) };
            if let Some(wrong) = new_failure(known, left) {
                return Ok(Some(wrong));
            }
            doubt.check(describe_progress(left).is_some());
            print_change(left, &mut text, printer);
            is_told.set(text.contains(KEPT_PREFIX));
            observation.wait_for_change().await?;
        }
    };
    let reason = tokio::select! {
        ended = poll => return Ok(match ended? {
            None => {
                printer.note(&format!("application {name} deleted"));
                // The application may be gone before its last message was seen.
                let said = if is_told.get() { None } else { transport.last_message(printer, known).await };
                if let Some((_, stays)) = said.as_deref().and_then(|said| said.split_once(KEPT_PREFIX)) {
                    printer.warn(&format!("left in place: {stays}"));
                }
                CommandOutcome::Done
            }
            Some(wrong) => {
                printer.warn(&wrong);
                CommandOutcome::Operation(OperationPhase::Failed)
            }
        }),
        signal = signals.next() => format!("interrupted by {signal}"),
        () = wait_for_deadline(by) => {
            format!("not deleted after {}", format_duration(timeout.unwrap_or_default()))
        }
    };
    printer.warn(&format!("{reason}; the deletion continues: `tidegate app get {name}` shows its state"));
    Ok(CommandOutcome::NotFinished)
}

/// Returns the reason a deletion failed. If it had already failed before the request, the request retries it,
/// and only a failure of the new attempt counts.
fn new_failure(before: &Application, now: &Application) -> Option<String> {
    let is_error = |one: &&ApplicationCondition| one.kind == ConditionType::DeletionError;
    let error =
        |one: &Application| one.status.conditions.iter().find(is_error).map(|one| one.message.clone());
    let found = error(now)?;
    let attempt = |one: &Application| one.status.operation_state.clone();
    let is_old = error(before).is_some() && attempt(before) == attempt(now);
    (!is_old).then_some(found)
}

/// Waits until the deadline, or forever without one.
async fn wait_for_deadline(by: Option<Instant>) {
    match by {
        Some(by) => tokio::time::sleep_until(by).await,
        None => std::future::pending().await,
    }
}

/// Prints the deletion's state if it has changed.
fn print_change(application: &Application, text: &mut String, printer: &Printer) {
    let Some(message) = describe_progress(application).filter(|message| message != text) else { return };
    printer.note(&format!("{}: {message}", application.metadata.name));
    *text = message;
}

/// Returns the problem that blocks the deletion or, without one, the state of the deletion's operation.
fn describe_progress(application: &Application) -> Option<String> {
    let held = ConditionType::Other(DELETION_CONDITION.to_owned());
    let held = application.status.conditions.iter().find(|one| one.kind == held);
    let state = application.status.operation_state.as_ref();
    let state = state.filter(|state| operation::deletion_cascade(&state.operation).is_some());
    held.map(|held| held.message.clone())
        .or(state.map(|state| add_confirm_command(&state.message, &state.operation)))
}

/// Returns a deletion's message. Adds the confirmation command if the deletion waits for confirmation.
fn add_confirm_command(message: &str, request: &OperationRequest) -> String {
    match operation::engine_id(request).filter(|_| message.starts_with(UNCONFIRMED_PREFIX)) {
        Some(id) => format!("{message}; confirm it with `tidegate ops confirm {id}`"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A repeated `app delete` waits for the next attempt, even if the last one failed.
    #[test]
    fn a_failure_of_an_earlier_request_is_ignored() {
        let failed = |second: u32| {
            let mut application = Application::default();
            application.status.operation_state = serde_json::from_value(json!({
                "operation": {}, "phase": "Failed", "startedAt": "2026-01-01T00:00:00Z",
                "finishedAt": format!("2026-01-01T00:00:{second:02}Z"),
            }))
            .unwrap();
            let (kind, message) = (ConditionType::DeletionError, format!("failed at {second}"));
            application.status.conditions =
                vec![ApplicationCondition { kind, message, last_transition_time: None }];
            application
        };
        let (fresh, first, second) = (Application::default(), failed(1), failed(2));
        assert_eq!(new_failure(&fresh, &fresh), None);
        assert_eq!(new_failure(&fresh, &first).as_deref(), Some("failed at 1"));
        assert_eq!(new_failure(&first, &first), None, "a retry is possible");
        assert_eq!(new_failure(&first, &fresh), None);
        assert_eq!(new_failure(&first, &second).as_deref(), Some("failed at 2"));
    }

    #[test]
    fn the_obstacle_of_a_deletion_is_described() {
        let mut application = Application::default();
        assert_eq!(describe_progress(&application), None);
        let mut syncing = OperationRequest::default();
        syncing.sync.get_or_insert_default().prune = true;
        application.operation = Some(syncing);
        let message = "it is deleted when operation 1 ends".to_owned();
        let kind = ConditionType::Other(DELETION_CONDITION.to_owned());
        application.status.conditions =
            vec![ApplicationCondition { kind, message, last_transition_time: None }];
        assert_eq!(describe_progress(&application).as_deref(), Some("it is deleted when operation 1 ends"));
        // The user can't annotate an Application after its file was deleted, so the message has the command
        // instead.
        application.status.conditions.clear();
        let id = "01890000-0000-7000-8000-000000000001";
        let info = json!([
            {"name": "tidegate.dev/operation-id", "value": id},
            {"name": "tidegate.dev/deletion", "value": "foreground"},
        ]);
        let message = "waiting for pruning confirmation of /ConfigMap/a";
        application.status.operation_state = serde_json::from_value(json!({
            "operation": {"info": info}, "phase": "Running", "startedAt": "2026-01-01T00:00:00Z", "message": message,
        }))
        .unwrap();
        let expected = format!("{message}; confirm it with `tidegate ops confirm {id}`");
        assert_eq!(describe_progress(&application), Some(expected));
    }
}
