//! Reaching operations wherever they are: through the process at work, or in the log when there is none.

use tidegate_oplog::{LogError, Summary};

use crate::control::{self, Reply, Request};
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
    if !state_dir.has_log() {
        return Ok(Reached::Nothing);
    }
    if let Some(reply) = control::ask(&state_dir.socket(), request).await? {
        return Ok(Reached::Process(reply));
    }
    match session::lock(state_dir, printer).await {
        Ok(log) => Ok(Reached::Log(log)),
        // A process began to listen while we tried.
        Err(CliError::Log(locked @ LogError::Locked { .. })) => {
            let reply = control::ask(&state_dir.socket(), request).await?;
            reply.map(Reached::Process).ok_or_else(|| locked.into())
        }
        Err(error) => Err(error),
    }
}

/// Asks whoever can answer.
pub async fn ask(state_dir: &StateDir, printer: &Printer, request: Request) -> Result<Reply, CliError> {
    match reach(state_dir, printer, &request).await? {
        Reached::Process(reply) => accept(reply),
        Reached::Log(log) => Desk::without_engine(log).answer(request).await,
        Reached::Nothing => Ok(Reply::Operations(Vec::new())),
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

/// All operations, oldest first.
pub async fn list(state_dir: &StateDir, printer: &Printer) -> Result<Vec<Summary>, CliError> {
    match ask(state_dir, printer, Request::List).await? {
        Reply::Operations(summaries) => Ok(summaries),
        other => Err(unexpected(&other)),
    }
}

/// The operation a person means.
pub async fn find(state_dir: &StateDir, printer: &Printer, text: &str) -> Result<Summary, CliError> {
    store::find(&list(state_dir, printer).await?, text, state_dir)
}

/// An answer to another question.
pub fn unexpected(reply: &Reply) -> CliError {
    let what = match reply {
        Reply::Operations(_) => "a list of operations",
        Reply::Operation(_) => "an operation",
        Reply::Facts(_) => "facts",
        Reply::Done | Reply::Recorded => "a bare yes",
        Reply::Refused(_) | Reply::Failed(_) | Reply::Leaving => "a refusal",
    };
    CliError::Control { problem: format!("answered with {what}, which was not the question") }
}
