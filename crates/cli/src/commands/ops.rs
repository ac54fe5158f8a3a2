//! `tidegate ops`: lists, shows and controls operations.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_daemon::operation_access::{self, Responder};
use tidegate_daemon::queries::{PendingResume, Queries};
use tidegate_daemon::session::{EarlySocket, Session};
use tidegate_executor::{Clock as _, EngineError, Summary, SystemClock};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{OperationView, Scope};
use tidegate_model::{OperationId, Override, StreamKind};
use tidegate_oplog::{LogError, Retention, StreamName};
use tidegate_state::clusters::{Clusters, ConnectionAttempt, ReconnectPurpose};
use tidegate_state::error::ServiceError;
use tidegate_state::state_dir::StateDir;
use tidegate_state::user::user_name;
use tidegate_state::{customizations, log, operations};
use tidegate_views::filter::Filter;
use tidegate_views::protocol::{OperationAction, OperationDetails, Reply, Request};
use tidegate_views::record::{AttemptLog, attempt_logs};
use tidegate_views::{OperationDocument, SummaryDocument};

use super::{events, export, output, report};
use crate::args::{
    ConnectionArgs, Format, OperationListArgs, OpsCommand, OverrideArgs, RetryTaskArgs, ScopeArgs,
    SingleOperationArgs,
};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, Text, operation, operation_log};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::wait::{self, WaitRequest};

pub async fn run(command: OpsCommand, printer: &Printer) -> Result<CommandOutcome, CliError> {
    match command {
        OpsCommand::List(args) => list(&args, printer).await,
        OpsCommand::Show(one) => show(&one, printer).await,
        OpsCommand::Log(one) => show_log(&one, printer).await,
        OpsCommand::Events(args) => events::run(&args, printer).await,
        OpsCommand::Output(one) => output::run(&one, printer).await,
        OpsCommand::Export(args) => export::run(&args, printer).await,
        OpsCommand::Terminate { one, reason: why, connection } => {
            terminate(&one, OperationAction::Terminate { reason: why.reason }, &connection, printer).await
        }
        OpsCommand::Pause { one, reason } => {
            send_action(&one, OperationAction::Pause { reason }, printer).await
        }
        OpsCommand::Unpause { one, reason: why } => {
            send_action(&one, OperationAction::Unpause { reason: why.reason }, printer).await
        }
        OpsCommand::Confirm { one, reason: why } => {
            send_action(&one, OperationAction::Confirm { reason: why.reason }, printer).await
        }
        OpsCommand::Approve { one, wave, reason } => {
            send_action(&one, OperationAction::Approve { wave, reason }, printer).await
        }
        OpsCommand::Skip(args) => send_override(args, Override::Skip, printer).await,
        OpsCommand::MarkDone(args) => send_override(args, Override::MarkDone, printer).await,
        OpsCommand::RetryTask(RetryTaskArgs { one, scope, reason }) => {
            send_decision(&one, Override::Retry, &scope, reason, printer).await
        }
    }
}

async fn send_override(
    args: OverrideArgs,
    what: Override,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let OverrideArgs { one, scope, reason } = args;
    send_decision(&one, what, &scope, reason, printer).await
}

/// Sends a decision about part of an operation.
async fn send_decision(
    one: &SingleOperationArgs,
    what: Override,
    scope: &ScopeArgs,
    reason: String,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let ScopeArgs { task, namespace, phase, wave } = scope;
    let scope = Scope::parse(task.as_deref(), namespace.as_deref(), phase.as_deref(), wave.as_deref())
        .map_err(|error| CliError::usage(error.to_string()))?;
    send_action(one, OperationAction::Override { what, scope, reason }, printer).await
}

