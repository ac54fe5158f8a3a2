//! `tidegate app explain`: why the operation of an Application is where it is.

use tidegate_application::{approval, operation};
use tidegate_model::argo::Application;
use tidegate_service::applications::store::AppKey;
use tidegate_service::lines::ApplicationLine;

use super::desk::Desk;
use super::way::Way;
use crate::args::{Format, OneAppArgs};
use crate::commands::explain::show;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;
use crate::output::standing::Standing;

pub async fn run(args: &OneAppArgs, printer: &Printer) -> Result<Ended, CliError> {
    let way = Way::of(&args.way, printer).await?;
    let application = way.one(&args.name, printer).await?;
    if let (Some(waits), Format::Text) = (approval::waiting(&application), args.output) {
        printer.note(waits);
        return Ok(Ended::Done);
    }
    let line = ApplicationLine::from(&*application).operation;
    let (desk, id) = match (&way, line.and_then(|operation| operation.id)) {
        (Way::Service(desk), Some(id)) => (desk, id),
        (_, id) => {
            stands(args, &way, &application, printer).await?;
            if let (Some(id), Format::Text) = (id, args.output) {
                printer.note(&format!(
                    "its resource says no more than that; how far each wave of operation {id} is, and why, is in the log of the service: `tidegate app explain {} --server URL` asks that",
                    args.name
                ));
            }
            return Ok(Ended::Done);
        }
    };
    let explanation = match desk.explain(printer, id).await {
        // Its id is written down before the log has it.
        Err(_) if !operation::has_begun(&application) => {
            return stands(args, &way, &application, printer).await;
        }
        explained => explained?,
    };
    let state_dir = match desk {
        Desk::Here(state_dir) => Some(state_dir),
        Desk::There(_) => None,
    };
    show(&explanation, args.output, state_dir, printer)
}

/// How an application stands by what is known of it itself: all there is to know where no operation of it has begun.
async fn stands(
    args: &OneAppArgs,
    way: &Way,
    application: &Application,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let operation = ApplicationLine::from(application).operation;
    let window = way.window(&AppKey::of(application)).await;
    let standing = Standing::of(application, operation, window);
    match args.output {
        Format::Text => printer.out(&standing.text())?,
        format => printer.value(&standing, format)?,
    }
    Ok(Ended::Done)
}
