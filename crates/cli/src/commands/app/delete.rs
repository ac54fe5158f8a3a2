//! `tidegate app delete`: an Application, and what it has.

use std::cell::Cell;
use std::time::Duration;

use tidegate_application::deletion::{self, HELD};
use tidegate_application::operation;
use tidegate_model::argo::{Application, ConditionType};
use tidegate_model::{Cascade, OperationPhase, format_duration};
use tidegate_service::control::protocol::Request;
use tidegate_service::documents::deletion::{DeletionPlan, DeletionStep};
use tokio::time::Instant;

use super::each;
use super::way::{Shown, Way};
use crate::args::AppDeleteArgs;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{DOCUMENT_GOES, Printer, Style, Text, counted, one_line};
use crate::signals::Signals;

/// Before what a deletion has left where it is, in the message of its operation.
const LEFT_ALONE: &str = "; left alone: ";

pub async fn run(args: &AppDeleteArgs, printer: &Printer) -> Result<Ended, CliError> {
    let way = Way::of(&args.way, printer).await?;
    let all = each(&way, args.names.iter().cloned(), printer).await?;
    let cascade = Cascade::from(args.cascade);
    if !args.yes {
        for (name, known) in &all {
            tell_of((name, known), cascade, (&way, all.len() > 1), printer).await?;
        }
        let what = if all.len() == 1 { "application" } else { "applications" };
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(", ");
        return Err(CliError::usage(format!("nothing was done; say --yes to delete {what} {names}")));
    }
    let (mut asked, mut refused) = (Vec::new(), None);
    for (name, known) in &all {
        let (by, reason) = (String::new(), args.why.reason.clone());
        let request = Request::DeleteApplication { name: name.clone(), cascade, by, reason };
        match way.tell(request).await {
            Ok(()) => asked.push((name.as_str(), &**known)),
            Err(error) if all.len() == 1 => return Err(error),
            Err(error) => {
                printer.error(&error);
                refused = Some(Ended::Refused);
            }
        }
    }
    let mut ended = Vec::from_iter(refused);
    if !args.end.is_async {
        let by = args.end.timeout.map(|timeout| Instant::now() + timeout);
        for one in asked {
            ended.push(gone(&way, one, (args.end.timeout, by), printer).await?);
            // It was waited long enough, or somebody does not want to wait any longer.
            if ended.last() == Some(&Ended::NotFinished) {
                break;
            }
        }
    }
    Ok(Ended::worst(ended))
}

/// Says what the deletion of an application would do.
async fn tell_of(
    (name, known): (&str, &Shown),
    cascade: Cascade,
    (way, is_one_of_several): (&Way, bool),
    printer: &Printer,
) -> Result<(), CliError> {
    if is_one_of_several {
        printer.out(&text(vec![format!("application {name}:")]))?;
    }
    match (way.plan_deletion(name.to_owned(), cascade).await, known) {
        (Ok(plan), _) => {
            printer.out(&text(what_goes(&plan)))?;
            plan.warnings.iter().for_each(|warning| printer.warn(&warning.to_string()));
            if plan.removes_file {
                printer.warn(DOCUMENT_GOES);
            }
        }
        (Err(error), Shown::Told(_)) => printer.warn(&format!("what would go cannot be told: {error}")),
        (Err(error), Shown::Read(read)) => {
            printer.out(&text(what_is_known(&read.application, cascade)))?;
            printer.note(&error.to_string());
        }
    }
    Ok(())
}

/// What goes by what the status of an application says that it has: its service may know of more, and of what stays.
fn what_is_known(application: &Application, cascade: Cascade) -> Vec<String> {
    let known = match cascade {
        Cascade::Orphan => Default::default(),
        _ => deletion::owned(application),
    };
    let first = match u32::try_from(known.len()).unwrap_or(u32::MAX) {
        0 => "no object of it is known that would be deleted".to_owned(),
        number => format!("{} of it, by its status, may be deleted", counted(number, "object", "objects")),
    };
    let each = known.into_iter().map(|(gvk, namespace, name)| {
        let place = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
        format!("may be deleted: {} {place}", gvk.kind)
    });
    std::iter::once(first).chain(each).collect()
}

