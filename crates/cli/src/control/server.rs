//! The process at work answers others.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use super::address::Address;
use super::{REQUEST_BYTES_MAX, Reply, Request};
use crate::desk::Desk;

/// Questions answered at once; others wait.
const CONNECTIONS_MAX: usize = 32;
/// How long somebody may take to ask.
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
/// How long answers on their way may take when the process ends.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
const OWNER_ONLY: u32 = 0o600;

/// Listens until it is closed.
pub struct Server {
    socket: PathBuf,
    accepting: JoinHandle<()>,
    leaving: Arc<AtomicBool>,
    /// Each answer on its way holds a receiver.
    answering: watch::Sender<()>,
}

impl Server {
    /// Begins to listen. The caller holds the lock of the state directory, so a socket file that is there belongs to
    /// a dead process.
    pub fn listen(socket: PathBuf, desk: Arc<Desk>) -> io::Result<Self> {
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(Address::of(&socket)?.path())?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(OWNER_ONLY))?;
        let leaving = Arc::new(AtomicBool::new(false));
        let (answering, token) = watch::channel(());
        let accepting = tokio::spawn(accept(listener, desk, Arc::clone(&leaving), token));
        Ok(Self { socket, accepting, leaving, answering })
    }

    /// From now on, those who ask are told to ask elsewhere.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    /// Stops listening, after the answers on their way.
    pub async fn close(self) {
        self.leave();
        // Nobody finds it any more; and whoever is connected gets the rest of the answer.
        let _ = fs::remove_file(&self.socket);
        self.accepting.abort();
        let _ = tokio::time::timeout(ANSWERS_WITHIN, self.answering.closed()).await;
    }
}

async fn accept(
    listener: UnixListener,
    desk: Arc<Desk>,
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
        let (desk, leaving, token) = (Arc::clone(&desk), Arc::clone(&leaving), token.clone());
        tokio::spawn(async move {
            if let Err(error) = serve(stream, &desk, &leaving).await {
                tracing::debug!(%error, "somebody asked and went away");
            }
            drop((place, token));
        });
    }
}

async fn serve(stream: UnixStream, desk: &Desk, leaving: &AtomicBool) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = Vec::new();
    let mut reader = BufReader::new(read.take(REQUEST_BYTES_MAX));
    tokio::time::timeout(REQUEST_WITHIN, reader.read_until(b'\n', &mut line)).await??;
    let reply = match serde_json::from_slice::<Request>(&line) {
        _ if leaving.load(Ordering::SeqCst) => Reply::Leaving,
        Ok(request) => desk.reply(request).await,
        Err(error) => Reply::Failed(format!("did not understand ({error}); are both of the same version?")),
    };
    let mut answer = serde_json::to_vec(&reply)?;
    answer.push(b'\n');
    write.write_all(&answer).await?;
    write.shutdown().await
}
