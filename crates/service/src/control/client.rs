//! Asking the process at work.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tidegate_executor::Output;
use tidegate_model::OperationId;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::Instant;

use super::address::Address;
use super::protocol::{OUTPUT_BYTES_MAX, REPLY_BYTES_MAX, Reply, Request};
use crate::error::ServiceError;
use crate::route::{accept, unexpected};

/// A wish is answered when it is durable, which takes a moment on a busy disk, and a question about a repository when that has
/// answered: as long as the API has for it.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// A question that is answered from memory.
const TOLD_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked whether whoever was asked has been stopped meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What became of a request.
pub enum Asked {
    /// It was answered.
    Answered(Reply),
    /// Nobody is there, or whoever is, is about to end.
    Nobody,
    /// A process is there, and does not answer: it was stopped, or hangs.
    Silent,
}

/// Asks the process at work.
pub async fn ask(socket: &Path, request: &Request) -> Result<Asked, ServiceError> {
    let Ok(address) = Address::of(socket) else { return Ok(Asked::Nobody) };
    // The file of a process that was killed refuses connections.
    let Ok(stream) = UnixStream::connect(address.path()).await else { return Ok(Asked::Nobody) };
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
    if is_stopped(peer) {
        return Ok(Asked::Silent);
    }
    let is_told = is_told(request);
    let within = if is_told { TOLD_WITHIN } else { ANSWER_WITHIN };
    let give_up = Instant::now() + within;
    let exchange = exchange(stream, request);
    tokio::pin!(exchange);
    loop {
        match tokio::time::timeout(LOOK_EVERY, &mut exchange).await {
            Ok(Ok(Some(Reply::Leaving) | None)) => return Ok(Asked::Nobody),
            Ok(Ok(Some(reply))) => return Ok(Asked::Answered(reply)),
            Ok(Err(error)) => {
                return Err(ServiceError::Control { problem: format!("gave no usable answer: {error}") });
            }
            Err(_) if is_told && (is_stopped(peer) || Instant::now() >= give_up) => {
                return Ok(Asked::Silent);
            }
            // A wish was heard, and may still come true: that is no refusal. A repository or a cluster may be what hangs.
            Err(_) if Instant::now() >= give_up => {
                let problem = format!("did not answer within {} s", within.as_secs());
                return Err(ServiceError::Control { problem });
            }
            Err(_) => {}
        }
    }
}

/// Whether a request is answered by what the process knows: neither a wish nor a question that a repository or a cluster is asked.
fn is_told(request: &Request) -> bool {
    !matches!(
        request,
        Request::Wish { .. }
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
            | Request::WishApplicationSet { .. }
            | Request::RefreshApplicationSet { .. }
            | Request::PlanApplicationSetDeletion { .. }
            | Request::DeleteApplicationSet { .. }
            | Request::DeleteSimulated { .. }
    )
}

/// What hooks write, as the process at work tells it.
pub struct Following {
    reader: BufReader<OwnedReadHalf>,
    /// For as long as it is open, we listen.
    _listening: OwnedWriteHalf,
    /// What has come of a reply.
    read: Vec<u8>,
}

/// Begins to follow the output of an operation's hooks; nothing where nobody is there.
pub async fn follow(socket: &Path, operation: OperationId) -> Result<Option<Following>, ServiceError> {
    let Ok(address) = Address::of(socket) else { return Ok(None) };
    let Ok(stream) = UnixStream::connect(address.path()).await else { return Ok(None) };
    let (read, mut write) = stream.into_split();
    let mut line = serde_json::to_vec(&Request::Output { operation }).map_err(|error| broken(&error))?;
    line.push(b'\n');
    if write.write_all(&line).await.is_err() {
        return Ok(None);
    }
    Ok(Some(Following { reader: BufReader::new(read), _listening: write, read: Vec::new() }))
}

fn broken(error: &dyn std::fmt::Display) -> ServiceError {
    ServiceError::Control { problem: format!("gave no usable answer: {error}") }
}

impl Following {
    /// What is told next. `None` when nothing will follow. May be given up at any moment and asked again.
    ///
    /// # Errors
    ///
    /// It is refused, or the process has ended.
    pub async fn next(&mut self) -> Result<Option<Output>, ServiceError> {
        let most = OUTPUT_BYTES_MAX.saturating_sub(u64::try_from(self.read.len()).unwrap_or(u64::MAX));
        let reading = (&mut self.reader).take(most).read_until(b'\n', &mut self.read).await;
        reading.map_err(|error| broken(&error))?;
        if self.read.is_empty() {
            return Err(ServiceError::Control { problem: "has ended".to_owned() });
        }
        let reply =
            serde_json::from_slice(&std::mem::take(&mut self.read)).map_err(|error| broken(&error))?;
        match accept(reply)? {
            Reply::Output(output) => Ok(Some(output)),
            Reply::Done | Reply::Leaving => Ok(None),
            other => Err(unexpected(&other)),
        }
    }
}

/// Whether a process has been stopped by a signal, and answers nothing until it is let go on. Not where that cannot be
/// told.
fn is_stopped(process: Option<i32>) -> bool {
    let Some(process) = process.filter(|process| *process > 0) else { return false };
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Its name, in brackets, may hold anything.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}

/// `None` when the other side went away without an answer.
async fn exchange(mut stream: UnixStream, request: &Request) -> io::Result<Option<Reply>> {
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