async fn list(args: &OperationListArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(args.state.state_dir())?;
    let listed = operation_access::list_operations(&state_dir, printer, args.app.as_deref()).await?;
    let now = SystemClock.now();
    let filter = Filter {
        outcomes: args.result.iter().map(|result| (*result).into()).collect(),
        since: args.since.map(|since| since.resolve(now)),
        until: args.until.map(|until| until.resolve(now)),
        revision: args.revision.clone(),
        requester: args.by.clone(),
    };
    let all = listed.iter().map(SummaryDocument::from);
    let mut documents: Vec<SummaryDocument> = all.filter(|one| filter.matches(one)).collect();
    let limit = args.limit.unwrap_or(documents.len());
    documents.drain(..documents.len().saturating_sub(limit));
    match args.output {
        Format::Text if documents.is_empty() => {
            let of = args.app.iter().map(|app| format!(" of {app}")).collect::<String>();
            let like_that = if listed.is_empty() { "" } else { " that match the filters" };
            let others = match &args.app {
                Some(_) => {
                    format!(
                        "; `tidegate ops list{}` lists the operations of all applications",
                        state_dir.command_arguments()
                    )
                }
                None => String::new(),
            };
            printer.note(&format!("no operations{of}{like_that} in {}{others}", state_dir.path().display()));
        }
        Format::Text => {
            printer.print(&operation::list(&documents, now, printer.width()))?;
            if documents.iter().any(|one| one.is_unattended() && !one.paused && one.damage.is_none()) {
                let hint = state_dir.command_arguments();
                printer.note(&format!(
                    "some of these operations are unfinished, but no process is running them; continue one of them with `tidegate resume ID{hint}`, or all of them with `tidegate resume --all{hint}`"
                ));
            }
        }
        format => printer.print_value(&documents, format)?,
    }
    Ok(CommandOutcome::Done)
}

async fn show(one: &SingleOperationArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(one.state.state_dir())?;
    let question = |operation| Request::Inspect { operation };
    match operation_access::query_operation(&state_dir, printer, &one.id, question).await? {
        Reply::Operation(inspected) => {
            let logs = load_hook_logs(&inspected.operation, &state_dir, printer).await;
            show_operation(&inspected, logs, one.output, &state_dir, printer)?;
            Ok(CommandOutcome::Done)
        }
        other => Err(operation_access::unexpected_reply_error(&other).into()),
    }
}

/// Returns the logs of failed hooks from all attempts. The operation's view only has the newest attempt, so
/// after a retry, the logs come from the recorded events.
async fn load_hook_logs(
    operation: &OperationView,
    state_dir: &StateDir,
    printer: &Printer,
) -> Vec<AttemptLog> {
    if operation.retry_count == 0 {
        let logs = operation.hook_logs.iter().cloned();
        return logs.map(|log| AttemptLog { attempt: 1, log }).collect();
    }
    // Use the ID: the application's name may already refer to a newer operation.
    match operation_access::query(state_dir, printer, Request::Facts { operation: operation.id }).await {
        Ok(Reply::Facts { facts, .. }) => attempt_logs(&facts),
        // A damaged log was already reported.
        _ => Vec::new(),
    }
}

