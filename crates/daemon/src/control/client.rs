//! Client for the running process.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tidegate_executor::Output;
use tidegate_model::OperationId;
use tidegate_state::error::ServiceError;
use tidegate_views::protocol::{OUTPUT_BYTES_MAX, REPLY_BYTES_MAX, Reply, Request};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::Instant;

use super::address::SocketAddress;

/// Timeout for requests that wait for a durable write, a repository or a cluster. Same as the API's.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for queries answered from memory.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between checks for a signal that has stopped (suspended) the running process.
const PROCESS_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Result of a request.
pub enum RequestOutcome {
    /// The process has replied.
    Reply(Reply),
    /// No process is running, or the process is shutting down.
    NoProcess,
    /// A process is running but doesn't respond, because it is stopped (suspended) or hangs.
    NoResponse,
}

/// Sends a request to the running process.
pub async fn send_request(socket: &Path, request: &Request) -> Result<RequestOutcome, ServiceError> {
    let Ok(address) = SocketAddress::for_socket(socket) else { return Ok(RequestOutcome::NoProcess) };
    // The socket file of a killed process refuses connections.
    let Ok(stream) = UnixStream::connect(address.path()).await else { return Ok(RequestOutcome::NoProcess) };
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
    if is_process_stopped(peer) {
        return Ok(RequestOutcome::NoResponse);
    }
    let is_short = is_memory_query(request);
    let within = if is_short { QUERY_TIMEOUT } else { REQUEST_TIMEOUT };
    let give_up = Instant::now() + within;
    let exchange = exchange_request(stream, request);
    tokio::pin!(exchange);
    loop {
        match tokio::time::timeout(PROCESS_CHECK_INTERVAL, &mut exchange).await {
            Ok(Ok(Some(Reply::Stopping) | None)) => return Ok(RequestOutcome::NoProcess),
            Ok(Ok(Some(reply))) => return Ok(RequestOutcome::Reply(reply)),
            Ok(Err(error)) => {
                return Err(ServiceError::Control { problem: format!("sent an invalid reply: {error}") });
            }
            Err(_) if is_short && (is_process_stopped(peer) || Instant::now() >= give_up) => {
                return Ok(RequestOutcome::NoResponse);
            }
            // The process has the request, which may still take effect, so don't report it as refused. A
            // repository or a cluster may be slow.
            Err(_) if Instant::now() >= give_up => {
                let problem = format!("did not respond within {} s", within.as_secs());
                return Err(ServiceError::Control { problem });
            }
            Err(_) => {}
        }
    }
}

/// Returns true if a process is running, even if it doesn't respond.
pub fn is_process_running(socket: &Path) -> BoxFuture<'_, Result<bool, ServiceError>> {
    async move {
        let outcome = send_request(socket, &Request::unfinished_operations()).await?;
        Ok(!matches!(outcome, RequestOutcome::NoProcess))
    }
    .boxed()
}

/// Returns true if a request is answered from memory, without waiting for a durable write, a repository or a
/// cluster.
fn is_memory_query(request: &Request) -> bool {
    !matches!(
        request,
        Request::RequestOperationAction { .. }
            | Request::SyncApplication { .. }
            | Request::TerminateApplication { .. }
            | Request::RollbackApplication { .. }
            | Request::DeleteApplication { .. }
            | Request::RefreshApplication { .. }
            | Request::DiffApplication { .. }
            | Request::PlanDeletion { .. }
            | Request::PlanApplication { .. }
            | Request::DiffPlan { .. }
            | Request::ApprovePlan { .. }
            | Request::SyncPlan { .. }
            | Request::RequestAppSetAction { .. }
            | Request::RefreshApplicationSet { .. }
            | Request::PlanApplicationSetDeletion { .. }
            | Request::DeleteApplicationSet { .. }
            | Request::DeleteSimulated { .. }
    )
}

/// Stream of hook output from the running process.
pub struct OutputStream {
    reader: BufReader<OwnedReadHalf>,
    /// Write half, held only to keep the stream open.
    _write_half: OwnedWriteHalf,
    /// Bytes of an incomplete reply.
    buffer: Vec<u8>,
}

