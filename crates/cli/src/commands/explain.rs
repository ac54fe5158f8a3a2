//! `tidegate explain`: why an operation is where it is.

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
        Format::Text => printer.out(&operation::explain(&inspected.explanation, printer.width()))?,
        format => printer.value(&inspected.explanation, format)?,
    }
    Ok(Ended::Done)
}
