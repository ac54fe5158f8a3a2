//! `tidegate explain`: why an operation is where it is.

use super::finish::way_on;
use crate::args::{ExplainArgs, Format};
use crate::control::{Reply, Request};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, operation};
use crate::reach;
use crate::state_dir::StateDir;

pub async fn run(args: &ExplainArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(&args.state)?;
    let question = |operation| Request::Inspect { operation };
    let inspected = match reach::ask_about(&state_dir, printer, &args.id, question).await? {
        Reply::Operation(inspected) => inspected,
        other => return Err(reach::unexpected(&other)),
    };
    match args.output {
        Format::Text => {
            let explanation = &inspected.explanation;
            printer.out(&operation::explain(explanation, printer.width()))?;
            if explanation.is_left_alone() {
                printer.note(&way_on(explanation.id, explanation.paused.is_some(), &state_dir));
            }
        }
        format => printer.value(&inspected.explanation, format)?,
    }
    Ok(Ended::Done)
}
