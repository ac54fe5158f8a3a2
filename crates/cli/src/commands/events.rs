//! `tidegate ops events`: what happened to an operation, and what happens.

use std::time::Duration;

use tidegate_model::OperationId;
use tidegate_service::control::protocol::{Reply, Request, Told};
use tidegate_service::route;
use tidegate_service::state_dir::StateDir;

use super::report;
use crate::args::{EventsArgs, Format};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, events};

/// How often it is looked again where nobody could wait for us.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub async fn run(args: &EventsArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(args.one.state.named())?;
    let mut after = args.after;
    // Whatever a name means later on: this is the operation that is followed.
    let mut id = args.one.id.clone();
    loop {
        let mut which = None;
        let question = |operation| {
            which = Some(operation);
            Request::Events { operation, after, wait: args.follow }
        };
        let told = match route::ask_about(&state_dir, printer, &id, question).await? {
            Reply::Events(told) => told,
            other => return Err(route::unexpected(&other).into()),
        };
        let Some(operation) = which else { return Ok(Ended::Done) };
        id = operation.to_string();
        tell(&told, args, printer)?;
        if told.is_over || !args.follow {
            return Ok(Ended::Done);
        }
        if told.at_work == Some(false) {
            left_alone(operation, &state_dir, printer).await?;
            return Ok(Ended::NotFinished);
        }
        if told.events.is_empty() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        after = told.last;
    }
}

fn tell(told: &Told, args: &EventsArgs, printer: &Printer) -> Result<(), CliError> {
    if let Some(missed) = &told.missed {
        printer.warn(missed);
    }
    match args.one.output {
        Format::Text => printer.out(&events::text(&told.events)),
        format if args.follow => {
            events::documents(&told.events).iter().try_for_each(|document| printer.entry(document, format))
        }
        format => printer.value(&events::documents(&told.events), format),
    }
}

/// Nobody works on an operation that is to be followed: says how to go on with it.
pub(super) async fn left_alone(
    operation: OperationId,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<(), CliError> {
    let summary = route::find(state_dir, printer, &operation.to_string()).await?;
    let way_on = report::way_on(operation, summary.paused, state_dir);
    printer.note(&format!("no process is at work on it, so nothing follows; {way_on}"));
    Ok(())
}
