//! `tidegate ops output`: shows the live output of an operation's hooks.

use tidegate_daemon::control::client;
use tidegate_daemon::operation_access;
use tidegate_state::state_dir::StateDir;
use tidegate_views::output::OutputDocument;
use tidegate_views::protocol::{Reply, Request};

use super::events;
use crate::args::{Format, SingleOperationArgs};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::Printer;
use crate::output::hooks::HookLines;
use crate::signals::Signals;

pub async fn run(args: &SingleOperationArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(args.state.state_dir())?;
    let mut signals = Signals::listen()?;
    let question = |operation| Request::Inspect { operation };
    let inspected = match operation_access::query_operation(&state_dir, printer, &args.id, question).await? {
        Reply::Operation(inspected) => inspected,
        other => return Err(operation_access::unexpected_reply_error(&other).into()),
    };
    let id = inspected.operation.id;
    if inspected.operation.finished_at.is_some() {
        let hint = state_dir.command_arguments();
        printer.note(&format!(
            "operation {id} has ended; `tidegate ops show {id}{hint}` prints the last output of failed hooks"
        ));
        return Ok(CommandOutcome::Done);
    }
    let Some(mut following) = client::stream_output(&state_dir.socket(), id).await? else {
        events::warn_without_process(id, &state_dir, printer).await?;
        return Ok(CommandOutcome::NotFinished);
    };
    let mut lines = HookLines::default();
    loop {
        let next_output = tokio::select! {
            next_output = following.next() => next_output?,
            signal = signals.next() => {
                printer.note(&format!("interrupted by {signal}; the operation continues"));
                return Ok(CommandOutcome::NotFinished);
            }
        };
        match next_output.map(OutputDocument::from) {
            Some(document) => print_output(&document, &mut lines, args.output, printer)?,
            None => return Ok(CommandOutcome::Done),
        }
    }
}

fn print_output(
    document: &OutputDocument,
    lines: &mut HookLines,
    format: Format,
    printer: &Printer,
) -> Result<(), CliError> {
    match format {
        Format::Text => {
            let mut text = lines.format_line(document);
            text.end_line();
            printer.print(&text)
        }
        format => printer.print_entry(document, format),
    }
}