fn show_operation(
    details: &OperationDetails,
    logs: Vec<AttemptLog>,
    output: Format,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<(), CliError> {
    let OperationDetails { operation, explanation, summary } = details;
    match output {
        Format::Text => printer.print(&operation::show(operation, &logs, printer.width()))?,
        format => {
            let logs = Some(logs).filter(|_| operation.retry_count > 0);
            let document = OperationDocument { operation, logs, is_running: explanation.is_running };
            printer.print_value(&document, format)?;
        }
    }
    if output == Format::Text && summary.is_some() {
        printer.note(&compacted_error(operation.id).to_string());
    }
    if output == Format::Text && explanation.is_unattended() {
        let way_on = report::continuation_advice(operation.id, operation.paused_by.is_some(), state_dir);
        printer.note(&format!("no process is running the operation; {way_on}"));
    }
    Ok(())
}

/// Returns the error for a compacted operation, which only has a summary left.
fn compacted_error(operation: OperationId) -> LogError {
    LogError::Compacted { stream: StreamName::with_kind(StreamKind::OPERATION, operation) }
}

async fn show_log(one: &SingleOperationArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(one.state.state_dir())?;
    let mut requested_log = None;
    let question = |operation| {
        requested_log = Some(operation);
        Request::Facts { operation }
    };
    let reply = operation_access::query_operation(&state_dir, printer, &one.id, question).await?;
    if let (Reply::Facts { facts, first: 2.., .. }, Some(requested_log)) = (&reply, requested_log)
        && facts.is_empty()
    {
        return Err(compacted_error(requested_log).into());
    }
    match reply {
        Reply::Facts { facts: recorded, first, damage } => {
            if let Some(damage) = damage {
                printer.warn(&format!("the record of the operation is damaged: {damage}"));
            }
            if first > 1 {
                printer.note(&format!("the {} oldest records were compacted", first - 1));
            }
            match one.output {
                Format::Text => printer.print(&operation_log::text(first, &recorded, printer.width()))?,
                format => printer.print_value(&operation_log::documents(first, &recorded), format)?,
            }
        }
        other => return Err(operation_access::unexpected_reply_error(&other).into()),
    }
    Ok(CommandOutcome::Done)
}

/// Sends a request to a running operation, or else records it in the log.
async fn send_action(
    one: &SingleOperationArgs,
    action: OperationAction,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(one.state.state_dir())?;
    let RecordedAction { summary, is_waiting, .. } = record_action(one, &action, &state_dir, printer).await?;
    print_recorded_action(&summary, &action, is_waiting, &state_dir, printer)?;
    Ok(CommandOutcome::Done)
}

/// Terminates an operation. If no process is running it, this command runs it to the end.
async fn terminate(
    one: &SingleOperationArgs,
    action: OperationAction,
    connection: &ConnectionArgs,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(one.state.state_dir())?;
    let mut signals = Signals::listen()?;
    let RecordedAction { summary, log, .. } = record_action(one, &action, &state_dir, printer).await?;
    let Some(log) = log else {
        print_recorded_action(&summary, &action, false, &state_dir, printer)?;
        return Ok(CommandOutcome::Done);
    };
    let id = summary.operation;
    let mut clusters = Clusters::default();
    let approach = Arc::<ConnectionAttempt>::default();
    let ahead = PendingResume { operations: BTreeSet::from([id]), attempt: Arc::clone(&approach) };
    let entrance = EarlySocket::open(&log, ahead, &state_dir, printer);
    let recorded = operations::read_destination(&log, id)?;
    let connection = connection.to_connection();
    let connected = tokio::select! {
        connected = clusters.add(id, &recorded, &connection, ReconnectPurpose::Terminate, &approach, printer) => Some(connected),
        _ = signals.next() => None,
    };
    if !matches!(connected, Some(Ok(()))) {
        printer.warn(&format!(
            "the request to terminate operation {id} was recorded; when the cluster is reachable, run `tidegate resume {id}{}` to end the operation",
            state_dir.command_arguments()
        ));
    }
    match connected {
        Some(connected) => connected?,
        None => return Ok(CommandOutcome::NotFinished),
    }
    drop(log);
    run_to_end(entrance, clusters, &summary, one.output, &state_dir, &mut signals, printer).await
}

/// A durably stored request.
struct RecordedAction {
    summary: Summary,
    /// Log, unless another process has opened it.
    log: Option<log::Log>,
    /// True if no process is running the operation. The request takes effect at the next `resume`.
    is_waiting: bool,
}

/// Records a request through the running process or, without one, in the log. In the latter case, returns the
/// log.
async fn record_action(
    one: &SingleOperationArgs,
    action: &OperationAction,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<RecordedAction, CliError> {
    let summary = operation_access::find_operation(state_dir, printer, &one.id).await?;
    let request = Request::RequestOperationAction {
        operation: summary.operation,
        by: user_name(),
        action: action.clone(),
    };
    let (reply, log) = match operation_access::send_request(state_dir, printer, &request).await? {
        Responder::Process(reply) => (operation_access::check_reply(reply)?, None),
        Responder::Log(log) => {
            (Queries::without_engine(log.clone()).handle_request(request).await?, Some(log))
        }
        Responder::Unused => {
            return Err(ServiceError::UnknownOperation {
                text: one.id.clone(),
                state_dir: state_dir.path().to_path_buf(),
            }
            .into());
        }
    };
    match reply {
        Reply::Done => Ok(RecordedAction { summary, log, is_waiting: false }),
        Reply::Recorded => Ok(RecordedAction { summary, log, is_waiting: true }),
        other => Err(operation_access::unexpected_reply_error(&other).into()),
    }
}

/// Finishes an operation that no process is running.
async fn run_to_end(
    entrance: EarlySocket,
    clusters: Clusters,
    summary: &Summary,
    output: Format,
    state_dir: &StateDir,
    signals: &mut Signals,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let id = summary.operation;
    // Without the stored health scripts, a hook's health may differ, but the termination must still work.
    let health = customizations::load_rules(state_dir, &summary.application).unwrap_or_else(|error| {
        printer.warn(&format!("continuing with the built-in health rules: {error}"));
        HealthRules::built_in()
    });
    let session = Session::open_behind_socket(entrance, clusters, health, state_dir, printer).await?;
    let mut progress = Progress::new(printer, 1);
    let events = session.engine.events_from_now().await?;
    let waited = match session.engine.resume(id).await {
        // An operation that hasn't started finishes as soon as it receives the request.
        Ok(()) | Err(EngineError::AlreadyFinished { .. }) => {
            let (operations, timeout) = (vec![id], None);
            let waiting =
                WaitRequest { engine: &session.engine, events, operations, timeout, follow_hooks: false };
            wait::wait(waiting, signals, &mut progress).await
        }
        Err(error) => Err(error.into()),
    };
    let stopped = wait::close_session(session, Retention::default(), signals).await;
    let waited = waited?;
    stopped?;
    // The command succeeds if the operation has finished, whatever its result.
    match report::report(waited, output, state_dir, printer)? {
        CommandOutcome::Operation(_) => Ok(CommandOutcome::Done),
        ended => Ok(ended),
    }
}

fn print_recorded_action(
    summary: &Summary,
    request: &OperationAction,
    in_log: bool,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<(), CliError> {
    let (id, hint) = (summary.operation, state_dir.command_arguments());
    let resume = format!("continue it with `tidegate resume {id}{hint}`");
    let what = match (request, in_log) {
        (OperationAction::Terminate { .. }, _) => "is being terminated".to_owned(),
        (OperationAction::Pause { .. }, false) => {
            format!(
                "is paused; the command that was running the operation, if any, exits; unpause the operation with `tidegate ops unpause {id}{hint}`"
            )
        }
        (OperationAction::Pause { .. }, true) => {
            format!("is paused; unpause it with `tidegate ops unpause {id}{hint}`")
        }
        (OperationAction::Unpause { .. }, false) => "continues".to_owned(),
        (OperationAction::Unpause { .. }, true) => format!("is no longer paused; {resume}"),
        (OperationAction::Confirm { .. }, false) => "may now prune".to_owned(),
        (OperationAction::Confirm { .. }, true) => format!("may now prune; {resume}"),
        (OperationAction::Approve { .. }, false) => "is approved".to_owned(),
        (OperationAction::Approve { .. }, true) => format!("is approved; {resume}"),
        (OperationAction::Override { what, scope, .. }, waits) => {
            let what = match what {
                Override::Skip => format!("continues without {scope}"),
                Override::MarkDone => format!("treats {scope} as done"),
                Override::Retry => format!("retries {scope}"),
            };
            if waits { format!("{what}; {resume}") } else { what }
        }
    };
    let mut line = Text::plain(format!("operation {id} ({}) {what}", summary.application));
    line.end_line();
    printer.print(&line)
}
