//! Reaching operations wherever they are: through the process at work, or in the log when there is none.

use tidegate_executor::Summary;
use tidegate_model::OperationId;
use tidegate_oplog::{Log, LogError, is_held};

use crate::control::client::{self, Asked};
use crate::control::protocol::{Reply, Request};
use crate::documents::runs::{Run, RunLine};
use crate::error::ServiceError;
use crate::log;
use crate::notices::Notices;
use crate::operations::{self, Listed};
use crate::queries::Queries;
use crate::runs;
use crate::state_dir::StateDir;

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
pub async fn reach(
    state_dir: &StateDir,
    notices: &dyn Notices,
    request: &Request,
) -> Result<Reached, ServiceError> {
    if !state_dir.has_log()? {
        return Ok(Reached::Nothing);
    }
    let asked = client::ask(&state_dir.socket(), request).await?;
    let is_silent = matches!(asked, Asked::Silent);
    if let Asked::Answered(reply) = asked {
        return Ok(Reached::Process(reply));
    }
    match log::lock(state_dir, notices).await {
        Ok(log) => Ok(Reached::Log(log)),
        // A process began to listen while we tried.
        Err(ServiceError::Log(locked @ LogError::Locked { .. })) if !is_silent => {
            match client::ask(&state_dir.socket(), request).await? {
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
    Queries(Queries),
    /// Nothing was ever begun here.
    Nothing,
}

/// As [`reach`], for a question: it can also be answered for those who may not write, and while a process at work does
/// not answer them.
async fn look(
    state_dir: &StateDir,
    notices: &dyn Notices,
    request: &Request,
) -> Result<Looked, ServiceError> {
    if !state_dir.has_log()? {
        return Ok(Looked::Nothing);
    }
    let asked = client::ask(&state_dir.socket(), request).await?;
    let is_silent = matches!(asked, Asked::Silent);
    if let Asked::Answered(reply) = asked {
        return Ok(Looked::Process(reply));
    }
    let why = match log::open_once(state_dir, notices).await {
        Err(ServiceError::Log(why)) if keeps_from_writing(&why) => why,
        result => return result.map(|log| Looked::Queries(Queries::without_engine(log))),
    };
    // A process began to listen while we tried.
    if !is_silent
        && matches!(why, LogError::Locked { .. })
        && let Asked::Answered(reply) = client::ask(&state_dir.socket(), request).await?
    {
        return Ok(Looked::Process(reply));
    }
    if matches!(why, LogError::Locked { .. }) {
        notices.note(&format!("{why}. It does not answer here, so this is what it has recorded until now"));
    }
    tracing::info!(%why, "reading a copy of the log");
    let log = tokio::task::block_in_place(|| log::open_to_read(state_dir, notices))?;
    // Whoever has the lock may work on this operation, on another one, or only look.
    let nobody = is_held(state_dir.path()) == Some(false);
    Ok(Looked::Queries(if nobody { Queries::without_engine(log) } else { Queries::beside_another(log) }))
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
pub async fn ask(
    state_dir: &StateDir,
    notices: &dyn Notices,
    request: Request,
) -> Result<Reply, ServiceError> {
    match look(state_dir, notices, &request).await? {
        Looked::Process(reply) => accept(reply),
        Looked::Queries(queries) => queries.answer(request).await,
        Looked::Nothing => Ok(Reply::Operations(Vec::new())),
    }
}

/// The answer of another process, if it is one.
pub fn accept(reply: Reply) -> Result<Reply, ServiceError> {
    match reply {
        Reply::Refused(message) => Err(ServiceError::refused(message)),
        Reply::BadInput(message) => Err(ServiceError::BadInput { message }),
        Reply::Failed(problem) => Err(ServiceError::Control { problem: format!("says: {problem}") }),
        reply => Ok(reply),
    }
}

/// Operations, oldest first: all, or those of an application.
pub async fn list(
    state_dir: &StateDir,
    notices: &dyn Notices,
    app: Option<&str>,
) -> Result<Vec<Listed>, ServiceError> {
    let request = Request::List { app: app.map(str::to_owned), open: false };
    operations(ask(state_dir, notices, request).await?)
}

fn operations(reply: Reply) -> Result<Vec<Listed>, ServiceError> {
    match reply {
        Reply::Operations(summaries) => Ok(summaries),
        other => Err(unexpected(&other)),
    }
}

/// Asks about the operation a person means.
pub async fn ask_about(
    state_dir: &StateDir,
    notices: &dyn Notices,
    text: &str,
    question: impl FnOnce(OperationId) -> Request,
) -> Result<Reply, ServiceError> {
    let find = Request::Find { text: text.to_owned() };
    let (candidates, queries) = match look(state_dir, notices, &find).await? {
        Looked::Process(reply) => (operations(accept(reply)?)?, None),
        Looked::Queries(queries) => (operations(queries.answer(find).await?)?, Some(queries)),
        Looked::Nothing => (Vec::new(), None),
    };
    let request = question(operations::find(candidates, text, state_dir)?.operation);
    match queries {
        Some(queries) => queries.answer(request).await,
        None => ask(state_dir, notices, request).await,
    }
}

/// The operation a person means.
pub async fn find(state_dir: &StateDir, notices: &dyn Notices, text: &str) -> Result<Summary, ServiceError> {
    let candidates = operations(ask(state_dir, notices, Request::Find { text: text.to_owned() }).await?)?;
    Ok(operations::find(candidates, text, state_dir)?.known()?)
}

/// Rollouts and deletions of an ApplicationSet, or of all, oldest first.
pub async fn run_list(
    state_dir: &StateDir,
    notices: &dyn Notices,
    set: Option<&str>,
) -> Result<Vec<RunLine>, ServiceError> {
    run_lines(ask(state_dir, notices, Request::Runs { set: set.map(str::to_owned) }).await?)
}

fn run_lines(reply: Reply) -> Result<Vec<RunLine>, ServiceError> {
    match reply {
        Reply::Runs(lines) => Ok(lines),
        // Nothing was ever begun here.
        Reply::Operations(none) if none.is_empty() => Ok(Vec::new()),
        other => Err(unexpected(&other)),
    }
}

/// The rollout or deletion a person means, and everything that was recorded about it.
pub async fn run(state_dir: &StateDir, notices: &dyn Notices, text: &str) -> Result<Run, ServiceError> {
    let find = Request::FindRuns { text: text.to_owned() };
    let (candidates, queries) = match look(state_dir, notices, &find).await? {
        Looked::Process(reply) => (run_lines(accept(reply)?)?, None),
        Looked::Queries(queries) => (run_lines(queries.answer(find).await?)?, Some(queries)),
        Looked::Nothing => (Vec::new(), None),
    };
    let request = Request::Run { id: runs::find(candidates, text)?.id };
    let reply = match queries {
        Some(queries) => queries.answer(request).await?,
        None => ask(state_dir, notices, request).await?,
    };
    match reply {
        Reply::Run(run) => Ok(*run),
        other => Err(unexpected(&other)),
    }
}

/// An answer to another question.
pub fn unexpected(reply: &Reply) -> ServiceError {
    let what = match reply {
        Reply::Operations(_) => "a list of operations",
        Reply::Operation(_) => "an operation",
        Reply::Facts { .. } => "facts",
        Reply::Events(_) => "events",
        Reply::Runs(_) => "a list of rollouts and deletions",
        Reply::Run(_) => "a rollout or a deletion",
        Reply::Output(_) => "the output of a hook",
        Reply::Applications { .. } => "applications",
        Reply::Differences { .. } => "differences",
        Reply::ApplicationSets { .. } => "ApplicationSets",
        Reply::ApplicationSet(_) => "an ApplicationSet",
        Reply::Deletion(_) => "the order of a deletion",
        Reply::DeletionPlan(_) => "the plan of a deletion",
        Reply::Plans(_) => "kept plans",
        Reply::Plan { .. } => "a kept plan",
        Reply::SyncWindow(_) => "a sync window",
        Reply::Done | Reply::Recorded => "a bare yes",
        Reply::Refused(_) | Reply::BadInput(_) | Reply::Failed(_) | Reply::Leaving => "a refusal",
    };
    ServiceError::Control { problem: format!("answered with {what}, which was not the question") }
}
