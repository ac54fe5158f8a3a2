//! `tidegate sync`: one operation, from its manifests to its result.

use std::time::Duration;

use tidegate_executor::{GateDefinitions, Targets};
use tidegate_health::HealthRules;
use tidegate_model::{Action, IfTaken, OperationId, Plan, SyncRequest, format_duration};
use tidegate_oplog::Lookup;
use tidegate_planner::{Target, is_left_out};
use tidegate_service::clusters;
use tidegate_service::session::Session;
use tidegate_service::state_dir::StateDir;

use super::{plan, report};
use crate::args::SyncArgs;
use crate::customizations;
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::{Printer, counted};
use crate::progress::Progress;
use crate::request;
use crate::signals::Signals;
use crate::wait::{self, Waiting};

pub async fn run(args: &SyncArgs, printer: &Printer) -> Result<Ended, CliError> {
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
    let mut signals = Signals::listen()?;
    let session = Session::open(&state_dir, chosen.into(), health.clone(), printer).await?;
    let if_open = request::if_taken(&args.claim);
    remember(&session, &state_dir, &request.application, &health, if_open, printer).await?;
    let targets = targets(manifests.targets, definitions, args);
    let mut progress = Progress::new(printer, 1);
    let events = session.engine.events_from_now().await?;
    let waited = match begun(&session, request, targets, args, &mut signals).await {
        Ok(operation) => {
            let operations = vec![operation];
            let waiting =
                Waiting { engine: &session.engine, events, operations, timeout: args.waiting.timeout };
            wait::wait(waiting, &mut signals, &mut progress).await
        }
        Err(error) => Err(error),
    };
    let stopped = wait::close(session, args.waiting.keep.retention(), &mut signals).await;
    let waited = waited?;
    stopped?;
    report::report(waited, args.waiting.output, &state_dir, printer)
}

fn targets(targets: Vec<Target>, definitions: GateDefinitions, args: &SyncArgs) -> Targets {
    Targets { targets, warnings: Vec::new(), gates: args.selection.gates.clone(), definitions }
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

/// Begins the operation, after another one of its application if it is to wait for that. Until then nothing of it is
/// recorded.
async fn begun(
    session: &Session,
    request: SyncRequest,
    targets: Targets,
    args: &SyncArgs,
    signals: &mut Signals,
) -> Result<OperationId, CliError> {
    let if_open = request::if_taken(&args.claim);
    let waits = if_open != IfTaken::Refuse;
    let not_begun = |why: String| {
        let during = if waits { " while another operation of the application was not over" } else { "" };
        CliError::refused(format!("{why}{during}; nothing of this one was begun"))
    };
    // One that waits for no other begins at once: however long the machine takes for that, it is begun.
    let patience = args.waiting.timeout.filter(|_| waits);
    tokio::select! {
        begun = session.engine.submit_when(request, targets, if_open) => Ok(begun?),
        signal = signals.next() => Err(not_begun(format!("interrupted by {signal}"))),
        () = tokio::time::sleep(patience.unwrap_or(Duration::MAX)) => {
            Err(not_begun(format!("not begun after {}", format_duration(patience.unwrap_or_default()))))
        }
    }
}

/// Keeps the health scripts for a resume. An operation of the application that is still open keeps its own, unless this
/// process goes on with it first.
async fn remember(
    session: &Session,
    state_dir: &StateDir,
    application: &str,
    health: &HealthRules,
    if_open: IfTaken,
    printer: &Printer,
) -> Result<(), CliError> {
    let open = session.engine.find(Lookup::of_application(application).and_open()).await?;
    let what = match if_open {
        IfTaken::Refuse if !open.is_empty() => return Ok(()),
        IfTaken::Supersede => "ended",
        _ => "finished",
    };
    for summary in open {
        let id = summary.operation;
        printer.note(&format!("operation {id} of {application} is not over: it is {what} first"));
    }
    customizations::remember(state_dir, application, health)
}
