//! `plan --save` and `sync --plan`: a plan is kept, and carried out as it is or not at all.

use std::fs;
use std::io;
use std::path::Path;

use tidegate_executor::effects::{NO_OPERATION, NotPlanned, prepare};
use tidegate_executor::{Clock as _, KeptPlan, SystemClock, Targets};
use tidegate_model::SyncRequest;
use tidegate_planner::Planned;
use tidegate_service::clusters::{self, Chosen};
use tidegate_service::error::ServiceError;
use tidegate_service::plans::{DIGITS_MIN, Plans, is_hash};
use tidegate_service::state_dir::{StateDir, shell_word};
use tidegate_service::{log, outage};

use super::operation::{self, Work};
use super::{export, plan};
use crate::args::SyncArgs;
use crate::customizations;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, counted};
use crate::request;

/// Far more than the manifests of any application have.
const BYTES_MAX: u64 = 1 << 30;

/// Plans against a cluster, and keeps the plan: in the file, and in the state directory. One that cannot run is only shown.
/// `way` is what the command that is suggested next needs to find the cluster again.
pub async fn save(
    (request, targets): (SyncRequest, Targets),
    (chosen, state_dir): (&Chosen, &StateDir),
    (file, way): (&Path, &str),
    printer: &Printer,
) -> Result<Planned, CliError> {
    let definitions = targets.definitions.clone();
    let (kept, planned) = {
        let (cluster, lock) = chosen.look(state_dir, printer).await?;
        let known = log::inventory(state_dir, lock.as_ref(), &request);
        let cluster = cluster.as_ref();
        let making = KeptPlan::make(cluster, request, targets, SystemClock.now(), known.as_ref());
        let made = outage::explained(cluster, printer, making).await;
        made.map_err(|error| ServiceError::of_cluster(&chosen.destination(), &error.message))?
    };
    let planned = plan::without_extensions(planned, &definitions);
    if !planned.plan.errors().is_empty() {
        printer.warn("the plan cannot run, so it is not kept");
        return Ok(planned);
    }
    let text = kept
        .to_json()
        .map_err(|error| CliError::Unprintable { format: "JSON", reason: error.to_string() })?;
    export::write(file, &text)?;
    let line = Plans::open(state_dir, printer).await?.keep(&kept)?;
    printer.note(&format!(
        "plan {} ({}) is in {}; carry it out with `tidegate sync --plan {}{way}`",
        line.hash,
        line.summary(),
        file.display(),
        shell_word(&file.to_string_lossy())
    ));
    let secrets =
        kept.manifests.iter().filter(|object| object.group().is_empty() && object.kind() == "Secret").count();
    if secrets > 0 {
        let number = counted(u32::try_from(secrets).unwrap_or(u32::MAX), "Secret", "Secrets");
        printer.warn(&format!(
            "{} holds the values of {number} in clear, and only its owner may read it; keep it so",
            file.display()
        ));
    }
    Ok(planned)
}

/// Carries out a plan that was kept, if it still fits.
pub async fn carry_out(named: &str, args: &SyncArgs, printer: &Printer) -> Result<Ended, CliError> {
    let health = customizations::given(&args.scripts, printer)?;
    let state_dir = StateDir::resolve(args.state.named())?;
    let kept = read(named, &state_dir)?;
    let chosen = clusters::choose(args.cluster.connection().as_ref(), printer).await?;
    let (made_for, here) = (&kept.request.destination, chosen.destination());
    if !made_for.is_same_cluster(&here) {
        return Err(CliError::usage(format!(
            "the plan was made for the {made_for}, and this is the {here}; name the way there with --context or --kubeconfig, or with --sim"
        )));
    }
    let (recorded, targets) = kept.pin(Vec::new(), args.allow_drift);
    let request = request::of_kept(args, &chosen, recorded, printer);
    fits(&request, targets.clone(), &chosen, &state_dir, printer).await?;
    let work = Work { request, targets, chosen, health, claim: &args.claim, waiting: &args.waiting };
    operation::carry_out(work, &state_dir, printer).await
}

/// Looks whether the plan still fits, before anything is recorded. The operation looks once more.
async fn fits(
    request: &SyncRequest,
    targets: Targets,
    chosen: &Chosen,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<(), CliError> {
    let (cluster, lock) = chosen.look(state_dir, printer).await?;
    let known = log::inventory(state_dir, lock.as_ref(), request);
    let (cluster, now) = (cluster.as_ref(), SystemClock.now());
    match prepare(cluster, NO_OPERATION, request, targets, now, known.as_ref()).await {
        Ok(_) => Ok(()),
        Err(NotPlanned::Moved(moved)) => Err(CliError::refused(format!("{moved}; nothing was written"))),
        // The operation meets it too, and waits for the cluster where that may help.
        Err(NotPlanned::Call(error)) => {
            tracing::debug!(reason = error.message, "it was not looked whether the plan still fits");
            Ok(())
        }
    }
}

/// A plan in a file, or else the one with this hash in the state directory.
fn read(named: &str, state_dir: &StateDir) -> Result<KeptPlan, CliError> {
    let path = Path::new(named);
    let is_missing = fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if is_missing && is_hash(named) {
        let none = || {
            CliError::usage(format!(
                "there is no file {named}, and in the state directory {} no plan was ever kept",
                state_dir.path().display()
            ))
        };
        let plans = Plans::look(state_dir)?.ok_or_else(none)?;
        return Ok(plans.get(&plans.find(named)?)?);
    }
    if is_missing {
        return Err(CliError::usage(format!(
            "there is no file {named}; name a file that `tidegate plan --save` has written, or a kept plan by at least the first {DIGITS_MIN} digits of its hash"
        )));
    }
    let text = tidegate_service::files::read(path, BYTES_MAX)
        .map_err(|source| CliError::io("read", path, source))?;
    KeptPlan::from_json(&text).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
}
