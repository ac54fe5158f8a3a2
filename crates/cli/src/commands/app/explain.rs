//! `tidegate app explain`: why the operation of an Application is where it is.

use tidegate_service::lines::ApplicationLine;

use super::desk::Desk;
use super::one;
use crate::args::{Format, OneAppArgs};
use crate::commands::report::way_on;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, operation};

pub async fn run(args: &OneAppArgs, printer: &Printer) -> Result<Ended, CliError> {
    let desk = Desk::of(&args.service)?;
    let found = ApplicationLine::from(&one(&desk, &args.name, printer).await?);
    let Some(id) = found.operation.and_then(|operation| operation.id) else {
        printer.note(&format!(
            "no operation of {} has begun; `tidegate app get` shows how it stands",
            args.name
        ));
        return Ok(Ended::Done);
    };
    let explanation = desk.explain(printer, id).await?;
    match args.output {
        Format::Text => {
            printer.out(&operation::explain(&explanation, printer.width()))?;
            if let Desk::Here(state_dir) = &desk
                && explanation.is_left_alone()
            {
                printer.note(&way_on(explanation.id, explanation.paused.is_some(), state_dir));
            }
        }
        format => printer.value(&explanation, format)?,
    }
    Ok(Ended::Done)
}
