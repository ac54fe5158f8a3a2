//! `tidegate explain`: why an operation is where it is.

use tidegate_service::control::protocol::{Reply, Request};
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
