//! `tidegate appset`: what ApplicationSets make, and those that a `tidegate serve` looks after.

mod delete;
mod desk;
mod files;
mod generate;
mod plan;
mod runs;

use tidegate_applicationset::rollout::full_name;
use tidegate_service::control::protocol::Request;
use tidegate_service::sets::{SetExplanation, SetWish};

use super::app::desk::Desk;
use crate::args::{AppsetCommand, Format, OneSetArgs, ServiceArgs, SetWishArgs};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, Text, set};

pub async fn run(command: AppsetCommand, printer: &Printer) -> Result<Ended, CliError> {
    match command {
        // Repositories are read with calls that wait.
        AppsetCommand::Generate(args) => tokio::task::block_in_place(|| generate::run(&args, printer)),
        AppsetCommand::Plan(args) => plan::run(&args, printer).await,
        AppsetCommand::List { output, service } => list(output, &service, printer).await,
        AppsetCommand::Get(one) => get(&one, printer).await,
        AppsetCommand::Status(one) => status(&one, printer).await,
        AppsetCommand::Explain(one) => explain(&one, printer).await,
        AppsetCommand::Runs(args) => runs::list(&args, printer).await,
        AppsetCommand::ShowRun(args) => runs::show(&args, printer).await,
        AppsetCommand::ExportRun(args) => runs::export(&args, printer).await,
        AppsetCommand::Approve(args) => {
            let asked = match args.deletions {
                Some(token) => SetWish::ApproveDeletions { token },
                None => SetWish::Approve { step: args.step },
            };
            wish(args.wish, asked).await
        }
        AppsetCommand::Pause(args) => wish(args, SetWish::Pause).await,
        AppsetCommand::Resume(args) => wish(args, SetWish::Resume).await,
        AppsetCommand::Skip(args) => {
            let asked = SetWish::Skip { step: args.members.step, member: args.members.app };
            wish(SetWishArgs { name: args.name, reason: args.reason, service: args.service }, asked).await
        }
        AppsetCommand::Retry(args) => {
            wish(args.wish, SetWish::Retry { step: args.members.step, member: args.members.app }).await
        }
        AppsetCommand::Terminate(args) => wish(args, SetWish::Terminate).await,
        AppsetCommand::Refresh { name, service } => {
            let desk = Desk::of(&service)?;
            let name = desk::named(&desk, &name).await?;
            desk::tell(&desk, &Request::RefreshApplicationSet { name }).await?;
            Ok(Ended::Done)
        }
        AppsetCommand::Delete(args) => delete::run(&args, printer).await,
    }
}

async fn wish(args: SetWishArgs, wish: SetWish) -> Result<Ended, CliError> {
    let SetWishArgs { name, reason, service } = args;
    let desk = Desk::of(&service)?;
    let name = desk::named(&desk, &name).await?;
    desk::tell(&desk, &Request::WishApplicationSet { name, wish, by: String::new(), reason }).await?;
    Ok(Ended::Done)
}

async fn list(output: Format, service: &ServiceArgs, printer: &Printer) -> Result<Ended, CliError> {
    let found = desk::look(&Desk::of(service)?, printer, None).await?;
    found.problems.iter().for_each(|problem| printer.warn(problem));
    match output {
        Format::Text if found.sets.is_empty() => printer.note("there are no ApplicationSets"),
        Format::Text => printer.out(&set::list(&found.sets, printer.width()))?,
        format => printer.value(&set::document(&found.sets), format)?,
    }
    Ok(Ended::Done)
}

async fn get(args: &OneSetArgs, printer: &Printer) -> Result<Ended, CliError> {
    let found =
        desk::only(desk::look(&Desk::of(&args.service)?, printer, Some(&args.name)).await?, &args.name)?;
    match args.output {
        Format::Text => printer.out(&set::show(&found, printer.width()))?,
        format => printer.value(&found, format)?,
    }
    Ok(Ended::Done)
}

async fn status(args: &OneSetArgs, printer: &Printer) -> Result<Ended, CliError> {
    let explanation = explained(args, printer).await?;
    match args.output {
        Format::Text => printer.out(&set::status(&explanation, printer.width()))?,
        format => printer.value(&explanation, format)?,
    }
    Ok(Ended::Done)
}

async fn explained(args: &OneSetArgs, printer: &Printer) -> Result<SetExplanation, CliError> {
    let desk = Desk::of(&args.service)?;
    let found = desk::look(&desk, printer, Some(&args.name)).await?;
    let name = full_name(&desk::only(found, &args.name)?);
    Ok(desk::look_explained(&desk, printer, &name).await?)
}

async fn explain(args: &OneSetArgs, printer: &Printer) -> Result<Ended, CliError> {
    let explanation = explained(args, printer).await?;
    match args.output {
        Format::Text => {
            let mut text = Text::plain(format!("{}: {}", explanation.set, explanation.line));
            text.end_line();
            printer.out(&text)?;
        }
        format => printer.value(&explanation, format)?,
    }
    Ok(Ended::Done)
}
