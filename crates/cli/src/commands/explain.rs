//! `tidegate explain`: the reason for an operation's current state.

use tidegate_daemon::operation_access;
use tidegate_state::state_dir::StateDir;
use tidegate_views::ExplanationDocument;
use tidegate_views::protocol::{Reply, Request};

use crate::args::{ExplainArgs, Format};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, format_next_action, operation};

pub async fn run(args: &ExplainArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(args.state.state_dir())?;
    let question = |operation| Request::Inspect { operation };
    let inspected = match operation_access::query_operation(&state_dir, printer, &args.id, question).await? {
        Reply::Operation(inspected) => inspected,
        other => return Err(operation_access::unexpected_reply_error(&other).into()),
    };
    show(&inspected.explanation, args.output, printer)
}

/// Prints an explanation and the next action.
pub fn show(
    explanation: &ExplanationDocument,
    format: Format,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    match format {
        Format::Text => {
            let mut text = operation::explain(explanation, printer.width());
            text.append(format_next_action(&explanation.next_action));
            printer.print(&text)?;
        }
        format => printer.print_value(explanation, format)?,
    }
    Ok(CommandOutcome::Done)
}
