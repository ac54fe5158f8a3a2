//! `tidegate plan`: what a sync would do.

use std::collections::BTreeSet;

use tidegate_executor::effects::{ExtensionNames, NO_OPERATION};
use tidegate_executor::{Clock as _, GateDefinitions, SystemClock, Targets, effects};
use tidegate_health::HealthRules;
use tidegate_model::{Discovery, Object, SyncRequest, Task, WaveNumbers};
use tidegate_planner::{PlanInput, Planned};
use tidegate_service::clusters::{self, Chosen};
use tidegate_service::error::ServiceError;
use tidegate_service::log;
use tidegate_service::outage;
use tidegate_service::state_dir::StateDir;

use super::kept;
use crate::args::PlanArgs;
use crate::customizations;
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::Printer;
use crate::output::plan::{self, PlanReport};
use crate::request;

pub async fn run(args: &PlanArgs, printer: &Printer) -> Result<Ended, CliError> {
    let manifests = input::load(&args.source.paths, args.source.wanted())?;
    let rules = customizations::given(&args.scripts, printer)?;
    let definitions = input::definitions(args.selection.definitions.as_deref())?;
    let gates = args.selection.gates.clone();
    let targets = |targets| Targets { targets, gates, definitions, ..Targets::default() };
    let (request, planned, compared_with) = if args.offline {
        let request = request::of_plan(args, None, &manifests)?;
        let planned = offline(&request, targets(manifests.targets));
        (request, planned, "no cluster, nothing is live".to_owned())
    } else {
        let chosen = clusters::choose(args.cluster.connection().as_ref(), printer).await?;
        let request = request::of_plan(args, Some(&chosen), &manifests)?;
        let state_dir = StateDir::resolve(args.state.named())?;
        let given = targets(manifests.targets);
        let planned = match &args.save {
            None => preview(&request, given, &chosen, &state_dir, printer).await?,
            Some(file) => {
                let work = (request.clone(), given);
                kept::save(work, (&chosen, &state_dir), (file, &args.cluster.hint()), printer).await?
            }
        };
        (request, planned, format!("the {}", chosen.destination()))
    };
    let judges: Vec<_> =
        planned.plan.tasks.iter().map(|task| judge(task, &planned.manifests, &rules)).collect();
    let Planned { plan, left_out, .. } = &planned;
    let (application, compared_with) = (request.application.as_str(), compared_with.as_str());
    let numbers = &WaveNumbers::default();
    let report = PlanReport { application, compared_with, plan, numbers, left_out, judges: &judges };
    plan::print(&report, args.output, printer)?;
    if args.selection.strict && !plan.warnings.is_empty() {
        return Err(CliError::Strict { warnings: plan.warnings.clone() });
    }
    Ok(if plan.errors().is_empty() { Ended::Done } else { Ended::InvalidPlan })
}

/// Who judges the health of the object of a task: a registered judge, or a layer of the rules.
fn judge(task: &Task, manifests: &[Object], rules: &HealthRules) -> Option<&'static str> {
    let manifest = manifests.get(task.manifest?.index())?;
    if task.health_judge.is_some() {
        Some("judge")
    } else {
        rules.layer(manifest).map(|layer| layer.as_str())
    }
}

fn offline(request: &SyncRequest, given: Targets) -> Planned {
    let mut planned = tidegate_planner::plan(PlanInput {
        operation: NO_OPERATION,
        request,
        started_at: SystemClock.now(),
        targets: given.targets,
        live: &[],
        known: &BTreeSet::new(),
        unchanged: &BTreeSet::new(),
        terminating: &BTreeSet::new(),
        discovery: &Discovery::built_in(),
        offline: true,
    });
    Targets::gate(&given.gates, &mut planned.plan);
    effects::review_health(&mut planned);
    without_extensions(planned, &given.definitions)
}

/// The command has no extensions but the gates that are defined, and its plans say so where it matters.
pub(super) fn without_extensions(mut planned: Planned, definitions: &GateDefinitions) -> Planned {
    let known = ExtensionNames { gates: definitions.names().collect(), ..ExtensionNames::default() };
    effects::warn_of_missing_extensions(&mut planned.plan, &known);
    planned
}

/// The plan against a cluster. Leaves nothing behind.
pub async fn preview(
    request: &SyncRequest,
    targets: Targets,
    chosen: &Chosen,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Planned, CliError> {
    let definitions = targets.definitions.clone();
    let (cluster, lock) = chosen.look(state_dir, printer).await?;
    let known = log::inventory(state_dir, lock.as_ref(), request);
    let (cluster, now) = (cluster.as_ref(), SystemClock.now());
    let planning = effects::plan(cluster, NO_OPERATION, request, targets, now, known.as_ref());
    outage::explained(cluster, printer, planning)
        .await
        .map(|planned| without_extensions(planned, &definitions))
        .map_err(|error| ServiceError::of_cluster(&chosen.destination(), &error.message).into())
}
