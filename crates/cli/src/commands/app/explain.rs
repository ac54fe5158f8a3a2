//! `tidegate app explain`: why the operation of an Application is where it is.

use tidegate_application::{approval, operation};
use tidegate_model::argo::Application;
use tidegate_service::applications::store::AppKey;
use tidegate_service::lines::ApplicationLine;

use super::desk::Desk;
use super::one;
use crate::args::{Format, OneAppArgs};
use crate::commands::explain::show;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;
use crate::output::standing::Standing;

pub async fn run(args: &OneAppArgs, printer: &Printer) -> Result<Ended, CliError> {
    let desk = Desk::of(&args.service)?;
    let application = one(&desk, &args.name, printer).await?;
    if let (Some(waits), Format::Text) = (approval::waiting(&application), args.output) {
        printer.note(waits);
        return Ok(Ended::Done);
    }
    let line = ApplicationLine::from(&application).operation;
    let Some(id) = line.and_then(|operation| operation.id) else {
        return stands(args, &desk, &application, printer).await;
    };
    let explanation = match desk.explain(printer, id).await {
        // Its id is written down before the log has it.
        Err(_) if !operation::has_begun(&application) => {
            return stands(args, &desk, &application, printer).await;
        }
        explained => explained?,
    };
    let state_dir = match &desk {
        Desk::Here(state_dir) => Some(state_dir),
        Desk::There(_) => None,
    };
    show(&explanation, args.output, state_dir, printer)
}

/// How an application stands of which no operation has begun.
async fn stands(
    args: &OneAppArgs,
    desk: &Desk,
    application: &Application,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let operation = ApplicationLine::from(application).operation;
    let window = desk.window(&AppKey::of(application)).await;
    let standing = Standing::of(application, operation, window);
    match args.output {
        Format::Text => printer.out(&standing.text())?,
        format => printer.value(&standing, format)?,
    }
    Ok(Ended::Done)
}
