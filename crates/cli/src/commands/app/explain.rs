//! `tidegate app explain`: why the operation of an Application is where it is.

use tidegate_application::approval;
use tidegate_service::lines::ApplicationLine;

use super::desk::Desk;
use super::one;
use crate::args::OneAppArgs;
use crate::commands::explain::show;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;

pub async fn run(args: &OneAppArgs, printer: &Printer) -> Result<Ended, CliError> {
    let desk = Desk::of(&args.service)?;
    let found = one(&desk, &args.name, printer).await?;
    if let Some(waits) = approval::waiting(&found) {
        printer.note(waits);
        return Ok(Ended::Done);
    }
    let found = ApplicationLine::from(&found);
    let Some(id) = found.operation.and_then(|operation| operation.id) else {
        printer.note(&format!(
            "no operation of {} has begun; `tidegate app get` shows how it stands",
            args.name
        ));
        return Ok(Ended::Done);
    };
    let explanation = desk.explain(printer, id).await?;
    let state_dir = match &desk {
        Desk::Here(state_dir) => Some(state_dir),
        Desk::There(_) => None,
    };
    show(&explanation, args.output, state_dir, printer)
}
