//! `tidegate app plan`, `plans` and `approve`: an Application's stored plans.

use tidegate_app_controller::sync_request::{self, SyncParameters};
use tidegate_model::WaveNumbers;
use tidegate_state::summaries::PlanSummary;
use tidegate_views::plan::stored_plan_document;
use tidegate_views::protocol::Request;

use super::sync::{operation_resource, source_revisions};
use super::transport::Transport;
use crate::args::{AppApproveArgs, AppPlanArgs, Format, PlanFormat, TransportArgs};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::plan::{self, PlanReport};
use crate::output::{Printer, plans};

/// Subject of error messages.
const SUBJECT: &str = "a plan";

pub async fn create(args: &AppPlanArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let client = Transport::service_client(&args.transport, SUBJECT)?;
    let name = args.name.clone();
    let request = match &args.hash {
        Some(hash) => Request::StoredPlan { name, hash: hash.clone(), by: String::new() },
        None => {
            let known = client.get(&args.name, printer).await?;
            let action = SyncParameters {
                revision: args.revisions.revision.clone().unwrap_or_default(),
                revisions: source_revisions(&args.revisions, &known)?,
                prune: args.prune,
                resources: args.resources.iter().map(operation_resource).collect(),
                ..SyncParameters::default()
            };
            Request::PlanApplication {
                name,
                operation: Box::new(sync_request::sync_operation(&known, action)),
            }
        }
    };
    let (line, plan) = client.get_or_create_plan(&request).await?;
    match args.output {
        PlanFormat::Json => printer.print_value(&stored_plan_document(&line, &plan), Format::Json)?,
        PlanFormat::Yaml => printer.print_value(&stored_plan_document(&line, &plan), Format::Yaml)?,
        format => {
            let compared_with = format!("its cluster at {}", line.created_at);
            let report = PlanReport {
                application: &args.name,
                compared_with: &compared_with,
                plan: &plan,
                numbers: &WaveNumbers::default(),
                excluded: &[],
                judges: &[],
            };
            plan::print(&report, format, printer)?;
            if format == PlanFormat::Tree {
                printer.print(&plans::describe_next_steps(&args.name, &line))?;
            }
        }
    }
    Ok(if plan.errors().is_empty() { CommandOutcome::Done } else { CommandOutcome::InvalidPlan })
}

pub async fn list(
    name: Option<String>,
    output: Format,
    transport: &TransportArgs,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let lines = Transport::service_client(transport, SUBJECT)?
        .send_plan_request(&Request::Plans { name, by: String::new() })
        .await?;
    match output {
        Format::Text if lines.is_empty() => printer.note("no plans are stored"),
        Format::Text => printer.print(&plans::list(&lines, printer.width()))?,
        format => printer.print_value(&lines, format)?,
    }
    Ok(CommandOutcome::Done)
}

pub async fn approve(args: &AppApproveArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let (name, hash, reason) = (args.name.clone(), args.hash.clone(), args.reason.clone());
    let request = Request::ApprovePlan { name, hash, reason, by: String::new() };
    let lines = Transport::service_client(&args.transport, SUBJECT)?.send_plan_request(&request).await?;
    lines.iter().for_each(|line| printer.note(&describe_approval(&args.name, line)));
    Ok(CommandOutcome::Done)
}

/// Describes the result of an approval.
fn describe_approval(name: &str, line: &PlanSummary) -> String {
    let short = line.short_hash();
    match &line.missing_approval {
        Some(who) => format!("you have approved plan {short}; it still needs {who}"),
        None => format!(
            "plan {short} is approved; `tidegate app get {name}` shows whether a sync is waiting for the plan"
        ),
    }
}
