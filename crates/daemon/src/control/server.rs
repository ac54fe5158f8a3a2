//! Server that answers requests from other processes on the control socket.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_executor::{EngineError, HookOutput};
use tidegate_model::OperationId;
use tidegate_state::error::ServiceError;
use tidegate_state::user::user_name;
use tidegate_views::protocol::{REQUEST_BYTES_MAX, Reply, Request};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use super::address::SocketAddress;
use crate::queries::{Queries, refusal_reply};

/// Maximum number of concurrent requests. Others wait.
const REQUESTS_MAX: usize = 32;
/// Timeout for receiving a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for open replies to finish during shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
const OWNER_ONLY_MODE: u32 = 0o600;
const OWNER_ONLY_FOLDER_MODE: u32 = 0o700;
/// User ID of root, who is always allowed to connect.
const ROOT_UID: u32 = 0;

/// Control socket. Accepts requests until closed.
pub struct ControlServer {
    socket: PathBuf,
    identity: SocketIdentity,
    accept_task: JoinHandle<()>,
    is_stopping: Arc<AtomicBool>,
    /// Sender with one receiver per open reply, so that the server can wait for the replies.
    open_replies: watch::Sender<()>,
    /// True once the socket file has been removed.
    is_closed: AtomicBool,
}

impl ControlServer {
    /// Starts listening. The caller must hold the lock on the state directory, so that an existing socket
    /// file can only be a dead process's.
    pub fn listen(socket: PathBuf, queries: Arc<Queries>) -> io::Result<Self> {
        let listener = bind(&socket)?;
        let identity = SocketIdentity::of(&socket)?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (open_replies, token) = watch::channel(());
        let accept_task = tokio::spawn(accept_connections(
            listener,
            identity.owner,
            queries,
            Arc::clone(&is_stopping),
            token,
        ));
        Ok(Self {
            socket,
            identity,
            accept_task,
            is_stopping,
            open_replies,
            is_closed: AtomicBool::new(false),
        })
    }

    /// Makes the server reject new requests. Clients then ask another process or read the log.
    pub fn reject_requests(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
    }

    /// Stops listening, and waits for open replies.
    pub async fn close(self) {
        self.remove_socket();
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, self.open_replies.closed()).await;
    }

    /// Removes the socket file. Open connections still get their replies.
    fn remove_socket(&self) {
        self.reject_requests();
        // A different socket at this path belongs to another process, or to a directory that replaced the
        // original.
        if !self.is_closed.swap(true, Ordering::SeqCst)
            && SocketIdentity::of(&self.socket).is_ok_and(|place| place == self.identity)
        {
            let _ = fs::remove_file(&self.socket);
        }
        self.accept_task.abort();
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.remove_socket();
    }
}

/// A socket file's identity and its owner.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SocketIdentity {
    device: u64,
    inode: u64,
    owner: u32,
}

impl SocketIdentity {
    fn of(socket: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(socket)?;
        Ok(Self { device: found.dev(), inode: found.ino(), owner: found.uid() })
    }
}

/// Binds the socket in a folder that only its owner can enter, sets its permissions, and moves it into place,
/// so that other users can never connect.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    let folder = socket.with_extension("new");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::DirBuilder::new().mode(OWNER_ONLY_FOLDER_MODE).create(&folder)?;
    let inside = folder.join("s");
    let bound = SocketAddress::for_socket(&inside).and_then(|address| UnixListener::bind(address.path()));
    let placed = bound.and_then(|listener| {
        fs::set_permissions(&inside, fs::Permissions::from_mode(OWNER_ONLY_MODE))?;
        fs::rename(&inside, socket)?;
        Ok(listener)
    });
    // If this fails, the next start removes the folder.
    let _ = fs::remove_dir_all(&folder);
    placed
}

/// Returns the requester's name from the socket's peer credentials. Fails if access is denied.
fn peer_name(stream: &UnixStream, owner: u32) -> io::Result<String> {
    match stream.peer_cred()?.uid() {
        uid if uid == owner => Ok(user_name()),
        ROOT_UID => Ok("root".to_owned()),
        uid => Err(io::Error::other(format!("user {uid} is not allowed to use this control socket"))),
    }
}

