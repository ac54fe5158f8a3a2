//! Access to operations through the running process or, if there is none, the log.

use tidegate_executor::Summary;
use tidegate_model::OperationId;
use tidegate_oplog::{Log, LogError, is_held};
use tidegate_state::error::ServiceError;
use tidegate_state::log;
use tidegate_state::notices::Notices;
use tidegate_state::operations::{self, OperationEntry};
use tidegate_state::state_dir::StateDir;
use tidegate_views::protocol::{Reply, Request};
use tidegate_views::runs::{RunSummary, RunWithEvents};

use crate::control::client::{self, RequestOutcome};
use crate::queries::Queries;
use crate::runs;

pub use crate::control::client::{check_reply, unexpected_reply_error};

/// Responder to a request.
pub enum Responder {
    /// Another process, with its reply.
    Process(Reply),
    /// No process is running. The log is open for reading and writing.
    Log(Log),
    /// The state directory has never been used.
    Unused,
}

/// Sends a request to the running process or, if there is none, opens the log.
pub async fn send_request(
    state_dir: &StateDir,
    notices: &dyn Notices,
    request: &Request,
) -> Result<Responder, ServiceError> {
    // A service with a shared log has no log in its state directory.
    let outcome = client::send_request(&state_dir.socket(), request).await?;
    let is_silent = matches!(outcome, RequestOutcome::NoResponse);
    if let RequestOutcome::Reply(reply) = outcome {
        return Ok(Responder::Process(reply));
    }
    if !state_dir.has_log()? {
        return check_responds(is_silent, state_dir).map(|()| Responder::Unused);
    }
    match log::open_locked(state_dir, notices, client::is_process_running).await {
        Ok(log) => Ok(Responder::Log(log)),
        // A process may have started listening meanwhile.
        Err(ServiceError::Log(locked @ LogError::Locked { .. })) if !is_silent => {
            match client::send_request(&state_dir.socket(), request).await? {
                RequestOutcome::Reply(reply) => Ok(Responder::Process(reply)),
                RequestOutcome::NoProcess | RequestOutcome::NoResponse => Err(locked.into()),
            }
        }
        Err(error) => Err(error),
    }
}

/// Fails if a process that uses the state directory doesn't respond.
fn check_responds(is_silent: bool, state_dir: &StateDir) -> Result<(), ServiceError> {
    if is_silent {
        return Err(ServiceError::NoResponse { state_dir: state_dir.path().to_path_buf() });
    }
    Ok(())
}

/// Responder to a query.
enum QueryResponder {
    /// Another process, with its reply.
    Process(Reply),
    /// This process, which reads the log.
    Queries(Queries),
    /// The state directory has never been used.
    Unused,
}

/// Sends a query like [`send_request`], but needs no write permission and also works if the running process
/// doesn't respond.
async fn send_query(
    state_dir: &StateDir,
    notices: &dyn Notices,
    request: &Request,
) -> Result<QueryResponder, ServiceError> {
    // A service with a shared log has no log in its state directory.
    let outcome = client::send_request(&state_dir.socket(), request).await?;
    let is_silent = matches!(outcome, RequestOutcome::NoResponse);
    if let RequestOutcome::Reply(reply) = outcome {
        return Ok(QueryResponder::Process(reply));
    }
    if !state_dir.has_log()? {
        return check_responds(is_silent, state_dir).map(|()| QueryResponder::Unused);
    }
    let reason = match log::open_once(state_dir, notices).await {
        Err(ServiceError::Log(reason)) if prevents_writing(&reason) => reason,
        result => return result.map(|log| QueryResponder::Queries(Queries::without_engine(log))),
    };
    // A process may have started listening meanwhile.
    if !is_silent
        && matches!(reason, LogError::Locked { .. })
        && let RequestOutcome::Reply(reply) = client::send_request(&state_dir.socket(), request).await?
    {
        return Ok(QueryResponder::Process(reply));
    }
    if matches!(reason, LogError::Locked { .. }) {
        notices.note(&format!("{reason}. That process is not responding; showing the last recorded state"));
    }
    tracing::info!(%reason, "reading a copy of the log");
    let log = tokio::task::block_in_place(|| log::open_read_only(state_dir, notices))?;
    // The process that holds the lock may be running this operation or another, or may only be reading.
    let is_unlocked = is_held(state_dir.path()) == Some(false);
    Ok(QueryResponder::Queries(if is_unlocked {
        Queries::without_engine(log)
    } else {
        Queries::with_other_process(log)
    }))
}

