//! `tidegate app plan`, `plans` and `approve`: kept plans of an Application.

use tidegate_model::WaveNumbers;
use tidegate_service::applications::asking::{self, SyncWish};
use tidegate_service::control::protocol::Request;
use tidegate_service::documents::plan::kept;
use tidegate_service::lines::PlanLine;

use super::sync::{named, several};
use super::way::Way;
use crate::args::{AppApproveArgs, AppPlanArgs, Format, PlanFormat, WayArgs};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::plan::{self, PlanReport};
use crate::output::{Printer, plans};

/// What these are about.
const PLANS: &str = "which plans are kept, and what a sync would do,";

pub async fn make(args: &AppPlanArgs, printer: &Printer) -> Result<Ended, CliError> {
    let desk = Way::service(&args.way, PLANS)?;
    let name = args.name.clone();
    let request = match &args.hash {
        Some(hash) => Request::KeptPlan { name, hash: hash.clone(), by: String::new() },
        None => {
            let known = desk.one(&args.name, printer).await?;
            let wish = SyncWish {
                revision: args.revisions.revision.clone().unwrap_or_default(),
                revisions: several(&args.revisions, &known)?,
                prune: args.prune,
                resources: args.resources.iter().map(named).collect(),
                ..SyncWish::default()
            };
            Request::PlanApplication { name, operation: Box::new(asking::sync(&known, wish)) }
        }
    };
    let (line, plan) = desk.plan(&request).await?;
    match args.output {
        PlanFormat::Json => printer.value(&kept(&line, &plan), Format::Json)?,
        PlanFormat::Yaml => printer.value(&kept(&line, &plan), Format::Yaml)?,
        format => {
            let compared_with = format!("its cluster, at {}", line.made_at);
            let report = PlanReport {
                application: &args.name,
                compared_with: &compared_with,
                plan: &plan,
                numbers: &WaveNumbers::default(),
                left_out: &[],
                judges: &[],
            };
            plan::print(&report, format, printer)?;
            if format == PlanFormat::Tree {
                printer.out(&plans::what_next(&args.name, &line))?;
            }
        }
    }
    Ok(if plan.errors().is_empty() { Ended::Done } else { Ended::InvalidPlan })
}

pub async fn list(
    name: Option<String>,
    output: Format,
    way: &WayArgs,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let lines = Way::service(way, PLANS)?.plans(&Request::Plans { name, by: String::new() }).await?;
    match output {
        Format::Text if lines.is_empty() => printer.note("no plan is kept"),
        Format::Text => printer.out(&plans::list(&lines, printer.width()))?,
        format => printer.value(&lines, format)?,
    }
    Ok(Ended::Done)
}

pub async fn approve(args: &AppApproveArgs, printer: &Printer) -> Result<Ended, CliError> {
    let (name, hash, reason) = (args.name.clone(), args.hash.clone(), args.reason.clone());
    let request = Request::ApprovePlan { name, hash, reason, by: String::new() };
    let lines = Way::service(&args.way, PLANS)?.plans(&request).await?;
    lines.iter().for_each(|line| printer.note(&said(&args.name, line)));
    Ok(Ended::Done)
}

/// What has come of an approval.
fn said(name: &str, line: &PlanLine) -> String {
    let short = line.short();
    match &line.needs {
        Some(who) => format!("plan {short} is approved by you; it still needs {who}"),
        None => format!(
            "plan {short} is approved; `tidegate app get {name}` shows the sync that it is for, if one waits for it"
        ),
    }
}
