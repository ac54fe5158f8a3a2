//! `appset runs`, `appset show-run` and `appset export-run`: the record of rollouts and deletions.

use tidegate_executor::{Clock as _, SystemClock};
use tidegate_service::documents::runs::{Run, RunLine};
use tidegate_service::{route, runs};

use crate::args::{ExportRunArgs, Format, RecordFormat, RunsArgs, ServiceArgs, ShowRunArgs};
use crate::commands::app::desk::Desk;
use crate::commands::export::give;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{self, Printer};

pub async fn list(args: &RunsArgs, printer: &Printer) -> Result<Ended, CliError> {
    let name = args.name.as_deref();
    let mut lines = listed(&args.service, name, printer).await?;
    let limit = args.limit.unwrap_or(lines.len());
    lines.drain(..lines.len().saturating_sub(limit));
    match args.output {
        Format::Text if lines.is_empty() => {
            let of = name.map(|name| format!(" of {name}")).unwrap_or_default();
            printer.note(&format!("no rollout and no deletion{of} is recorded"));
        }
        Format::Text => printer.out(&output::runs::list(&lines, SystemClock.now(), printer.width()))?,
        format => printer.value(&lines, format)?,
    }
    Ok(Ended::Done)
}

pub async fn show(args: &ShowRunArgs, printer: &Printer) -> Result<Ended, CliError> {
    let Run { run, facts } = &recorded(&args.service, &args.id, printer).await?;
    match (args.log, args.output) {
        (false, Format::Text) => printer.out(&output::runs::show(run, printer.width()))?,
        (false, format) => printer.value(run, format)?,
        (true, Format::Text) => {
            if run.compacted > 0 && !facts.is_empty() {
                printer.note(&format!("the {} oldest facts were compacted", run.compacted));
            }
            printer.out(&output::runs::log(facts, printer.width()))?;
        }
        (true, format) => printer.value(facts, format)?,
    }
    Ok(Ended::Done)
}

pub async fn export(args: &ExportRunArgs, printer: &Printer) -> Result<Ended, CliError> {
    let run = recorded(&args.service, &args.id, printer).await?;
    let now = SystemClock.now();
    let content = match args.format() {
        RecordFormat::Json => output::document(&run.record(now), Format::Json)?,
        RecordFormat::Html => run.page(now),
    };
    let line = &run.run.line;
    let what = format!("{} {}", line.kind.word(), line.id);
    give(args.output.as_deref(), &content, &what, printer)?;
    Ok(Ended::Done)
}

async fn listed(
    service: &ServiceArgs,
    name: Option<&str>,
    printer: &Printer,
) -> Result<Vec<RunLine>, CliError> {
    Ok(match Desk::of(service)? {
        Desk::Here(state_dir) => route::run_list(&state_dir, printer, name).await?,
        Desk::There(remote) => remote.runs(name).await?,
    })
}

/// The one that is meant, and that its details are gone, where they are.
async fn recorded(service: &ServiceArgs, id: &str, printer: &Printer) -> Result<Run, CliError> {
    let run = match Desk::of(service)? {
        Desk::Here(state_dir) => route::run(&state_dir, printer, id).await?,
        Desk::There(remote) => remote.run(id).await?,
    };
    if let Some(compacted) = runs::compacted(&run) {
        printer.warn(&compacted.to_string());
    }
    if let Some(damage) = &run.run.line.damage {
        printer.warn(&format!("it is damaged: {damage}"));
    }
    Ok(run)
}