/// Returns true if an error comes from writing or locking, so that the log may still be readable.
pub fn prevents_writing(error: &LogError) -> bool {
    matches!(
        error,
        LogError::Locked { .. }
            | LogError::PermissionDenied { .. }
            | LogError::ReadOnly { .. }
            | LogError::DiskFull { .. }
            | LogError::FileSizeLimit { .. }
    )
}

/// Queries the running process or, if there is none, the log.
pub async fn query(
    state_dir: &StateDir,
    notices: &dyn Notices,
    request: Request,
) -> Result<Reply, ServiceError> {
    match send_query(state_dir, notices, &request).await? {
        QueryResponder::Process(reply) => check_reply(reply),
        QueryResponder::Queries(queries) => queries.handle_request(request).await,
        QueryResponder::Unused => Ok(Reply::Operations(Vec::new())),
    }
}

/// Returns all operations, or one Application's operations, oldest first.
pub async fn list_operations(
    state_dir: &StateDir,
    notices: &dyn Notices,
    app: Option<&str>,
) -> Result<Vec<OperationEntry>, ServiceError> {
    let request = Request::List { app: app.map(str::to_owned), open: false };
    parse_operations(query(state_dir, notices, request).await?)
}

fn parse_operations(reply: Reply) -> Result<Vec<OperationEntry>, ServiceError> {
    match reply {
        Reply::Operations(summaries) => Ok(summaries),
        other => Err(unexpected_reply_error(&other)),
    }
}

/// Sends the query that `question` builds for the operation that matches `text`.
pub async fn query_operation(
    state_dir: &StateDir,
    notices: &dyn Notices,
    text: &str,
    question: impl FnOnce(OperationId) -> Request,
) -> Result<Reply, ServiceError> {
    let find = Request::Find { text: text.to_owned() };
    let (candidates, queries) = match send_query(state_dir, notices, &find).await? {
        QueryResponder::Process(reply) => (parse_operations(check_reply(reply)?)?, None),
        QueryResponder::Queries(queries) => {
            (parse_operations(queries.handle_request(find).await?)?, Some(queries))
        }
        QueryResponder::Unused => (Vec::new(), None),
    };
    let request = question(operations::select_candidate(candidates, text, state_dir)?.operation);
    match queries {
        Some(queries) => queries.handle_request(request).await,
        None => query(state_dir, notices, request).await,
    }
}

/// Returns the operation that matches `text`.
pub async fn find_operation(
    state_dir: &StateDir,
    notices: &dyn Notices,
    text: &str,
) -> Result<Summary, ServiceError> {
    let candidates =
        parse_operations(query(state_dir, notices, Request::Find { text: text.to_owned() }).await?)?;
    Ok(operations::select_candidate(candidates, text, state_dir)?.into_summary()?)
}

/// Returns the rollouts and deletions of one ApplicationSet or of all ApplicationSets, oldest first.
pub async fn list_runs(
    state_dir: &StateDir,
    notices: &dyn Notices,
    set: Option<&str>,
) -> Result<Vec<RunSummary>, ServiceError> {
    parse_runs(query(state_dir, notices, Request::Runs { set: set.map(str::to_owned) }).await?)
}

fn parse_runs(reply: Reply) -> Result<Vec<RunSummary>, ServiceError> {
    match reply {
        Reply::Runs(lines) => Ok(lines),
        // The state directory has never been used.
        Reply::Operations(none) if none.is_empty() => Ok(Vec::new()),
        other => Err(unexpected_reply_error(&other)),
    }
}

/// Returns the rollout or deletion that matches `text`, with all its recorded events.
pub async fn find_run(
    state_dir: &StateDir,
    notices: &dyn Notices,
    text: &str,
) -> Result<RunWithEvents, ServiceError> {
    let find = Request::FindRuns { text: text.to_owned() };
    let (candidates, queries) = match send_query(state_dir, notices, &find).await? {
        QueryResponder::Process(reply) => (parse_runs(check_reply(reply)?)?, None),
        QueryResponder::Queries(queries) => (parse_runs(queries.handle_request(find).await?)?, Some(queries)),
        QueryResponder::Unused => (Vec::new(), None),
    };
    let request = Request::Run { id: runs::select_candidate(candidates, text)?.id };
    let reply = match queries {
        Some(queries) => queries.handle_request(request).await?,
        None => query(state_dir, notices, request).await?,
    };
    match reply {
        Reply::Run(run) => Ok(*run),
        other => Err(unexpected_reply_error(&other)),
    }
}
