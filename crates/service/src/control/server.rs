//! The process at work answers others.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_executor::{EngineError, HookOutput};
use tidegate_model::OperationId;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use super::address::Address;
use super::protocol::{REQUEST_BYTES_MAX, Reply, Request};
use crate::error::ServiceError;
use crate::queries::{Queries, refusal};
use crate::user::user;

/// Questions answered at once; others wait.
const CONNECTIONS_MAX: usize = 32;
/// How long somebody may take to ask.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// How long answers on their way may take when the process ends.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
const OWNER_ONLY: u32 = 0o600;
const OWNER_ONLY_FOLDER: u32 = 0o700;
/// May do everything anyway.
const ROOT: u32 = 0;

/// Listens until it is closed.
pub struct Server {
    socket: PathBuf,
    place: Place,
    accepting: JoinHandle<()>,
    leaving: Arc<AtomicBool>,
    /// Each answer on its way holds a receiver.
    answering: watch::Sender<()>,
    /// Nobody finds it any more.
    closed: AtomicBool,
}

impl Server {
    /// Begins to listen. The caller holds the lock of the state directory, so a socket file that is there belongs to
    /// a dead process.
    pub fn listen(socket: PathBuf, queries: Arc<Queries>) -> io::Result<Self> {
        let listener = bind(&socket)?;
        let place = Place::of(&socket)?;
        let leaving = Arc::new(AtomicBool::new(false));
        let (answering, token) = watch::channel(());
        let accepting = tokio::spawn(accept(listener, place.owner, queries, Arc::clone(&leaving), token));
        Ok(Self { socket, place, accepting, leaving, answering, closed: AtomicBool::new(false) })
    }

    /// From now on, those who ask are told to ask elsewhere.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    /// Stops listening, after the answers on their way.
    pub async fn close(self) {
        self.hide();
        let _ = tokio::time::timeout(ANSWERS_WITHIN, self.answering.closed()).await;
    }

    /// Nobody finds it any more; and whoever is connected gets the rest of the answer.
    fn hide(&self) {
        self.leave();
        // What is in its place afterwards is somebody else's. Where the directory is another one now, so is the socket in it.
        if !self.closed.swap(true, Ordering::SeqCst)
            && Place::of(&self.socket).is_ok_and(|place| place == self.place)
        {
            let _ = fs::remove_file(&self.socket);
        }
        self.accepting.abort();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hide();
    }
}

/// Which file a socket is, and whose.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    device: u64,
    inode: u64,
    owner: u32,
}

impl Place {
    fn of(socket: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(socket)?;
        Ok(Self { device: found.dev(), inode: found.ino(), owner: found.uid() })
    }
}

/// Binds in a folder that nobody else may enter, and puts the socket in its place when only its owner may connect: at no
/// moment may anybody else.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    let folder = socket.with_extension("new");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::DirBuilder::new().mode(OWNER_ONLY_FOLDER).create(&folder)?;
    let inside = folder.join("s");
    let bound = Address::of(&inside).and_then(|address| UnixListener::bind(address.path()));
    let placed = bound.and_then(|listener| {
        fs::set_permissions(&inside, fs::Permissions::from_mode(OWNER_ONLY))?;
        fs::rename(&inside, socket)?;
        Ok(listener)
    });
    // What is left of it is removed next time.
    let _ = fs::remove_dir_all(&folder);
    placed
}

/// Who asks, by what the system says of the other end of the socket; an error where they may not.
fn peer(stream: &UnixStream, owner: u32) -> io::Result<String> {
    match stream.peer_cred()?.uid() {
        uid if uid == owner => Ok(user()),
        ROOT => Ok("root".to_owned()),
        uid => Err(io::Error::other(format!("user {uid} may not ask here"))),
    }
}

async fn accept(
    listener: UnixListener,
    owner: u32,
    queries: Arc<Queries>,
    leaving: Arc<AtomicBool>,
    token: watch::Receiver<()>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file handles, for example. One place stays taken for a moment, so this does not spin.
                tracing::warn!(%error, "the control socket accepts nobody");
                tokio::time::sleep(REQUEST_WITHIN).await;
                continue;
            }
        };
        let (queries, leaving, token) = (Arc::clone(&queries), Arc::clone(&leaving), token.clone());
        tokio::spawn(async move {
            if let Err(error) = serve(stream, owner, &queries, &leaving).await {
                tracing::debug!(%error, "somebody asked and went away");
            }
            drop((place, token));
        });
    }
}

async fn serve(stream: UnixStream, owner: u32, queries: &Queries, leaving: &AtomicBool) -> io::Result<()> {
    let peer = peer(&stream, owner)?;
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = BufReader::new(read.take(REQUEST_BYTES_MAX));
    tokio::time::timeout(REQUEST_WITHIN, reader.read_until(b'\n', &mut line)).await??;
    let reply = match serde_json::from_slice::<Request>(&line) {
        _ if leaving.load(Ordering::SeqCst) => Reply::Leaving,
        Ok(Request::Output { operation }) => match follow(queries, operation).await {
            Ok((place, output)) => {
                let told = tell(output, &mut reader, &mut write).await;
                drop(place);
                told?;
                Reply::Done
            }
            // Nothing follows.
            Err(ServiceError::Engine(EngineError::AlreadyFinished { .. })) => Reply::Done,
            Err(error) => refusal(&error),
        },
        Ok(request) => queries.reply(request.asked_by(peer)).await,
        Err(_)
            if !line.ends_with(b"\n")
                && u64::try_from(line.len()).is_ok_and(|length| length >= REQUEST_BYTES_MAX) =>
        {
            Reply::Failed(format!(
                "takes no request of more than {} KiB; ask for less at once",
                REQUEST_BYTES_MAX >> 10
            ))
        }
        Err(error) => Reply::Failed(format!("did not understand ({error}); are both of the same version?")),
    };
    write.write_all(&line_of(&reply)?).await?;
    write.shutdown().await
}

fn line_of(reply: &Reply) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    Ok(line)
}

/// The output of an operation's hooks, and a place among those who follow something.
async fn follow(
    queries: &Queries,
    operation: OperationId,
) -> Result<(OwnedSemaphorePermit, HookOutput), ServiceError> {
    let full = || ServiceError::refused("as many follow operations through this process as may; try again");
    let place = queries.follower_place().ok_or_else(full)?;
    Ok((place, queries.follow_output(operation).await?))
}

/// Tells what hooks write, until they are over or nobody listens any more.
async fn tell(
    mut output: HookOutput,
    listener: &mut (impl AsyncRead + Unpin),
    write: &mut OwnedWriteHalf,
) -> io::Result<()> {
    let mut word = [0; 1];
    let gone = listener.read(&mut word);
    tokio::pin!(gone);
    loop {
        tokio::select! {
            // Who listens says nothing more.
            _ = &mut gone => return Err(io::ErrorKind::BrokenPipe.into()),
            item = output.next() => match item {
                // Who is slow misses lines, and keeps nobody waiting.
                Some(item) => write.write_all(&line_of(&Reply::Output(item))?).await?,
                None => return Ok(()),
            },
        }
    }
}
