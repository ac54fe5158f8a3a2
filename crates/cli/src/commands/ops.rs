//! `tidegate ops`: listing, showing and steering operations.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_executor::{Clock as _, EngineError, Summary, SystemClock};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{OperationView, Scope};
use tidegate_model::{OperationId, Override, StreamKind};
use tidegate_oplog::{LogError, Retention, StreamName};
use tidegate_service::clusters::{Approach, Clusters, Purpose};
use tidegate_service::control::protocol::{Inspected, Reply, Request, Wish};
use tidegate_service::documents::filter::Filter;
use tidegate_service::documents::record::{AttemptLog, attempt_logs};
use tidegate_service::documents::{OperationDocument, SummaryDocument};
use tidegate_service::error::ServiceError;
use tidegate_service::queries::{Ahead, Queries};
use tidegate_service::route::{self, Reached};
use tidegate_service::session::{Entrance, Session};
use tidegate_service::state_dir::StateDir;
use tidegate_service::user::user;
use tidegate_service::{customizations, log, operations};

use super::{events, export, output, report};
use crate::args::{
    ConnectionArgs, Format, ListArgs, OneArgs, OpsCommand, PassOverArgs, RetryTaskArgs, ScopeArgs,
};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, Text, facts, operation};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::wait::{self, Waiting};

pub async fn run(command: OpsCommand, printer: &Printer) -> Result<Ended, CliError> {
    match command {
        OpsCommand::List(args) => list(&args, printer).await,
        OpsCommand::Show(one) => show(&one, printer).await,
        OpsCommand::Log(one) => log(&one, printer).await,
        OpsCommand::Events(args) => events::run(&args, printer).await,
        OpsCommand::Output(one) => output::run(&one, printer).await,
        OpsCommand::Export(args) => export::run(&args, printer).await,
        OpsCommand::Terminate { one, why, connection } => {
            terminate(&one, Wish::Terminate { reason: why.reason }, &connection, printer).await
        }
        OpsCommand::Pause { one, reason } => wish(&one, Wish::Pause { reason }, printer).await,
        OpsCommand::Unpause { one, why } => wish(&one, Wish::Unpause { reason: why.reason }, printer).await,
        OpsCommand::Confirm { one, why } => wish(&one, Wish::Confirm { reason: why.reason }, printer).await,
        OpsCommand::Approve { one, wave, reason } => {
            wish(&one, Wish::Approve { wave, reason }, printer).await
        }
        OpsCommand::Skip(args) => pass_over(args, Override::Skip, printer).await,
        OpsCommand::MarkDone(args) => pass_over(args, Override::MarkDone, printer).await,
        OpsCommand::RetryTask(RetryTaskArgs { one, scope, reason }) => {
            decide(&one, Override::Retry, &scope, reason, printer).await
        }
    }
}

async fn pass_over(args: PassOverArgs, what: Override, printer: &Printer) -> Result<Ended, CliError> {
    let PassOverArgs { one, scope, reason } = args;
    decide(&one, what, &scope, reason, printer).await
}

/// What a person decides about part of an operation.
async fn decide(
    one: &OneArgs,
    what: Override,
    scope: &ScopeArgs,
    reason: String,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let ScopeArgs { task, namespace, phase, wave } = scope;
    let scope = Scope::of_words(task.as_deref(), namespace.as_deref(), phase.as_deref(), wave.as_deref())
        .map_err(|error| CliError::usage(error.to_string()))?;
    wish(one, Wish::Override { what, scope, reason }, printer).await
}

async fn list(args: &ListArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(args.state.named())?;
    let listed = route::list(&state_dir, printer, args.app.as_deref()).await?;
    let now = SystemClock.now();
    let filter = Filter {
        phases: args.result.iter().map(|result| (*result).into()).collect(),
        since: args.since.map(|since| since.at(now)),
        until: args.until.map(|until| until.at(now)),
        revision: args.revision.clone(),
        by: args.by.clone(),
    };
    let all = listed.iter().map(SummaryDocument::from);
    let mut documents: Vec<SummaryDocument> = all.filter(|one| filter.takes(one)).collect();
    let limit = args.limit.unwrap_or(documents.len());
    documents.drain(..documents.len().saturating_sub(limit));
    match args.output {
        Format::Text if documents.is_empty() => {
            let of = args.app.iter().map(|app| format!(" of {app}")).collect::<String>();
            let like_that = if listed.is_empty() { "" } else { " like that" };
            let others = match &args.app {
                Some(_) => format!("; `tidegate ops list{}` shows those of all", state_dir.hint()),
                None => String::new(),
            };
            printer.note(&format!("no operations{of}{like_that} in {}{others}", state_dir.path().display()));
        }
        Format::Text => {
            printer.out(&operation::list(&documents, now, printer.width()))?;
            if documents.iter().any(|one| one.is_left_alone() && !one.paused && one.damage.is_none()) {
                let hint = state_dir.hint();
                printer.note(&format!(
                    "no process works on what is \"left alone\"; go on with `tidegate resume ID{hint}`, or `--all`"
                ));
            }
        }
        format => printer.value(&documents, format)?,
    }
    Ok(Ended::Done)
}

