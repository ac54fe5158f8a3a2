//! `appset runs`, `appset show-run` and `appset export-run`: records of rollouts and deletions.

use tidegate_daemon::{operation_access, runs};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_views::runs::{RunSummary, RunWithEvents};

use crate::args::{ExportRunArgs, Format, RecordFormat, RunsArgs, ServiceArgs, ShowRunArgs};
use crate::commands::app::service_client::ServiceClient;
use crate::commands::export::write_record;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{self, Printer};

pub async fn list(args: &RunsArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let name = args.name.as_deref();
    let mut lines = load_runs(&args.service, name, printer).await?;
    let limit = args.limit.unwrap_or(lines.len());
    lines.drain(..lines.len().saturating_sub(limit));
    match args.output {
        Format::Text if lines.is_empty() => {
            let of = name.map(|name| format!(" of {name}")).unwrap_or_default();
            printer.note(&format!("no rollouts or deletions{of} are recorded"));
        }
        Format::Text => printer.print(&output::runs::list(&lines, SystemClock.now(), printer.width()))?,
        format => printer.print_value(&lines, format)?,
    }
    Ok(CommandOutcome::Done)
}

pub async fn show(args: &ShowRunArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let RunWithEvents { run, facts: events } = &load_run(&args.service, &args.id, printer).await?;
    match (args.log, args.output) {
        (false, Format::Text) => printer.print(&output::runs::show(run, printer.width()))?,
        (false, format) => printer.print_value(run, format)?,
        (true, Format::Text) => {
            if run.compacted_events > 0 && !events.is_empty() {
                printer.note(&format!("the {} oldest events were compacted", run.compacted_events));
            }
            printer.print(&output::runs::event_table(events, printer.width()))?;
        }
        (true, format) => printer.print_value(events, format)?,
    }
    Ok(CommandOutcome::Done)
}

pub async fn export(args: &ExportRunArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let run = load_run(&args.service, &args.id, printer).await?;
    let now = SystemClock.now();
    let content = match args.file.format() {
        RecordFormat::Json => output::encode_document(&run.record(now), Format::Json)?,
        RecordFormat::Html => run.render_page(now),
    };
    let line = &run.run.line;
    let what = format!("{} {}", line.kind.word(), line.id);
    write_record(args.file.output.as_deref(), &content, &what, printer)?;
    Ok(CommandOutcome::Done)
}

async fn load_runs(
    service: &ServiceArgs,
    name: Option<&str>,
    printer: &Printer,
) -> Result<Vec<RunSummary>, CliError> {
    Ok(match ServiceClient::from_args(service)? {
        ServiceClient::Local(state_dir) => operation_access::list_runs(&state_dir, printer, name).await?,
        ServiceClient::Remote(remote) => remote.runs(name).await?,
    })
}

/// Loads the run. Prints a note if its details were compacted.
async fn load_run(service: &ServiceArgs, id: &str, printer: &Printer) -> Result<RunWithEvents, CliError> {
    let run = match ServiceClient::from_args(service)? {
        ServiceClient::Local(state_dir) => operation_access::find_run(&state_dir, printer, id).await?,
        ServiceClient::Remote(remote) => remote.run(id).await?,
    };
    if let Some(compacted) = runs::compacted_error(&run) {
        printer.warn(&compacted.to_string());
    }
    if let Some(damage) = &run.run.line.damage {
        printer.warn(&format!("the record is damaged: {damage}"));
    }
    Ok(run)
}
