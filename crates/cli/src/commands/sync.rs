//! `tidegate sync`: one operation, from its manifests to its result.

use tidegate_executor::{GateDefinitions, Targets};
use tidegate_model::{Action, Plan};
use tidegate_planner::{Target, is_left_out};
use tidegate_service::clusters;
use tidegate_service::state_dir::StateDir;

use super::operation::{Work, carry_out};
use super::{kept, plan};
use crate::args::SyncArgs;
use crate::customizations;
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::{Printer, counted};
use crate::request;

pub async fn run(args: &SyncArgs, printer: &Printer) -> Result<Ended, CliError> {
    if let Some(named) = &args.plan {
        return kept::carry_out(named, args, printer).await;
    }
    // Without a plan its options exclude each other, so that the parser does not miss it.
    if args.allow_drift {
        return Err(CliError::usage("--allow-drift is about a kept plan; name it with --plan".to_owned()));
    }
    let manifests = input::load(&args.source.paths, args.source.wanted())?;
    let definitions = input::definitions(args.selection.definitions.as_deref())?;
    let health = customizations::given(&args.scripts, printer)?;
    let state_dir = StateDir::resolve(args.state.named())?;
    let chosen = clusters::choose(args.cluster.connection().as_ref(), printer).await?;
    let request = request::of_sync(args, &chosen, &manifests, printer)?;
    if args.selection.strict {
        let targets = targets(manifests.targets.clone(), definitions.clone(), args);
        let warnings = plan::preview(&request, targets, &chosen, &state_dir, printer).await?.plan.warnings;
        if !warnings.is_empty() {
            return Err(CliError::Strict { warnings });
        }
    }
    if manifests.targets.iter().all(|target| is_left_out(&target.object)) && args.selection.prune {
        let planned = plan::preview(&request, Targets::default(), &chosen, &state_dir, printer).await?;
        name_what_goes(&planned.plan, printer);
    }
    let targets = targets(manifests.targets, definitions, args);
    let work = Work { request, targets, chosen, health, claim: &args.claim, waiting: &args.waiting };
    carry_out(work, &state_dir, printer).await
}

fn targets(targets: Vec<Target>, definitions: GateDefinitions, args: &SyncArgs) -> Targets {
    Targets { targets, gates: args.selection.gates.clone(), definitions, ..Targets::default() }
}

/// The application is to have no objects: what that removes is named before anything is.
fn name_what_goes(plan: &Plan, printer: &Printer) {
    let pruned: Vec<_> = plan.tasks.iter().filter(|task| task.action == Action::Prune).collect();
    let number = u32::try_from(pruned.len()).unwrap_or(u32::MAX);
    printer.warn(&format!("the input is empty: {} will be pruned", counted(number, "object", "objects")));
    for task in pruned {
        printer.note(&format!("to be pruned: {}", task.key()));
    }
}