/// Streams the output of an operation's hooks. Returns `None` if no process is running.
pub async fn stream_output(
    socket: &Path,
    operation: OperationId,
) -> Result<Option<OutputStream>, ServiceError> {
    let Ok(address) = SocketAddress::for_socket(socket) else { return Ok(None) };
    let Ok(stream) = UnixStream::connect(address.path()).await else { return Ok(None) };
    let (read, mut write) = stream.into_split();
    let mut line =
        serde_json::to_vec(&Request::Output { operation }).map_err(|error| protocol_error(&error))?;
    line.push(b'\n');
    if write.write_all(&line).await.is_err() {
        return Ok(None);
    }
    Ok(Some(OutputStream { reader: BufReader::new(read), _write_half: write, buffer: Vec::new() }))
}

fn protocol_error(error: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::Control { problem: format!("sent an invalid reply: {error}") }
}

impl OutputStream {
    /// Returns the next item, or `None` at the end of the stream. This method is cancel safe.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is rejected or the process has stopped.
    pub async fn next(&mut self) -> Result<Option<Output>, ServiceError> {
        let most = OUTPUT_BYTES_MAX.saturating_sub(u64::try_from(self.buffer.len()).unwrap_or(u64::MAX));
        let reading = (&mut self.reader).take(most).read_until(b'\n', &mut self.buffer).await;
        reading.map_err(|error| protocol_error(&error))?;
        if self.buffer.is_empty() {
            return Err(ServiceError::Control { problem: "closed the connection".to_owned() });
        }
        let reply = serde_json::from_slice(&std::mem::take(&mut self.buffer))
            .map_err(|error| protocol_error(&error))?;
        match check_reply(reply)? {
            Reply::Output(output) => Ok(Some(output)),
            Reply::Done | Reply::Stopping => Ok(None),
            other => Err(unexpected_reply_error(&other)),
        }
    }
}

/// Returns true if a signal has stopped (suspended) the process, which can't respond until it is continued.
/// False if unknown.
fn is_process_stopped(process: Option<i32>) -> bool {
    let Some(process) = process.filter(|process| *process > 0) else { return false };
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The process name is in parentheses and may contain any character.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}

/// Sends a request and reads the reply. Returns `None` if the process closes the connection without replying.
async fn exchange_request(mut stream: UnixStream, request: &Request) -> io::Result<Option<Reply>> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    let gone = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
    };
    match stream.write_all(&line).await {
        Err(error) if gone(&error) => return Ok(None),
        result => result?,
    }
    let mut reply = Vec::new();
    match BufReader::new(stream.take(REPLY_BYTES_MAX)).read_until(b'\n', &mut reply).await {
        Err(error) if gone(&error) => return Ok(None),
        result => result?,
    };
    if reply.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&reply)?))
}

/// Checks another process's reply, and converts an error reply to an error.
pub fn check_reply(reply: Reply) -> Result<Reply, ServiceError> {
    match reply {
        Reply::Refused(message) => Err(ServiceError::refused(message)),
        Reply::BadInput(message) => Err(ServiceError::BadInput { message }),
        Reply::Failed(problem) => Err(ServiceError::Control { problem: format!("reports: {problem}") }),
        reply => Ok(reply),
    }
}

/// Returns the error for a reply that doesn't match the request.
pub fn unexpected_reply_error(reply: &Reply) -> ServiceError {
    let what = match reply {
        Reply::Operations(_) => "a list of operations",
        Reply::Operation(_) => "an operation",
        Reply::Facts { .. } => "facts",
        Reply::Events(_) => "events",
        Reply::Runs(_) => "a list of rollouts and deletions",
        Reply::Run(_) => "a rollout or a deletion",
        Reply::Output(_) => "hook output",
        Reply::Applications { .. } => "applications",
        Reply::Differences { .. } => "differences",
        Reply::ApplicationSets { .. } => "ApplicationSets",
        Reply::ApplicationSet(_) => "an ApplicationSet",
        Reply::Deletion(_) => "a deletion order",
        Reply::DeletionPlan(_) => "a deletion plan",
        Reply::Plans(_) => "stored plans",
        Reply::Plan { .. } => "a stored plan",
        Reply::SyncWindow(_) => "a sync window",
        Reply::Done | Reply::Recorded => "an acknowledgment",
        Reply::Refused(_) | Reply::BadInput(_) | Reply::Failed(_) | Reply::Stopping => "an error",
    };
    ServiceError::Control { problem: format!("sent an unexpected reply: {what}") }
}
