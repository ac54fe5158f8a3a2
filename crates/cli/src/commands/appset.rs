//! `tidegate appset`: ApplicationSets managed by `tidegate serve`, and the Applications that ApplicationSets
//! generate.

mod client;
mod delete;
mod files;
mod generate;
mod plan;
mod runs;

use tidegate_applicationset::rollout::qualified_name;
use tidegate_views::appset_actions::{AppSetAction, AppSetExplanation};
use tidegate_views::protocol::Request;

use super::app::service_client::ServiceClient;
use crate::args::{AppSetCommand, AppSetRequestArgs, Format, ServiceArgs, SingleAppSetArgs};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, Text, application_set, format_next_action};

pub async fn run(command: AppSetCommand, printer: &Printer) -> Result<CommandOutcome, CliError> {
    match command {
        // Block in place, because reading repositories is synchronous.
        AppSetCommand::Generate(args) => tokio::task::block_in_place(|| generate::run(&args, printer)),
        AppSetCommand::Plan(args) => plan::run(&args, printer).await,
        AppSetCommand::List { output, service } => list(output, &service, printer).await,
        AppSetCommand::Get(one) => get(&one, printer).await,
        AppSetCommand::Status(one) => status(&one, printer).await,
        AppSetCommand::Explain(one) => explain(&one, printer).await,
        AppSetCommand::Runs(args) => runs::list(&args, printer).await,
        AppSetCommand::ShowRun(args) => runs::show(&args, printer).await,
        AppSetCommand::ExportRun(args) => runs::export(&args, printer).await,
        AppSetCommand::Approve(args) => {
            let action = match args.deletions {
                Some(token) => AppSetAction::ApproveDeletions { token },
                None => AppSetAction::Approve { step: args.step },
            };
            send_request(args.request, action).await
        }
        AppSetCommand::Pause(args) => send_request(args, AppSetAction::Pause).await,
        AppSetCommand::Resume(args) => send_request(args, AppSetAction::Resume).await,
        AppSetCommand::Skip(args) => {
            let action = AppSetAction::Skip { step: args.members.step, member: args.members.app };
            send_request(
                AppSetRequestArgs { name: args.name, reason: args.reason, service: args.service },
                action,
            )
            .await
        }
        AppSetCommand::Retry(args) => {
            send_request(
                args.request,
                AppSetAction::Retry { step: args.members.step, member: args.members.app },
            )
            .await
        }
        AppSetCommand::Terminate(args) => send_request(args, AppSetAction::Terminate).await,
        AppSetCommand::Refresh { name, service } => {
            let service_client = ServiceClient::from_args(&service)?;
            let name = client::resolve_name(&service_client, &name).await?;
            client::send(&service_client, &Request::RefreshApplicationSet { name }).await?;
            Ok(CommandOutcome::Done)
        }
        AppSetCommand::Delete(args) => delete::run(&args, printer).await,
    }
}

async fn send_request(args: AppSetRequestArgs, action: AppSetAction) -> Result<CommandOutcome, CliError> {
    let AppSetRequestArgs { name, reason, service } = args;
    let service_client = ServiceClient::from_args(&service)?;
    let name = client::resolve_name(&service_client, &name).await?;
    client::send(&service_client, &Request::RequestAppSetAction { name, action, by: String::new(), reason })
        .await?;
    Ok(CommandOutcome::Done)
}

async fn list(output: Format, service: &ServiceArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let found = client::find_with_fallback(&ServiceClient::from_args(service)?, printer, None).await?;
    found.problems.iter().for_each(|problem| printer.warn(problem));
    match output {
        Format::Text if found.appsets.is_empty() => printer.note("there are no ApplicationSets"),
        Format::Text => printer.print(&application_set::list(&found.appsets, printer.width()))?,
        format => printer.print_value(&application_set::document(&found.appsets), format)?,
    }
    Ok(CommandOutcome::Done)
}

async fn get(args: &SingleAppSetArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let found = client::expect_single(
        client::find_with_fallback(&ServiceClient::from_args(&args.service)?, printer, Some(&args.name))
            .await?,
        &args.name,
    )?;
    match args.output {
        Format::Text => printer.print(&application_set::show(&found, printer.width()))?,
        format => printer.print_value(&found, format)?,
    }
    Ok(CommandOutcome::Done)
}

async fn status(args: &SingleAppSetArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let explanation = get_explanation(args, printer).await?;
    match args.output {
        Format::Text => printer.print(&application_set::status(&explanation, printer.width()))?,
        format => printer.print_value(&explanation, format)?,
    }
    Ok(CommandOutcome::Done)
}

async fn get_explanation(args: &SingleAppSetArgs, printer: &Printer) -> Result<AppSetExplanation, CliError> {
    let service_client = ServiceClient::from_args(&args.service)?;
    let found = client::find_with_fallback(&service_client, printer, Some(&args.name)).await?;
    let name = qualified_name(&client::expect_single(found, &args.name)?);
    Ok(client::explain_with_fallback(&service_client, printer, &name).await?)
}

async fn explain(args: &SingleAppSetArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let explanation = get_explanation(args, printer).await?;
    match args.output {
        Format::Text => {
            let mut text = Text::plain(format!("{}: {}", explanation.set, explanation.line));
            text.end_line();
            text.append(format_next_action(&explanation.next_action));
            printer.print(&text)?;
        }
        format => printer.print_value(&explanation, format)?,
    }
    Ok(CommandOutcome::Done)
}
