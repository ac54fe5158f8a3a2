//! Asking the process at work.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::address::Address;
use super::{REPLY_BYTES_MAX, Reply, Request};
use crate::error::CliError;

/// A wish is answered when it is durable, which takes a moment on a busy disk.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Asks the process at work; `None` when there is none, or it is about to end.
pub async fn ask(socket: &Path, request: &Request) -> Result<Option<Reply>, CliError> {
    let Ok(address) = Address::of(socket) else { return Ok(None) };
    // The file of a process that was killed refuses connections.
    let Ok(stream) = UnixStream::connect(address.path()).await else { return Ok(None) };
    match tokio::time::timeout(ANSWER_WITHIN, exchange(stream, request)).await {
        Ok(Ok(Some(Reply::Leaving) | None)) => Ok(None),
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) => Err(CliError::Control { problem: format!("gave no usable answer: {error}") }),
        Err(_) => {
            let problem = format!("did not answer within {} s", ANSWER_WITHIN.as_secs());
            Err(CliError::Control { problem })
        }
    }
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
