//! `tidegate plan`: previews a sync.

use std::collections::BTreeSet;

use tidegate_daemon::control::client;
use tidegate_executor::effects::{ExtensionNames, NO_OPERATION};
use tidegate_executor::{Clock as _, GateDefinitions, SystemClock, Targets, effects};
use tidegate_health::HealthRules;
use tidegate_model::{Discovery, Object, SyncRequest, Task, WaveNumbers};
use tidegate_planner::{PlanInput, PlanResult};
use tidegate_state::clusters::{self, SelectedCluster};
use tidegate_state::error::ServiceError;
use tidegate_state::log;
use tidegate_state::outage;
use tidegate_state::state_dir::StateDir;

use super::stored_plan;
use crate::args::PlanArgs;
use crate::customizations;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::input;
use crate::output::Printer;
use crate::output::plan::{self, PlanReport};
use crate::request;

pub async fn run(args: &PlanArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let source = &args.application.source;
    let manifests = input::load(&source.paths, source.input_requirements())?;
    let rules = customizations::load_rules(&args.scripts, printer)?;
    let definitions = input::load_definitions(args.selection.definitions.as_deref())?;
    let gates = args.selection.gates.clone();
    let targets = |targets| Targets { targets, gates, definitions, ..Targets::default() };
    let (request, planned, compared_with) = if args.offline {
        let request = request::plan_request(args, None, &manifests)?;
        let planned = plan_offline(&request, targets(manifests.targets));
        (request, planned, "an empty cluster".to_owned())
    } else {
        let chosen = clusters::select_cluster(args.cluster.connection().as_ref(), printer).await?;
        let request = request::plan_request(args, Some(&chosen), &manifests)?;
        let state_dir = StateDir::resolve(args.state.state_dir())?;
        let given = targets(manifests.targets);
        let planned = match &args.save {
            None => preview_plan(&request, given, &chosen, &state_dir, printer).await?,
            Some(file) => {
                let definitions = given.definitions.clone();
                let planned = stored_plan::save(
                    request.clone(),
                    given,
                    &chosen,
                    &state_dir,
                    file,
                    &args.cluster.command_options(),
                    printer,
                )
                .await?;
                without_extensions(planned, &definitions)
            }
        };
        (request, planned, format!("the {}", chosen.destination()))
    };
    let judges: Vec<_> =
        planned.plan.tasks.iter().map(|task| health_rule_source(task, &planned.manifests, &rules)).collect();
    let PlanResult { plan, excluded, .. } = &planned;
    let (application, compared_with) = (request.application.as_str(), compared_with.as_str());
    let numbers = &WaveNumbers::default();
    let report = PlanReport { application, compared_with, plan, numbers, excluded, judges: &judges };
    plan::print(&report, args.output, printer)?;
    if args.selection.strict && !plan.warnings.is_empty() {
        return Err(CliError::Strict { warnings: plan.warnings.clone() });
    }
    Ok(if plan.errors().is_empty() { CommandOutcome::Done } else { CommandOutcome::InvalidPlan })
}

/// Returns the source of the health rule for a task's object: a registered judge, or the layer with the rule.
fn health_rule_source(task: &Task, manifests: &[Object], rules: &HealthRules) -> Option<&'static str> {
    let manifest = manifests.get(task.manifest?.index())?;
    if task.health_judge.is_some() {
        Some("judge")
    } else {
        rules.layer(manifest).map(|layer| layer.as_str())
    }
}

fn plan_offline(request: &SyncRequest, given: Targets) -> PlanResult {
    let mut planned = tidegate_planner::plan(PlanInput {
        operation: NO_OPERATION,
        request,
        started_at: SystemClock.now(),
        targets: given.targets,
        live: &[],
        inventory: &BTreeSet::new(),
        unchanged_hooks: &BTreeSet::new(),
        terminating_namespaces: &BTreeSet::new(),
        discovery: &Discovery::built_in(),
        is_offline: true,
    });
    Targets::add_gates(&given.gates, &mut planned.plan);
    effects::warn_of_invalid_health_annotations(&mut planned);
    without_extensions(planned, &given.definitions)
}

/// Adds warnings about extensions that the plan needs but this command lacks. Only the names of the gates are
/// known here.
fn without_extensions(mut planned: PlanResult, definitions: &GateDefinitions) -> PlanResult {
    let known = ExtensionNames { gates: definitions.names().collect(), ..ExtensionNames::default() };
    effects::warn_of_missing_extensions(&mut planned.plan, &known);
    planned
}

/// Returns a plan compared with a cluster. Stores nothing.
pub async fn preview_plan(
    request: &SyncRequest,
    targets: Targets,
    chosen: &SelectedCluster,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<PlanResult, CliError> {
    let definitions = targets.definitions.clone();
    let (cluster, lock) = chosen.open_read_only(state_dir, printer, client::is_process_running).await?;
    let known = log::find_inventory(state_dir, lock.as_ref(), request);
    let (cluster, now) = (cluster.as_ref(), SystemClock.now());
    let planning = effects::plan(cluster, NO_OPERATION, request, targets, now, known.as_ref());
    outage::with_delay_notices(cluster, printer, planning)
        .await
        .map(|planned| without_extensions(planned, &definitions))
        .map_err(|error| ServiceError::from_cluster_message(&chosen.destination(), &error.message).into())
}
