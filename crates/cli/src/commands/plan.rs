//! `tidegate plan`: what a sync would do.

use std::path::Path;

use tidegate_executor::{Clock as _, SystemClock, Targets, effects};
use tidegate_model::{Discovery, OperationId, SyncRequest};
use tidegate_planner::{PlanInput, Planned};

use crate::args::PlanArgs;
use crate::error::CliError;
use crate::exit::Ended;
use crate::input::{self, Manifests};
use crate::output::Printer;
use crate::output::plan::{self, PlanReport};
use crate::request;
use crate::session;
use crate::state_dir::StateDir;

/// A plan that is only shown belongs to no operation.
const NO_OPERATION: OperationId = OperationId(uuid::Uuid::nil());

pub async fn run(args: &PlanArgs, printer: &Printer) -> Result<Ended, CliError> {
    if !args.sim && !args.offline {
        return Err(CliError::NoCluster { or: ", or --offline to compare with nothing" });
    }
    let manifests = input::load(&args.source.paths)?;
    let request = request::of_plan(args, &manifests)?;
    let (planned, compared_with) = if args.offline {
        (offline(&request, &manifests), "no cluster, nothing is live")
    } else {
        let state_dir = StateDir::resolve(&args.state)?;
        (preview(&request, &manifests, &state_dir, printer).await?, "the simulated cluster")
    };
    let Planned { plan, left_out, .. } = &planned;
    let report = PlanReport { application: &request.application, compared_with, plan, left_out };
    plan::print(&report, args.output, printer)?;
    if args.selection.strict && !plan.warnings.is_empty() {
        return Err(CliError::Strict { warnings: plan.warnings.clone() });
    }
    Ok(if plan.errors().is_empty() { Ended::Done } else { Ended::InvalidPlan })
}

fn offline(request: &SyncRequest, manifests: &Manifests) -> Planned {
    without_extensions(tidegate_planner::plan(&PlanInput {
        operation: NO_OPERATION,
        request,
        started_at: SystemClock.now(),
        targets: &manifests.targets,
        live: &[],
        discovery: &Discovery::built_in(),
        offline: true,
    }))
}

/// The command has no extensions, and its plans say so where it matters.
fn without_extensions(mut planned: Planned) -> Planned {
    effects::warn_of_missing_extensions(&mut planned.plan, &effects::ExtensionNames::default());
    planned
}

/// The plan against the simulated cluster. Leaves nothing behind.
pub async fn preview(
    request: &SyncRequest,
    manifests: &Manifests,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Planned, CliError> {
    let targets = Targets { targets: manifests.targets.clone(), warnings: Vec::new() };
    let (_lock, cluster) = if is_there(&state_dir.cluster()) {
        // Only one process at a time may have the cluster open, and the log has the lock.
        (Some(session::lock(state_dir, printer).await?), session::open_cluster(state_dir).await?)
    } else {
        (None, session::fresh_cluster())
    };
    effects::plan(&cluster, NO_OPERATION, request, &targets, SystemClock.now())
        .await
        .map(without_extensions)
        .map_err(|error| CliError::Cluster { message: error.message })
}

fn is_there(folder: &Path) -> bool {
    folder.is_dir()
}
