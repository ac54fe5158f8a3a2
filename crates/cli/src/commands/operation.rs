//! One operation in a state directory, from its beginning to its report.

use std::time::Duration;

use tidegate_executor::Targets;
use tidegate_health::HealthRules;
use tidegate_model::{IfTaken, OperationId, SyncRequest, format_duration};
use tidegate_oplog::Lookup;
use tidegate_service::clusters::Chosen;
use tidegate_service::customizations;
use tidegate_service::session::Session;
use tidegate_service::state_dir::StateDir;

use super::report;
use crate::args::{ClaimArgs, WaitingArgs};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;
use crate::progress::Progress;
use crate::request;
use crate::signals::Signals;
use crate::wait::{self, Waiting};

/// What is carried out, and how.
pub struct Work<'a> {
    pub request: SyncRequest,
    pub targets: Targets,
    pub chosen: Chosen,
    pub health: HealthRules,
    pub claim: &'a ClaimArgs,
    pub waiting: &'a WaitingArgs,
}

/// Carries out an operation, waits for it and reports it.
pub async fn carry_out(work: Work<'_>, state_dir: &StateDir, printer: &Printer) -> Result<Ended, CliError> {
    let Work { request, targets, chosen, health, claim, waiting } = work;
    let mut signals = Signals::listen()?;
    let session = Session::open(state_dir, chosen.into(), health.clone(), printer).await?;
    let if_open = request::if_taken(claim);
    remember(&session, state_dir, &request.application, &health, if_open, printer).await?;
    let mut progress = Progress::new(printer, 1);
    let events = session.engine.events_from_now().await?;
    let waited = match begun(&session, request, targets, (if_open, waiting.timeout), &mut signals).await {
        Ok(operation) => {
            let operations = vec![operation];
            let (timeout, follow_hooks) = (waiting.timeout, waiting.follow_hooks);
            let waiting = Waiting { engine: &session.engine, events, operations, timeout, follow_hooks };
            wait::wait(waiting, &mut signals, &mut progress).await
        }
        Err(error) => Err(error),
    };
    let stopped = wait::close(session, waiting.keep.retention(), &mut signals).await;
    let waited = waited?;
    stopped?;
    report::report(waited, waiting.output, state_dir, printer)
}

/// Begins the operation, after another one of its application if it is to wait for that. Until then nothing of it is
/// recorded.
async fn begun(
    session: &Session,
    request: SyncRequest,
    targets: Targets,
    (if_open, timeout): (IfTaken, Option<Duration>),
    signals: &mut Signals,
) -> Result<OperationId, CliError> {
    let waits = if_open != IfTaken::Refuse;
    let not_begun = |why: String| {
        let during = if waits { " while another operation of the application was not over" } else { "" };
        CliError::refused(format!("{why}{during}; nothing of this one was begun"))
    };
    // One that waits for no other begins at once: however long the machine takes for that, it is begun.
    let patience = timeout.filter(|_| waits);
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
    Ok(customizations::remember(state_dir, application, health)?)
}
