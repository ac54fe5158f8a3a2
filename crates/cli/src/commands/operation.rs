//! A single operation in a state directory, from its start to the report.

use std::time::Duration;

use tidegate_daemon::session::Session;
use tidegate_executor::Targets;
use tidegate_health::HealthRules;
use tidegate_model::{ClaimConflictPolicy, OperationId, SyncRequest, format_duration};
use tidegate_oplog::Lookup;
use tidegate_state::clusters::SelectedCluster;
use tidegate_state::customizations;
use tidegate_state::state_dir::StateDir;

use super::report;
use crate::args::{ClaimArgs, WaitingArgs};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::Printer;
use crate::progress::Progress;
use crate::request;
use crate::signals::Signals;
use crate::wait::{self, WaitRequest};

/// Input of an operation.
pub struct OperationInput<'a> {
    pub request: SyncRequest,
    pub targets: Targets,
    pub cluster: SelectedCluster,
    pub health: HealthRules,
    pub claim: &'a ClaimArgs,
    pub waiting: &'a WaitingArgs,
}

/// Runs an operation to the end and reports the result.
pub async fn run_and_report(
    work: OperationInput<'_>,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let OperationInput { request, targets, cluster, health, claim, waiting } = work;
    let mut signals = Signals::listen()?;
    let session = Session::open(state_dir, cluster.into(), health.clone(), printer).await?;
    let if_open = request::conflict_policy(claim);
    store_health_rules(&session, state_dir, &request.application, &health, if_open, printer).await?;
    let mut progress = Progress::new(printer, 1);
    let events = session.engine.events_from_now().await?;
    let waited = match start_operation(&session, request, targets, if_open, waiting.timeout, &mut signals)
        .await
    {
        Ok(operation) => {
            let operations = vec![operation];
            let (timeout, follow_hooks) = (waiting.timeout, waiting.follow_hooks);
            let waiting = WaitRequest { engine: &session.engine, events, operations, timeout, follow_hooks };
            wait::wait(waiting, &mut signals, &mut progress).await
        }
        Err(error) => Err(error),
    };
    let stopped = wait::close_session(session, waiting.retention.retention(), &mut signals).await;
    let waited = waited?;
    stopped?;
    report::report(waited, waiting.output, state_dir, printer)
}

/// Starts the operation, if necessary after another operation of the application. Records nothing before the
/// start.
async fn start_operation(
    session: &Session,
    request: SyncRequest,
    targets: Targets,
    if_open: ClaimConflictPolicy,
    timeout: Option<Duration>,
    signals: &mut Signals,
) -> Result<OperationId, CliError> {
    let waits = if_open != ClaimConflictPolicy::Refuse;
    let not_begun = |reason: String| {
        let during = if waits { " while another operation for the application was unfinished" } else { "" };
        CliError::refused(format!("{reason}{during}; this operation was not started"))
    };
    // The timeout covers only the wait for another operation, so that a slow machine can't cause a timeout.
    let time_limit = timeout.filter(|_| waits);
    tokio::select! {
        begun = session.engine.submit_with_policy(request, targets, if_open) => Ok(begun?),
        signal = signals.next() => Err(not_begun(format!("interrupted by {signal}"))),
        () = tokio::time::sleep(time_limit.unwrap_or(Duration::MAX)) => {
            Err(not_begun(format!("timed out after {}", format_duration(time_limit.unwrap_or_default()))))
        }
    }
}

/// Stores the health scripts for a later resume. Another open operation of the application keeps its own,
/// unless this process resumes it first.
async fn store_health_rules(
    session: &Session,
    state_dir: &StateDir,
    application: &str,
    health: &HealthRules,
    if_open: ClaimConflictPolicy,
    printer: &Printer,
) -> Result<(), CliError> {
    let open = session.engine.find(Lookup::of_application(application).and_open()).await?;
    let what = match if_open {
        ClaimConflictPolicy::Refuse if !open.is_empty() => return Ok(()),
        ClaimConflictPolicy::Supersede => "ended",
        _ => "finished",
    };
    for summary in open {
        let id = summary.operation;
        printer.note(&format!("operation {id} of {application} is unfinished and will be {what} first"));
    }
    Ok(customizations::store_rules(state_dir, application, health)?)
}
