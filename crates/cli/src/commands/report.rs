//! How operations that were waited for are reported.

use tidegate_lifecycle::operation::{ClaimStanding, OperationView};
use tidegate_model::{OperationId, OperationPhase};
use tidegate_service::documents::OperationDocument;
use tidegate_service::state_dir::StateDir;

use crate::args::Format;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, Style, Text, one_line, operation};
use crate::wait::{Left, Unfinished, Waited};

/// Prints one operation, and says how to go on where it is not over.
pub fn report(
    waited: Waited,
    format: Format,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let ended = worst(&waited);
    talk_about(&waited.left, state_dir, printer);
    for operation in documents(waited, format) {
        match format {
            Format::Text => printer.out(&operation::result(&operation, printer.width()))?,
            Format::Json | Format::Yaml => printer.value(&left_alone(&operation), format)?,
        }
    }
    Ok(ended)
}

/// What is printed: results for people; for programs, also how the rest stands.
fn documents(waited: Waited, format: Format) -> Vec<OperationView> {
    let left = waited.left.into_iter().filter(|_| format != Format::Text).map(|left| left.view);
    waited.over.into_iter().chain(left).collect()
}

/// As [`report`], for any number of operations: documents are one list.
pub fn report_all(
    waited: Waited,
    format: Format,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let ended = worst(&waited);
    talk_about(&waited.left, state_dir, printer);
    let operations = documents(waited, format);
    if format == Format::Text {
        for operation in &operations {
            printer.out(&operation::result(operation, printer.width()))?;
        }
    } else {
        printer.value(&operations.iter().map(left_alone).collect::<Vec<_>>(), format)?;
    }
    Ok(ended)
}

/// This process has ended its work on it, and nobody else has begun.
fn left_alone(operation: &OperationView) -> OperationDocument<'_> {
    OperationDocument { operation, logs: None, at_work: Some(false) }
}

fn worst(waited: &Waited) -> Ended {
    if !waited.left.is_empty() {
        return Ended::NotFinished;
    }
    let (refused, begun): (Vec<_>, Vec<_>) = waited.over.iter().partition(|view| is_refused(view));
    match begun.iter().map(|view| view.phase).find(|phase| phase.is_unsuccessful()) {
        Some(failed) => Ended::Operation(failed),
        None if !refused.is_empty() => Ended::Refused,
        None => Ended::Operation(OperationPhase::Succeeded),
    }
}

/// Another operation has the claim, and nothing was changed.
fn is_refused(view: &OperationView) -> bool {
    view.claim.as_ref().is_some_and(|claim| claim.state == ClaimStanding::Refused)
}

fn talk_about(left: &[Unfinished], state_dir: &StateDir, printer: &Printer) {
    for Unfinished { view, explanation, why } in left {
        let id = view.id;
        let mut line = Text::new();
        line.add(Style::Bold, &view.app);
        line.add(Style::Plain, format!(": {}", one_line(&explanation.to_string())));
        printer.talk(&line);
        let is_paused = matches!(why, Left::Paused { .. });
        printer.note(&format!(
            "operation {id} was left as it is: {}; {}",
            why.reason(),
            way_on(id, is_paused, state_dir)
        ));
    }
}

/// How to go on with an operation that nobody works on.
pub fn way_on(id: OperationId, is_paused: bool, state_dir: &StateDir) -> String {
    let hint = state_dir.hint();
    let first = match is_paused {
        true => format!("let it go on with `tidegate ops unpause {id}{hint}`, then "),
        false => String::new(),
    };
    format!("{first}go on with `tidegate resume {id}{hint}`")
}