async fn show(one: &OneArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(one.state.named())?;
    let question = |operation| Request::Inspect { operation };
    match route::ask_about(&state_dir, printer, &one.id, question).await? {
        Reply::Operation(inspected) => {
            let logs = logs(&inspected.operation, &state_dir, printer).await;
            show_operation((&inspected, logs), one.output, &state_dir, printer)?;
            Ok(Ended::Done)
        }
        other => Err(route::unexpected(&other).into()),
    }
}

/// What failed hooks wrote in every attempt. How it stands says it of the newest one alone, which is all of it where there was one.
async fn logs(operation: &OperationView, state_dir: &StateDir, printer: &Printer) -> Vec<AttemptLog> {
    if operation.retry_count == 0 {
        let logs = operation.hook_logs.iter().cloned();
        return logs.map(|log| AttemptLog { attempt: 1, log }).collect();
    }
    // The name of an application may mean another operation by now; an id does not.
    match route::ask(state_dir, printer, Request::Facts { operation: operation.id }).await {
        Ok(Reply::Facts { facts, .. }) => attempt_logs(&facts),
        // What is damaged of it was told.
        _ => Vec::new(),
    }
}

fn show_operation(
    (Inspected { operation, explanation, kept }, logs): (&Inspected, Vec<AttemptLog>),
    output: Format,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<(), CliError> {
    match output {
        Format::Text => printer.out(&operation::show(operation, &logs, printer.width()))?,
        format => {
            let logs = Some(logs).filter(|_| operation.retry_count > 0);
            let document = OperationDocument { operation, logs, at_work: explanation.at_work };
            printer.value(&document, format)?;
        }
    }
    if output == Format::Text && kept.is_some() {
        printer.note(&compacted(operation.id).to_string());
    }
    if output == Format::Text && explanation.is_left_alone() {
        let way_on = report::way_on(operation.id, operation.paused_by.is_some(), state_dir);
        printer.note(&format!("no process is at work on it; {way_on}"));
    }
    Ok(())
}

/// Only the line of an operation is kept.
fn compacted(operation: OperationId) -> LogError {
    LogError::Compacted { stream: StreamName::of(StreamKind::OPERATION, operation) }
}

async fn log(one: &OneArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(one.state.named())?;
    let mut asked = None;
    let question = |operation| {
        asked = Some(operation);
        Request::Facts { operation }
    };
    let reply = route::ask_about(&state_dir, printer, &one.id, question).await?;
    if let (Reply::Facts { facts, first: 2.., .. }, Some(asked)) = (&reply, asked)
        && facts.is_empty()
    {
        return Err(compacted(asked).into());
    }
    match reply {
        Reply::Facts { facts: recorded, first, damage } => {
            if let Some(damage) = damage {
                printer.warn(&format!("the operation is damaged: {damage}"));
            }
            if first > 1 {
                printer.note(&format!("the {} oldest facts were compacted", first - 1));
            }
            match one.output {
                Format::Text => printer.out(&facts::text(first, &recorded, printer.width()))?,
                format => printer.value(&facts::documents(first, &recorded), format)?,
            }
        }
        other => return Err(route::unexpected(&other).into()),
    }
    Ok(Ended::Done)
}

/// A person's wish: for an operation at work, or for one in the log.
async fn wish(one: &OneArgs, wish: Wish, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(one.state.named())?;
    let Recorded { summary, waits, .. } = record(one, &wish, &state_dir, printer).await?;
    say_done(&summary, &wish, waits, &state_dir, printer)?;
    Ok(Ended::Done)
}

/// Ends an operation. Where nobody works on it, its end is worked on here.
async fn terminate(
    one: &OneArgs,
    wish: Wish,
    connection: &ConnectionArgs,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(one.state.named())?;
    let mut signals = Signals::listen()?;
    let Recorded { summary, log, .. } = record(one, &wish, &state_dir, printer).await?;
    let Some(log) = log else {
        say_done(&summary, &wish, false, &state_dir, printer)?;
        return Ok(Ended::Done);
    };
    let id = summary.operation;
    let mut clusters = Clusters::default();
    let approach = Arc::<Approach>::default();
    let ahead = Ahead { operations: BTreeSet::from([id]), approach: Arc::clone(&approach) };
    let entrance = Entrance::open(&log, ahead, &state_dir, printer);
    let recorded = operations::destination(&log, id)?;
    let connection = connection.to_connection();
    let connected = tokio::select! {
        connected = clusters.add(id, &recorded, &connection, Purpose::End, &approach, printer) => Some(connected),
        _ = signals.next() => None,
    };
    if !matches!(connected, Some(Ok(()))) {
        printer.warn(&format!(
            "the wish is recorded; operation {id} ends when its cluster can be reached: `tidegate resume {id}{}`",
            state_dir.hint()
        ));
    }
    match connected {
        Some(connected) => connected?,
        None => return Ok(Ended::NotFinished),
    }
    drop(log);
    run_to_end(entrance, clusters, &summary, one.output, &state_dir, &mut signals, printer).await
}

/// A wish that is durable.
struct Recorded {
    summary: Summary,
    /// The log, if no process has it.
    log: Option<log::Log>,
    /// Nobody works on the operation: the wish holds from the next `resume` on.
    waits: bool,
}

/// Records a wish with the process at work, or else in the log, which is then returned.
async fn record(
    one: &OneArgs,
    wish: &Wish,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Recorded, CliError> {
    let summary = route::find(state_dir, printer, &one.id).await?;
    let request = Request::Wish { operation: summary.operation, by: user(), wish: wish.clone() };
    let (reply, log) = match route::reach(state_dir, printer, &request).await? {
        Reached::Process(reply) => (route::accept(reply)?, None),
        Reached::Log(log) => (Queries::without_engine(log.clone()).answer(request).await?, Some(log)),
        Reached::Nothing => {
            return Err(ServiceError::UnknownOperation {
                text: one.id.clone(),
                state_dir: state_dir.path().to_path_buf(),
            }
            .into());
        }
    };
    match reply {
        Reply::Done => Ok(Recorded { summary, log, waits: false }),
        Reply::Recorded => Ok(Recorded { summary, log, waits: true }),
        other => Err(route::unexpected(&other).into()),
    }
}

/// Nobody works on the operation, so its end is worked on here.
async fn run_to_end(
    entrance: Entrance,
    clusters: Clusters,
    summary: &Summary,
    output: Format,
    state_dir: &StateDir,
    signals: &mut Signals,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let id = summary.operation;
    // Without them a hook may be judged otherwise; that must not keep anybody from ending the operation.
    let health = customizations::recall(state_dir, &summary.application).unwrap_or_else(|error| {
        printer.warn(&format!("going on with the built-in health rules: {error}"));
        HealthRules::built_in()
    });
    let session = Session::behind(entrance, clusters, health, state_dir, printer).await?;
    let mut progress = Progress::new(printer, 1);
    let events = session.engine.events_from_now().await?;
    let waited = match session.engine.resume(id).await {
        // What had not begun is over with the wish.
        Ok(()) | Err(EngineError::AlreadyFinished { .. }) => {
            let (operations, timeout) = (vec![id], None);
            let waiting =
                Waiting { engine: &session.engine, events, operations, timeout, follow_hooks: false };
            wait::wait(waiting, signals, &mut progress).await
        }
        Err(error) => Err(error.into()),
    };
    let stopped = wait::close(session, Retention::default(), signals).await;
    let waited = waited?;
    stopped?;
    // The command was to end it, and that is done, however the operation ended.
    match report::report(waited, output, state_dir, printer)? {
        Ended::Operation(_) => Ok(Ended::Done),
        ended => Ok(ended),
    }
}

fn say_done(
    summary: &Summary,
    wish: &Wish,
    in_log: bool,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<(), CliError> {
    let (id, hint) = (summary.operation, state_dir.hint());
    let resume = format!("go on with `tidegate resume {id}{hint}`");
    let what = match (wish, in_log) {
        (Wish::Terminate { .. }, _) => "is being terminated by the process at work".to_owned(),
        (Wish::Pause { .. }, false) => {
            format!(
                "is paused, and a command that worked on it stops; let it go on with `tidegate ops unpause {id}{hint}`"
            )
        }
        (Wish::Pause { .. }, true) => {
            format!("is paused; let it go on with `tidegate ops unpause {id}{hint}`")
        }
        (Wish::Unpause { .. }, false) => "goes on".to_owned(),
        (Wish::Unpause { .. }, true) => format!("is no longer paused; {resume}"),
        (Wish::Confirm { .. }, false) => "may prune now".to_owned(),
        (Wish::Confirm { .. }, true) => format!("may prune now; {resume}"),
        (Wish::Approve { .. }, false) => "is approved".to_owned(),
        (Wish::Approve { .. }, true) => format!("is approved; {resume}"),
        (Wish::Override { what, scope, .. }, waits) => {
            let what = match what {
                Override::Skip => format!("goes on without {scope}"),
                Override::MarkDone => format!("takes {scope} for done"),
                Override::Retry => format!("tries {scope} again"),
            };
            if waits { format!("{what}; {resume}") } else { what }
        }
    };
    let mut line = Text::plain(format!("operation {id} ({}) {what}", summary.application));
    line.end_line();
    printer.out(&line)
}
