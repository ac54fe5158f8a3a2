//! `plan --save` and `sync --plan`: store a plan, and later execute exactly that plan.

use std::fs;
use std::io;
use std::path::Path;

use tidegate_daemon::control::client;
use tidegate_executor::effects::{NO_OPERATION, PlanError, prepare};
use tidegate_executor::{Clock as _, StoredPlan, SystemClock, Targets};
use tidegate_model::SyncRequest;
use tidegate_planner::PlanResult;
use tidegate_state::clusters::{self, SelectedCluster};
use tidegate_state::error::ServiceError;
use tidegate_state::shell_words::quote_shell_word;
use tidegate_state::state_dir::StateDir;
use tidegate_state::stored_plans::{HASH_DIGITS_MIN, StoredPlans, is_hash};
use tidegate_state::{log, outage};

use super::export;
use super::operation::{self, OperationInput};
use crate::args::SyncArgs;
use crate::customizations;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, format_count};
use crate::request;

/// Maximum file size in bytes, far above any application's manifests.
const BYTES_MAX: u64 = 1 << 30;

/// Plans for a cluster, and stores the plan in the file and in the state directory. Only shows a plan with
/// errors. `flags` select the cluster in the suggested command.
pub async fn save(
    request: SyncRequest,
    targets: Targets,
    chosen: &SelectedCluster,
    state_dir: &StateDir,
    file: &Path,
    flags: &str,
    printer: &Printer,
) -> Result<PlanResult, CliError> {
    let (stored_plan, planned) = {
        let (cluster, lock) = chosen.open_read_only(state_dir, printer, client::is_process_running).await?;
        let known = log::find_inventory(state_dir, lock.as_ref(), &request);
        let cluster = cluster.as_ref();
        let making = StoredPlan::create(cluster, request, targets, SystemClock.now(), known.as_ref());
        let made = outage::with_delay_notices(cluster, printer, making).await;
        made.map_err(|error| ServiceError::from_cluster_message(&chosen.destination(), &error.message))?
    };
    if !planned.plan.errors().is_empty() {
        printer.warn("the plan was not stored because it has errors");
        return Ok(planned);
    }
    let text = stored_plan
        .to_json()
        .map_err(|error| CliError::Encoding { format: "JSON", reason: error.to_string() })?;
    export::write_file(file, &text)?;
    let line =
        StoredPlans::open(state_dir, printer, client::is_process_running).await?.store(&stored_plan)?;
    printer.note(&format!(
        "plan {} ({}) is stored in {}; execute it with `tidegate sync --plan {}{flags}`",
        line.hash,
        line.describe_actions(),
        file.display(),
        quote_shell_word(&file.to_string_lossy())
    ));
    let secrets = stored_plan
        .manifests
        .iter()
        .filter(|object| object.group().is_empty() && object.kind() == "Secret")
        .count();
    if secrets > 0 {
        let number = format_count(u32::try_from(secrets).unwrap_or(u32::MAX), "Secret", "Secrets");
        printer.warn(&format!(
            "{} contains the values of {number} in plain text and is readable only by its owner; keep it private",
            file.display()
        ));
    }
    Ok(planned)
}

/// Executes a stored plan if it is still valid.
pub async fn execute_plan(
    named: &str,
    args: &SyncArgs,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let health = customizations::load_rules(&args.scripts, printer)?;
    let state_dir = StateDir::resolve(args.state.state_dir())?;
    let plan = read_plan(named, &state_dir)?;
    let cluster = clusters::select_cluster(args.cluster.connection().as_ref(), printer).await?;
    let (made_for, here) = (&plan.request.destination, cluster.destination());
    if !made_for.is_same_cluster(&here) {
        return Err(CliError::usage(format!(
            "the plan was created for the {made_for}, not for the {here}; select its cluster with --context, --kubeconfig or --sim"
        )));
    }
    let (recorded, targets) = plan.pin(Vec::new(), args.allow_drift);
    let request = request::stored_plan_request(args, &cluster, recorded, printer);
    check_validity(&request, targets.clone(), &cluster, &state_dir, printer).await?;
    let work =
        OperationInput { request, targets, cluster, health, claim: &args.claim, waiting: &args.waiting };
    operation::run_and_report(work, &state_dir, printer).await
}

/// Checks that the plan is still valid before an operation is recorded. The operation checks again.
async fn check_validity(
    request: &SyncRequest,
    targets: Targets,
    chosen: &SelectedCluster,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<(), CliError> {
    let (cluster, lock) = chosen.open_read_only(state_dir, printer, client::is_process_running).await?;
    let known = log::find_inventory(state_dir, lock.as_ref(), request);
    let (cluster, now) = (cluster.as_ref(), SystemClock.now());
    match prepare(cluster, NO_OPERATION, request, targets, now, known.as_ref()).await {
        Ok(_) => Ok(()),
        Err(PlanError::Outdated(moved)) => Err(CliError::refused(format!("{moved}; nothing was written"))),
        // The operation will run into this error, too, and waits for the cluster if the error may be
        // temporary.
        Err(PlanError::Call(error)) => {
            tracing::debug!(reason = error.message, "cannot check whether the plan is still valid");
            Ok(())
        }
    }
}

/// Reads a plan from a file or, if there is none, the plan with this hash from the state directory.
fn read_plan(named: &str, state_dir: &StateDir) -> Result<StoredPlan, CliError> {
    let path = Path::new(named);
    let is_missing = fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if is_missing && is_hash(named) {
        let none = || {
            CliError::usage(format!(
                "file {named} not found, and the state directory {} contains no stored plans",
                state_dir.path().display()
            ))
        };
        let plans = StoredPlans::open_existing(state_dir)?.ok_or_else(none)?;
        return Ok(plans.read_plan(&plans.find(named)?)?);
    }
    if is_missing {
        return Err(CliError::usage(format!(
            "file {named} not found; use a file written by `tidegate plan --save`, or at least the first \
             {HASH_DIGITS_MIN} digits of a stored plan's hash"
        )));
    }
    let text = tidegate_state::files::read_file(path, BYTES_MAX)
        .map_err(|source| CliError::io("read", path, source))?;
    StoredPlan::from_json(&text).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
}
