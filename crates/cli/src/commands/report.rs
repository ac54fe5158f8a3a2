//! Reports on operations after a wait.

use tidegate_lifecycle::operation::{ClaimStatus, OperationView};
use tidegate_model::{OperationId, OperationPhase};
use tidegate_state::state_dir::StateDir;
use tidegate_views::OperationDocument;

use crate::args::Format;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, Style, Text, one_line, operation};
use crate::wait::{UnfinishedOperation, WaitEndReason, WaitResult};

/// Prints an operation and, if it hasn't finished, how to continue it.
pub fn report(
    waited: WaitResult,
    format: Format,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let ended = worst_result(&waited);
    print_unfinished(&waited.unfinished, state_dir, printer);
    for operation in select_documents(waited, format) {
        match format {
            Format::Text => printer.print(&operation::result(&operation, printer.width()))?,
            Format::Json | Format::Yaml => printer.print_value(&unattended_document(&operation), format)?,
        }
    }
    Ok(ended)
}

/// Returns the documents to print. Text output has only results; JSON and YAML also have the state of
/// unfinished operations.
fn select_documents(waited: WaitResult, format: Format) -> Vec<OperationView> {
    let left = waited.unfinished.into_iter().filter(|_| format != Format::Text).map(|left| left.view);
    waited.finished.into_iter().chain(left).collect()
}

/// Reports any number of operations like [`report`]. JSON and YAML output is a list.
pub fn report_all(
    waited: WaitResult,
    format: Format,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let ended = worst_result(&waited);
    print_unfinished(&waited.unfinished, state_dir, printer);
    let operations = select_documents(waited, format);
    if format == Format::Text {
        for operation in &operations {
            printer.print(&operation::result(operation, printer.width()))?;
        }
    } else {
        printer.print_value(&operations.iter().map(unattended_document).collect::<Vec<_>>(), format)?;
    }
    Ok(ended)
}

/// Returns the document for an operation that no process is running, because this one has stopped.
fn unattended_document(operation: &OperationView) -> OperationDocument<'_> {
    OperationDocument { operation, logs: None, is_running: Some(false) }
}

fn worst_result(waited: &WaitResult) -> CommandOutcome {
    if !waited.unfinished.is_empty() {
        return CommandOutcome::NotFinished;
    }
    let (refused, started): (Vec<_>, Vec<_>) =
        waited.finished.iter().partition(|view| is_claim_conflict(view));
    match started.iter().map(|view| view.phase).find(|phase| phase.is_unsuccessful()) {
        Some(failed) => CommandOutcome::Operation(failed),
        None if !refused.is_empty() => CommandOutcome::ClaimConflict,
        None => CommandOutcome::Operation(OperationPhase::Succeeded),
    }
}

/// Returns true if another operation holds the claim and nothing was changed.
fn is_claim_conflict(view: &OperationView) -> bool {
    view.claim.as_ref().is_some_and(|claim| claim.state == ClaimStatus::Refused)
}

fn print_unfinished(left: &[UnfinishedOperation], state_dir: &StateDir, printer: &Printer) {
    for UnfinishedOperation { view, explanation, reason } in left {
        let id = view.id;
        let mut line = Text::new();
        line.add(Style::Bold, &view.app);
        line.add(Style::Plain, format!(": {}", one_line(&explanation.to_string())));
        printer.print_message(&line);
        let is_paused = matches!(reason, WaitEndReason::Paused { .. });
        printer.note(&format!(
            "operation {id} is unfinished: {}; {}",
            reason.describe(),
            continuation_advice(id, is_paused, state_dir)
        ));
    }
}

/// Returns advice on how to continue an operation that no process is running.
pub fn continuation_advice(id: OperationId, is_paused: bool, state_dir: &StateDir) -> String {
    let hint = state_dir.command_arguments();
    let first = match is_paused {
        true => format!("unpause it with `tidegate ops unpause {id}{hint}`, then "),
        false => String::new(),
    };
    format!("{first}continue it with `tidegate resume {id}{hint}`")
}
