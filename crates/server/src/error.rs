//! Errors from starting the API server. Every message says what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Error from starting the API server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server is reachable from other machines, but authentication isn't configured.
    #[error(
        "--listen {listen} is reachable from other machines, but authentication is not configured: add \
         --tokens FILE or --oidc FILE, or listen on 127.0.0.1"
    )]
    MissingTokens {
        /// Configured listen address.
        listen: SocketAddr,
    },
    /// The server can't bind to the address.
    #[error(
        "cannot listen on {listen}: {source}; choose another port with --listen, or stop the process that \
         uses this port"
    )]
    Bind {
        /// Configured listen address.
        listen: SocketAddr,
        /// Error from the operating system.
        source: io::Error,
    },
    /// A configuration file can't be read.
    #[error("cannot read {}: {source}; check that the file exists and is readable", path.display())]
    ReadFile {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        source: io::Error,
    },
    /// A file's permissions give other users too much access.
    #[error("{} is accessible to other users (mode {mode:o}): {why}; {advice}", path.display())]
    FilePermissions {
        /// Path of the file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
        /// Reason why these permissions are a problem.
        why: &'static str,
        /// Next step for the user.
        advice: &'static str,
    },
    /// The token file has an invalid line, which the error doesn't quote because it may include a token.
    #[error("{}, line {line}: {why}; use NAME ROLE sha256:HEX, where ROLE is read-only or operator", path.display())]
    InvalidToken {
        /// Token file.
        path: PathBuf,
        /// Line number, starting at 1.
        line: usize,
        /// Description of the problem.
        why: &'static str,
    },
    /// The token file has no tokens.
    #[error("{} contains no token; add a line such as NAME ROLE sha256:HEX", path.display())]
    EmptyTokenFile {
        /// Path of the token file.
        path: PathBuf,
    },
    /// No token can be generated.
    #[error("cannot generate a token because the system cannot provide random numbers; use --tokens FILE")]
    TokenGeneration,
    /// The webhook secrets are invalid. The error doesn't quote them.
    #[error("{} cannot be used for webhooks: {why}", path.display())]
    InvalidWebhooks {
        /// File or folder.
        path: PathBuf,
        /// Description of the problem, and what to do next.
        why: String,
    },
    /// The OpenID provider settings are invalid.
    #[error("{}: {why}", path.display())]
    InvalidOidc {
        /// Settings file.
        path: PathBuf,
        /// Description of the problem, and what to do next.
        why: String,
    },
    /// The TLS certificate or key is invalid.
    #[error("{} cannot be used for TLS: {why}", path.display())]
    InvalidTls {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem, and what to do next.
        why: String,
    },
}