async fn accept_connections(
    listener: UnixListener,
    owner: u32,
    queries: Arc<Queries>,
    is_stopping: Arc<AtomicBool>,
    token: watch::Receiver<()>,
) {
    let places = Arc::new(Semaphore::new(REQUESTS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // The process may have run out of file handles, for example. Holding the permit while
                // sleeping prevents a busy loop.
                tracing::warn!(%error, "failed to accept a connection on the control socket");
                tokio::time::sleep(REQUEST_TIMEOUT).await;
                continue;
            }
        };
        let (queries, is_stopping, token) = (Arc::clone(&queries), Arc::clone(&is_stopping), token.clone());
        tokio::spawn(async move {
            if let Err(error) = handle_connection(stream, owner, &queries, &is_stopping).await {
                tracing::debug!(%error, "a client of the control socket disconnected");
            }
            drop((place, token));
        });
    }
}

async fn handle_connection(
    stream: UnixStream,
    owner: u32,
    queries: &Queries,
    is_stopping: &AtomicBool,
) -> io::Result<()> {
    let peer = peer_name(&stream, owner)?;
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = BufReader::new(read.take(REQUEST_BYTES_MAX));
    tokio::time::timeout(REQUEST_TIMEOUT, reader.read_until(b'\n', &mut line)).await??;
    let reply = match serde_json::from_slice::<Request>(&line) {
        _ if is_stopping.load(Ordering::SeqCst) => Reply::Stopping,
        Ok(Request::Output { operation }) => match open_output_stream(queries, operation).await {
            Ok((place, output)) => {
                let result = stream_output(output, &mut reader, &mut write).await;
                drop(place);
                result?;
                Reply::Done
            }
            // A finished operation has no output to stream.
            Err(ServiceError::Engine(EngineError::AlreadyFinished { .. })) => Reply::Done,
            Err(error) => refusal_reply(&error),
        },
        Ok(request) => queries.reply(request.with_requester(peer)).await,
        Err(_)
            if !line.ends_with(b"\n")
                && u64::try_from(line.len()).is_ok_and(|length| length >= REQUEST_BYTES_MAX) =>
        {
            Reply::Failed(format!(
                "accepts requests of at most {} KiB; send a smaller request",
                REQUEST_BYTES_MAX >> 10
            ))
        }
        Err(error) => Reply::Failed(format!(
            "cannot parse the request ({error}); check that both processes have the same version"
        )),
    };
    write.write_all(&encode_reply(&reply)?).await?;
    write.shutdown().await
}

fn encode_reply(reply: &Reply) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    Ok(line)
}

/// Returns the output of an operation's hooks, together with a permit for the stream.
async fn open_output_stream(
    queries: &Queries,
    operation: OperationId,
) -> Result<(OwnedSemaphorePermit, HookOutput), ServiceError> {
    let full = || {
        ServiceError::refused(
            "too many clients are following operations through this process; try again later",
        )
    };
    let place = queries.try_follower_permit().ok_or_else(full)?;
    Ok((place, queries.follow_output(operation).await?))
}

/// Streams hook output until the hooks finish or the client disconnects.
async fn stream_output(
    mut output: HookOutput,
    listener: &mut (impl AsyncRead + Unpin),
    write: &mut OwnedWriteHalf,
) -> io::Result<()> {
    let mut word = [0; 1];
    let gone = listener.read(&mut word);
    tokio::pin!(gone);
    loop {
        tokio::select! {
            // Clients send nothing after the request, so the end of the stream means a disconnect.
            _ = &mut gone => return Err(io::ErrorKind::BrokenPipe.into()),
            item = output.next() => match item {
                // A slow client misses lines rather than holding up others.
                Some(item) => write.write_all(&encode_reply(&Reply::Output(item))?).await?,
                None => return Ok(()),
            },
        }
    }
}
