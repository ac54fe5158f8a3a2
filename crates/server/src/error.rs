//! Why the API cannot be offered. Every message says what to do next.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the API cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Anybody could ask.
    #[error(
        "--listen {listen} can be reached from other machines, and without tokens anybody there could ask; give --tokens FILE or --oidc FILE, or listen on 127.0.0.1"
    )]
    Open {
        /// Where.
        listen: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {listen}: {source}; name another port with --listen, or end what listens there"
    )]
    Listen {
        /// Where.
        listen: SocketAddr,
        /// The system's words.
        source: io::Error,
    },
    /// A file of the settings.
    #[error("cannot read {}: {source}; check that it exists and that you may read it", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// Others may read or write what they must not.
    #[error("{} is open to others (its mode is {mode:o}): {why}; {advice}", path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// What they could do.
        why: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A line of the file of tokens. What it says is not repeated: it may be a token.
    #[error("{}, line {line}: {why}; a line is NAME ROLE sha256:HEX, and ROLE is read-only or operator", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is nobody in the file of tokens.
    #[error("{} has no token, so nobody could ask; a line is NAME ROLE sha256:HEX", path.display())]
    NoToken {
        /// The file.
        path: PathBuf,
    },
    /// No token can be made.
    #[error("the system gives no random numbers, so no token can be made; give --tokens FILE")]
    NoSecret,
    /// The secrets of webhooks. What is in them is not repeated.
    #[error("{} cannot be used for webhooks: {why}", path.display())]
    Webhooks {
        /// The file or folder.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// With whom people sign in.
    #[error("{}: {why}", path.display())]
    Oidc {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// Certificate or key.
    #[error("{} cannot be used for TLS: {why}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
}
