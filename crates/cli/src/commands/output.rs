//! `tidegate ops output`: what the hooks of an operation write while they run.

use tidegate_service::control::client;
use tidegate_service::control::protocol::{Reply, Request};
use tidegate_service::documents::output::OutputDocument;
use tidegate_service::route;
use tidegate_service::state_dir::StateDir;

use super::events;
use crate::args::{Format, OneArgs};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;
use crate::output::hooks::HookLines;
use crate::signals::Signals;

pub async fn run(args: &OneArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(args.state.named())?;
    let mut signals = Signals::listen()?;
    let question = |operation| Request::Inspect { operation };
    let inspected = match route::ask_about(&state_dir, printer, &args.id, question).await? {
        Reply::Operation(inspected) => inspected,
        other => return Err(route::unexpected(&other).into()),
    };
    let id = inspected.operation.id;
    if inspected.operation.finished_at.is_some() {
        let hint = state_dir.hint();
        printer.note(&format!(
            "operation {id} is over; `tidegate ops show {id}{hint}` has what failed hooks wrote last"
        ));
        return Ok(Ended::Done);
    }
    let Some(mut following) = client::follow(&state_dir.socket(), id).await? else {
        events::left_alone(id, &state_dir, printer).await?;
        return Ok(Ended::NotFinished);
    };
    let mut lines = HookLines::default();
    loop {
        let told = tokio::select! {
            told = following.next() => told?,
            signal = signals.next() => {
                printer.note(&format!("interrupted by {signal}; the operation goes on"));
                return Ok(Ended::NotFinished);
            }
        };
        match told.map(OutputDocument::from) {
            Some(document) => tell(&document, &mut lines, args.output, printer)?,
            None => return Ok(Ended::Done),
        }
    }
}

fn tell(
    document: &OutputDocument,
    lines: &mut HookLines,
    format: Format,
    printer: &Printer,
) -> Result<(), CliError> {
    match format {
        Format::Text => {
            let mut text = lines.text(document);
            text.end_line();
            printer.out(&text)
        }
        format => printer.entry(document, format),
    }
}
