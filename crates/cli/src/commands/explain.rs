//! `tidegate explain`: why an operation is where it is.

use tidegate_service::control::protocol::{Reply, Request};
use tidegate_service::documents::ExplanationDocument;
use tidegate_service::route;
use tidegate_service::state_dir::StateDir;

use super::report::way_on;
use crate::args::{ExplainArgs, Format};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, operation};

pub async fn run(args: &ExplainArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(args.state.named())?;
    let question = |operation| Request::Inspect { operation };
    let inspected = match route::ask_about(&state_dir, printer, &args.id, question).await? {
        Reply::Operation(inspected) => inspected,
        other => return Err(route::unexpected(&other).into()),
    };
    show(&inspected.explanation, args.output, Some(&state_dir), printer)
}

/// Prints why an operation is where it is; and how to go on with one that nobody works on, in a state directory here.
pub fn show(
    explanation: &ExplanationDocument,
    format: Format,
    state_dir: Option<&StateDir>,
    printer: &Printer,
) -> Result<Ended, CliError> {
    match format {
        Format::Text => {
            printer.out(&operation::explain(explanation, printer.width()))?;
            if let Some(state_dir) = state_dir
                && explanation.is_left_alone()
            {
                printer.note(&way_on(explanation.id, explanation.paused.is_some(), state_dir));
            }
        }
        format => printer.value(explanation, format)?,
    }
    Ok(Ended::Done)
}
