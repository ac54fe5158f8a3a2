//! `tidegate sync`: runs one operation from its manifests to its result.

use tidegate_executor::{GateDefinitions, Targets};
use tidegate_model::{Action, Plan};
use tidegate_planner::{Target, is_excluded_from_sync};
use tidegate_state::clusters;
use tidegate_state::state_dir::StateDir;

use super::operation::{OperationInput, run_and_report};
use super::{plan, stored_plan};
use crate::args::SyncArgs;
use crate::customizations;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::input;
use crate::output::{Printer, format_count};
use crate::request;

pub async fn run(args: &SyncArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    if let Some(named) = &args.plan {
        return stored_plan::execute_plan(named, args, printer).await;
    }
    // The argument parser can't check this, because `--plan` conflicts with the options that a plan
    // determines.
    if args.allow_drift {
        return Err(CliError::usage(
            "--allow-drift requires a stored plan; select it with --plan".to_owned(),
        ));
    }
    let manifests = input::load(&args.source.paths, args.source.input_requirements())?;
    let definitions = input::load_definitions(args.selection.definitions.as_deref())?;
    let health = customizations::load_rules(&args.scripts, printer)?;
    let state_dir = StateDir::resolve(args.state.state_dir())?;
    let cluster = clusters::select_cluster(args.cluster.connection().as_ref(), printer).await?;
    let request = request::sync_request(args, &cluster, &manifests, printer)?;
    if args.selection.strict {
        let targets = build_targets(manifests.targets.clone(), definitions.clone(), args);
        let warnings =
            plan::preview_plan(&request, targets, &cluster, &state_dir, printer).await?.plan.warnings;
        if !warnings.is_empty() {
            return Err(CliError::Strict { warnings });
        }
    }
    if manifests.targets.iter().all(|target| is_excluded_from_sync(&target.object)) && args.selection.prune {
        let planned = plan::preview_plan(&request, Targets::default(), &cluster, &state_dir, printer).await?;
        print_removed_objects(&planned.plan, printer);
    }
    let targets = build_targets(manifests.targets, definitions, args);
    let work =
        OperationInput { request, targets, cluster, health, claim: &args.claim, waiting: &args.waiting };
    run_and_report(work, &state_dir, printer).await
}

fn build_targets(targets: Vec<Target>, definitions: GateDefinitions, args: &SyncArgs) -> Targets {
    Targets { targets, gates: args.selection.gates.clone(), definitions, ..Targets::default() }
}

/// Prints the objects that the sync would remove if it would leave the application without objects.
fn print_removed_objects(plan: &Plan, printer: &Printer) {
    let pruned: Vec<_> = plan.tasks.iter().filter(|task| task.action == Action::Prune).collect();
    let number = u32::try_from(pruned.len()).unwrap_or(u32::MAX);
    printer
        .warn(&format!("the input is empty: {} will be pruned", format_count(number, "object", "objects")));
    for task in pruned {
        printer.note(&format!("to prune: {}", task.key()));
    }
}
