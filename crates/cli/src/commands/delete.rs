//! `tidegate delete`: deletes an application and all of its objects in reverse sync order.

use tidegate_executor::Targets;
use tidegate_model::{Action, Cascade};
use tidegate_planner::PlanResult;
use tidegate_state::clusters;
use tidegate_state::last_sync::{LastSync, find_last_sync};
use tidegate_state::state_dir::StateDir;

use super::operation::{OperationInput, run_and_report};
use super::plan;
use crate::args::{DeleteArgs, Format, PlanFormat};
use crate::customizations;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::input::{self, Manifests, requirements::InputRequirements};
use crate::output::plan::{self as plans, PlanReport};
use crate::output::{Printer, format_count};
use crate::request;

pub async fn run(args: &DeleteArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let given = match args.paths.as_slice() {
        [] => None,
        paths => Some(input::load(
            paths,
            InputRequirements { can_be_empty: true, ..InputRequirements::default() },
        )?),
    };
    let health = customizations::load_rules(&args.scripts, printer)?;
    let state_dir = StateDir::resolve(args.state.state_dir())?;
    let cluster = clusters::select_cluster(args.cluster.connection().as_ref(), printer).await?;
    let last = find_last_sync(&state_dir, None, &cluster.destination(), &args.app, printer)?;
    let mut request = request::deletion_request(args, &cluster, given.as_ref(), last.as_ref())?;
    let known = last.as_ref().filter(|_| given.is_none());
    let deleted_by = known.filter(|last| last.is_deletion).map(|last| last.operation);
    let is_unknown = deleted_by.is_some() || (given.is_none() && last.is_none());
    request.options.skip_hooks |= deleted_by.is_some();
    let targets = select_hooks(given, last, args, printer);
    if !args.dry_run && (is_unknown || !args.yes) {
        let planned = plan::preview_plan(&request, targets.clone(), &cluster, &state_dir, printer).await?;
        if is_unknown && planned.plan.tasks.is_empty() {
            return Err(CliError::usage(match deleted_by {
                Some(operation) => format!(
                    "application {} no longer exists: operation {operation} deleted it, and the cluster \
                     contains none of its objects",
                    args.app
                ),
                None => format!(
                    "unknown application {}: neither the operation log nor the cluster contains it; check --app, -n, --context and --state-dir",
                    args.app
                ),
            }));
        }
        if !args.yes {
            return show_plan(args, &planned, &format!("the {}", cluster.destination()), printer);
        }
    }
    let work =
        OperationInput { request, targets, cluster, health, claim: &args.claim, waiting: &args.waiting };
    run_and_report(work, &state_dir, printer).await
}

/// Returns the manifests with deletion hooks: those in the arguments, or else those of the last sync.
fn select_hooks(
    given: Option<Manifests>,
    last: Option<LastSync>,
    args: &DeleteArgs,
    printer: &Printer,
) -> Targets {
    let targets = match (given, last) {
        (Some(given), _) => Targets { targets: given.targets, ..Targets::default() },
        (None, Some(LastSync { operation, targets, is_deletion: true, .. })) => {
            printer.note(&format!(
                "operation {operation} already deleted the application: its deletion hooks will not run \
                 again, and only the remaining objects will be deleted"
            ));
            targets
        }
        (None, Some(LastSync { operation, targets, .. })) => {
            printer.note(&format!("using the deletion hooks recorded in operation {operation}"));
            targets
        }
        (None, None) => {
            printer.warn(&format!(
                "the operation log has no manifests for application {}, so its deletion hooks are unknown; \
                 pass the files that contain them",
                args.app
            ));
            Targets::default()
        }
    };
    // Gates apply only to sync waves.
    Targets { gates: Vec::new(), ..targets }
}

/// Shows a deletion's plan without executing it.
fn show_plan(
    args: &DeleteArgs,
    planned: &PlanResult,
    compared_with: &str,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let PlanResult { plan, excluded, .. } = planned;
    let numbers = &plan.wave_numbers(true);
    let report = PlanReport { application: &args.app, compared_with, plan, numbers, excluded, judges: &[] };
    let format = match args.waiting.output {
        Format::Text => PlanFormat::Tree,
        Format::Json => PlanFormat::Json,
        Format::Yaml => PlanFormat::Yaml,
    };
    plans::print(&report, format, printer)?;
    if !plan.errors().is_empty() {
        return Ok(CommandOutcome::InvalidPlan);
    }
    let goes = plan.tasks.iter().filter(|task| task.action == Action::Prune).count();
    let goes = format_count(u32::try_from(goes).unwrap_or(u32::MAX), "object", "objects");
    let what = if Cascade::from(args.cascade).deletes_objects() {
        format!("with {goes}")
    } else {
        "and keep its objects".to_owned()
    };
    Err(CliError::usage(format!("nothing was deleted; use --yes to delete application {} {what}", args.app)))
}
