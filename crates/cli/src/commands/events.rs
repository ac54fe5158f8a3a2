//! `tidegate ops events`: past and live events of an operation.

use std::time::Duration;

use tidegate_daemon::operation_access;
use tidegate_model::OperationId;
use tidegate_state::state_dir::StateDir;
use tidegate_views::protocol::{EventPage, Reply, Request};

use super::report;
use crate::args::{EventsArgs, Format};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, events};

/// Poll interval for a process that doesn't support waiting for events.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

pub async fn run(args: &EventsArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(args.one.state.state_dir())?;
    let mut after = args.after;
    // Resolve the operation only once: the name may refer to another one later.
    let mut id = args.one.id.clone();
    loop {
        let mut which = None;
        let question = |operation| {
            which = Some(operation);
            Request::Events { operation, after, wait: args.follow }
        };
        let page = match operation_access::query_operation(&state_dir, printer, &id, question).await? {
            Reply::Events(page) => page,
            other => return Err(operation_access::unexpected_reply_error(&other).into()),
        };
        let Some(operation) = which else { return Ok(CommandOutcome::Done) };
        id = operation.to_string();
        print_page(&page, args, printer)?;
        if page.is_over || !args.follow {
            return Ok(CommandOutcome::Done);
        }
        if page.is_running == Some(false) {
            warn_without_process(operation, &state_dir, printer).await?;
            return Ok(CommandOutcome::NotFinished);
        }
        if page.events.is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        after = page.last;
    }
}

fn print_page(page: &EventPage, args: &EventsArgs, printer: &Printer) -> Result<(), CliError> {
    if let Some(missed) = &page.missed {
        printer.warn(missed);
    }
    match args.one.output {
        Format::Text => printer.print(&events::text(&page.events)),
        format if args.follow => events::documents(&page.events)
            .iter()
            .try_for_each(|document| printer.print_entry(document, format)),
        format => printer.print_value(&events::documents(&page.events), format),
    }
}

/// Warns that no process is running the operation, and suggests a command to continue it.
pub(super) async fn warn_without_process(
    operation: OperationId,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<(), CliError> {
    let summary = operation_access::find_operation(state_dir, printer, &operation.to_string()).await?;
    let way_on = report::continuation_advice(operation, summary.paused, state_dir);
    printer.note(&format!("no process is running the operation, so there will be no more events; {way_on}"));
    Ok(())
}
