//! How operations that were waited for are reported.

use tidegate_model::OperationPhase;

use crate::args::Format;
use crate::drive::{Left, Waited};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::schema::OperationDocument;
use crate::output::{Printer, operation};
use crate::state_dir::StateDir;

/// Prints one operation, and says how to go on where it is not over.
pub fn report(
    waited: Waited,
    format: Format,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let ended = worst(&waited);
    for view in waited.over {
        one(&view.into(), format, printer)?;
    }
    talk_about(&waited.left, state_dir, printer);
    Ok(ended)
}

/// As [`report`], for any number of operations: documents are one list.
pub fn report_all(
    waited: Waited,
    format: Format,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let ended = worst(&waited);
    let documents: Vec<OperationDocument> = waited.over.into_iter().map(OperationDocument::from).collect();
    if format == Format::Text {
        for document in &documents {
            printer.out(&operation::result(document, printer.width()))?;
        }
    } else {
        printer.value(&documents, format)?;
    }
    talk_about(&waited.left, state_dir, printer);
    Ok(ended)
}

fn one(document: &OperationDocument, format: Format, printer: &Printer) -> Result<(), CliError> {
    match format {
        Format::Text => printer.out(&operation::result(document, printer.width())),
        Format::Json | Format::Yaml => printer.value(document, format),
    }
}

fn worst(waited: &Waited) -> Ended {
    if !waited.left.is_empty() {
        return Ended::NotFinished;
    }
    let failed = waited.over.iter().map(|view| view.phase).find(|phase| phase.is_unsuccessful());
    Ended::Operation(failed.unwrap_or(OperationPhase::Succeeded))
}

fn talk_about(left: &[(tidegate_model::OperationId, Left)], state_dir: &StateDir, printer: &Printer) {
    let hint = state_dir.hint();
    for (id, why) in left {
        let first = match why {
            Left::Paused { .. } => format!("let it go on with `tidegate ops unpause {id}{hint}`, then "),
            Left::TimedOut(_) | Left::Interrupted(_) => String::new(),
        };
        printer.note(&format!(
            "operation {id} was left as it is: {}; {first}go on with `tidegate resume {id} --sim{hint}`",
            why.reason()
        ));
    }
}
