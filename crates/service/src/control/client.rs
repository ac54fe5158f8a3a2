//! Asking the process at work.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::address::Address;
use super::protocol::{REPLY_BYTES_MAX, Reply, Request};
use crate::error::ServiceError;

/// A wish is answered when it is durable, which takes a moment on a busy disk.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
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
    let is_question = !matches!(
        request,
        Request::Wish { .. }
            | Request::SyncApplication { .. }
            | Request::TerminateApplication { .. }
            | Request::RollbackApplication { .. }
            | Request::DeleteApplication { .. }
            | Request::WishApplicationSet { .. }
            | Request::DeleteApplicationSet { .. }
    );
    let give_up = Instant::now() + ANSWER_WITHIN;
    let exchange = exchange(stream, request);
    tokio::pin!(exchange);
    loop {
        match tokio::time::timeout(LOOK_EVERY, &mut exchange).await {
            Ok(Ok(Some(Reply::Leaving) | None)) => return Ok(Asked::Nobody),
            Ok(Ok(Some(reply))) => return Ok(Asked::Answered(reply)),
            Ok(Err(error)) => {
                return Err(ServiceError::Control { problem: format!("gave no usable answer: {error}") });
            }
            Err(_) if is_question && (is_stopped(peer) || Instant::now() >= give_up) => {
                return Ok(Asked::Silent);
            }
            // A wish was heard, and may still come true: that is no refusal.
            Err(_) if Instant::now() >= give_up => {
                let problem = format!("did not answer within {} s", ANSWER_WITHIN.as_secs());
                return Err(ServiceError::Control { problem });
            }
            Err(_) => {}
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