/// What goes, in its order, and what stays and why.
fn what_goes(plan: &DeletionPlan) -> Vec<String> {
    let count = |steps: &[&DeletionStep]| u32::try_from(steps.len()).unwrap_or(u32::MAX);
    let (hooks, goes): (Vec<&DeletionStep>, Vec<&DeletionStep>) = plan.steps.iter().partition(|one| one.hook);
    let mut lines = vec![match goes.is_empty() {
        true => "no object of it will be deleted".to_owned(),
        false => format!("{} will be deleted, in this order", counted(count(&goes), "object", "objects")),
    }];
    lines.extend(plan.steps.iter().map(|step| {
        let (phase, wave) = (step.phase, step.wave);
        match step.hook {
            true => format!("hook to be run: {} ({phase}, wave {wave})", step.object()),
            false if step.needs_confirmation => {
                format!("to be deleted once that is confirmed: {} (wave {wave})", step.object())
            }
            false => format!("to be deleted: {} (wave {wave})", step.object()),
        }
    }));
    lines.extend(plan.stays.iter().map(|step| format!("stays: {}: {}", step.object(), step.reason)));
    if !hooks.is_empty() {
        let hooks = counted(count(&hooks), "hook of the deletion", "hooks of the deletion");
        lines.push(format!("{hooks} will run"));
    }
    lines
}

fn text(lines: Vec<String>) -> Text {
    let mut text = Text::new();
    for line in lines {
        text.add(Style::Plain, one_line(&line));
        text.end_line();
    }
    text
}

/// Waits until it is gone, or cannot be deleted.
async fn gone(
    way: &Way,
    (name, known): (&str, &Application),
    (timeout, by): (Option<Duration>, Option<Instant>),
    printer: &Printer,
) -> Result<Ended, CliError> {
    let mut signals = Signals::listen()?;
    let mut told = String::new();
    let is_told = Cell::new(false);
    let names = [name.to_owned()];
    let doubt = way.doubt(printer);
    let asking = async {
        let mut sight = way.sight(&names, printer);
        loop {
            let found = sight.look().await?;
            // One that was made anew is another one; in a folder, one that is not on its way out.
            let uid = &known.metadata.uid;
            let same =
                |one: &&Application| one.metadata.uid == *uid && (!uid.is_empty() || one.is_deleting());
            let Some(left) = found.iter().find(same) else { return Ok::<_, CliError>(None) };
            if let Some(wrong) =
                left.status.conditions.iter().find(|one| one.kind == ConditionType::DeletionError)
            {
                return Ok(Some(wrong.message.clone()));
            }
            doubt.look(stands(left).is_some());
            tell(left, &mut told, printer);
            is_told.set(told.contains(LEFT_ALONE));
            sight.changed().await?;
        }
    };
    let why = tokio::select! {
        ended = asking => return Ok(match ended? {
            None => {
                printer.note(&format!("application {name} is deleted"));
                // It may have gone before that was seen.
                let said = if is_told.get() { None } else { way.last_message(printer, known).await };
                if let Some((_, stays)) = said.as_deref().and_then(|said| said.split_once(LEFT_ALONE)) {
                    printer.warn(&format!("left alone: {stays}"));
                }
                Ended::Done
            }
            Some(wrong) => {
                printer.warn(&wrong);
                Ended::Operation(OperationPhase::Failed)
            }
        }),
        signal = signals.next() => format!("interrupted by {signal}"),
        () = late(by) => {
            format!("not gone after {}", format_duration(timeout.unwrap_or_default()))
        }
    };
    printer.warn(&format!(
        "{why}; it is deleted all the same, and `tidegate app get {name}` tells how that stands"
    ));
    Ok(Ended::NotFinished)
}

/// Returns at a time; never without one.
async fn late(by: Option<Instant>) {
    match by {
        Some(by) => tokio::time::sleep_until(by).await,
        None => std::future::pending().await,
    }
}

/// How its deletion stands, once for each change.
fn tell(application: &Application, told: &mut String, printer: &Printer) {
    let Some(message) = stands(application).filter(|message| *message != told.as_str()) else { return };
    printer.note(&format!("{}: {message}", application.metadata.name));
    *told = message.to_owned();
}

/// What holds it up, or else how its operation stands.
fn stands(application: &Application) -> Option<&str> {
    let held = ConditionType::Other(HELD.to_owned());
    let held = application.status.conditions.iter().find(|one| one.kind == held);
    let state = application.status.operation_state.as_ref();
    let state = state.filter(|state| operation::cascade(&state.operation).is_some());
    held.map(|held| held.message.as_str()).or(state.map(|state| state.message.as_str()))
}

#[cfg(test)]
mod tests {
    use tidegate_model::argo::{ApplicationCondition, OperationRequest};

    use super::*;

    #[test]
    fn what_a_deletion_waits_for_is_told() {
        let mut application = Application::default();
        assert_eq!(stands(&application), None);
        let mut syncing = OperationRequest::default();
        syncing.sync.get_or_insert_default().prune = true;
        application.operation = Some(syncing);
        let message = "it is deleted when operation 1 is over".to_owned();
        let kind = ConditionType::Other(HELD.to_owned());
        application.status.conditions =
            vec![ApplicationCondition { kind, message, last_transition_time: None }];
        assert_eq!(stands(&application), Some("it is deleted when operation 1 is over"));
    }
}
