//! Reaching operations wherever they are: through the process at work, or in the log when there is none.

use tidegate_executor::Summary;
use tidegate_model::OperationId;
use tidegate_oplog::{LogError, is_held};

use crate::control::{self, Asked, Listed, Reply, Request};
use crate::desk::Desk;
use crate::error::CliError;
use crate::output::Printer;
use crate::session;
use crate::state_dir::StateDir;
use crate::store::{self, Log};

/// Who answers for a state directory now.
pub enum Reached {
    /// Another process, which has answered.
    Process(Reply),
    /// Nobody: the log is ours to read and write.
    Log(Log),
    /// Nothing was ever begun here.
    Nothing,
}

/// Asks the process at work; where there is none, opens the log instead.
pub async fn reach(state_dir: &StateDir, printer: &Printer, request: &Request) -> Result<Reached, CliError> {
    if !state_dir.has_log()? {
        return Ok(Reached::Nothing);
    }
    let asked = control::ask(&state_dir.socket(), request).await?;
    let is_silent = matches!(asked, Asked::Silent);
    if let Asked::Answered(reply) = asked {
        return Ok(Reached::Process(reply));
    }
    match session::lock(state_dir, printer).await {
        Ok(log) => Ok(Reached::Log(log)),
        // A process began to listen while we tried.
        Err(CliError::Log(locked @ LogError::Locked { .. })) if !is_silent => {
            match control::ask(&state_dir.socket(), request).await? {
                Asked::Answered(reply) => Ok(Reached::Process(reply)),
                Asked::Nobody | Asked::Silent => Err(locked.into()),
            }
        }
        Err(error) => Err(error),
    }
}

/// Who answers a question.
enum Looked {
    /// Another process, which has answered.
    Process(Reply),
    /// We do, from the log.
    Desk(Desk),
    /// Nothing was ever begun here.
    Nothing,
}

/// As [`reach`], for a question: it can also be answered for those who may not write, and while a process at work does
/// not answer them.
async fn look(state_dir: &StateDir, printer: &Printer, request: &Request) -> Result<Looked, CliError> {
    if !state_dir.has_log()? {
        return Ok(Looked::Nothing);
    }
    let asked = control::ask(&state_dir.socket(), request).await?;
    let is_silent = matches!(asked, Asked::Silent);
    if let Asked::Answered(reply) = asked {
        return Ok(Looked::Process(reply));
    }
    let why = match session::open_log(state_dir, printer).await {
        Err(CliError::Log(why)) if keeps_from_writing(&why) => why,
        result => return result.map(|log| Looked::Desk(Desk::without_engine(log))),
    };
    // A process began to listen while we tried.
    if !is_silent
        && matches!(why, LogError::Locked { .. })
        && let Asked::Answered(reply) = control::ask(&state_dir.socket(), request).await?
    {
        return Ok(Looked::Process(reply));
    }
    if matches!(why, LogError::Locked { .. }) {
        printer.note(&format!("{why}. It does not answer here, so this is what it has recorded until now"));
    }
    tracing::info!(%why, "reading a copy of the log");
    let log = tokio::task::block_in_place(|| store::open_to_read(state_dir, printer))?;
    // Whoever has the lock may work on this operation, on another one, or only look.
    let nobody = is_held(state_dir.path()) == Some(false);
    Ok(Looked::Desk(if nobody { Desk::without_engine(log) } else { Desk::beside_another(log) }))
}

/// Whether an error is about writing or the lock, so that reading may still be possible.
pub fn keeps_from_writing(error: &LogError) -> bool {
    matches!(
        error,
        LogError::Locked { .. }
            | LogError::PermissionDenied { .. }
            | LogError::ReadOnly { .. }
            | LogError::DiskFull { .. }
            | LogError::SizeLimit { .. }
    )
}

/// Asks whoever can answer.
pub async fn ask(state_dir: &StateDir, printer: &Printer, request: Request) -> Result<Reply, CliError> {
    match look(state_dir, printer, &request).await? {
        Looked::Process(reply) => accept(reply),
        Looked::Desk(desk) => desk.answer(request).await,
        Looked::Nothing => Ok(Reply::Operations(Vec::new())),
    }
}

/// The answer of another process, if it is one.
pub fn accept(reply: Reply) -> Result<Reply, CliError> {
    match reply {
        Reply::Refused(message) => Err(CliError::refused(message)),
        Reply::Failed(problem) => Err(CliError::Control { problem: format!("says: {problem}") }),
        reply => Ok(reply),
    }
}

/// Operations, oldest first: all, or those of an application.
pub async fn list(
    state_dir: &StateDir,
    printer: &Printer,
    app: Option<&str>,
) -> Result<Vec<Listed>, CliError> {
    let request = Request::List { app: app.map(str::to_owned), open: false };
    operations(ask(state_dir, printer, request).await?)
}

fn operations(reply: Reply) -> Result<Vec<Listed>, CliError> {
    match reply {
        Reply::Operations(summaries) => Ok(summaries),
        other => Err(unexpected(&other)),
    }
}

/// Asks about the operation a person means.
pub async fn ask_about(
    state_dir: &StateDir,
    printer: &Printer,
    text: &str,
    question: impl FnOnce(OperationId) -> Request,
) -> Result<Reply, CliError> {
    let find = Request::Find { text: text.to_owned() };
    let (candidates, desk) = match look(state_dir, printer, &find).await? {
        Looked::Process(reply) => (operations(accept(reply)?)?, None),
        Looked::Desk(desk) => (operations(desk.answer(find).await?)?, Some(desk)),
        Looked::Nothing => (Vec::new(), None),
    };
    let request = question(store::find(candidates, text, state_dir)?.operation);
    match desk {
        Some(desk) => desk.answer(request).await,
        None => ask(state_dir, printer, request).await,
    }
}

/// The operation a person means.
pub async fn find(state_dir: &StateDir, printer: &Printer, text: &str) -> Result<Summary, CliError> {
    let candidates = operations(ask(state_dir, printer, Request::Find { text: text.to_owned() }).await?)?;
    Ok(store::find(candidates, text, state_dir)?.known()?)
}

/// An answer to another question.
pub fn unexpected(reply: &Reply) -> CliError {
    let what = match reply {
        Reply::Operations(_) => "a list of operations",
        Reply::Operation(_) => "an operation",
        Reply::Facts { .. } => "facts",
        Reply::Events(_) => "events",
        Reply::Done | Reply::Recorded => "a bare yes",
        Reply::Refused(_) | Reply::Failed(_) | Reply::Leaving => "a refusal",
    };
    CliError::Control { problem: format!("answered with {what}, which was not the question") }
}
