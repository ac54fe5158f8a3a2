//! Settings for the API server.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::error::ServerError;
use crate::forward::PeerTls;
use crate::limits::Limits;

/// Settings for the API server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address to listen on. Port 0 selects any free port.
    pub listen: SocketAddr,
    /// Token file. Without it, callers on this machine may read.
    pub tokens: Option<PathBuf>,
    /// OpenID provider settings for signing in on the page. Without them, users can only sign in with tokens.
    pub oidc: Option<PathBuf>,
    /// User who started the process. Without a token file, the server generates a token for this user and
    /// denies access to everyone else.
    pub owner: Option<String>,
    /// Webhook secrets: a file, or a folder of files. Without them, webhooks are disabled.
    pub webhooks: Option<PathBuf>,
    /// TLS certificate and key.
    pub tls: Option<TlsFiles>,
    /// TLS settings for forwarding requests to the leader, if the service shares an operation log.
    pub peer_tls: Option<PeerTls>,
    /// Limits that apply to clients.
    pub limits: Limits,
}

/// TLS certificate and key in PEM, reloaded when they change.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate with its chain.
    pub certificates: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

impl Settings {
    /// Creates settings with this address and default limits.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            tokens: None,
            oidc: None,
            owner: None,
            webhooks: None,
            tls: None,
            peer_tls: None,
            limits: Limits::default(),
        }
    }

    /// Rejects settings that would grant access to everyone.
    pub fn check(&self) -> Result<(), ServerError> {
        let is_open = self.tokens.is_none() && self.oidc.is_none();
        if is_open && !self.is_local_only() {
            return Err(ServerError::MissingTokens { listen: self.listen });
        }
        Ok(())
    }

    /// Returns true if the server listens only on this machine.
    pub(crate) fn is_local_only(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }

    /// Returns a warning for the user who starts the server, if any.
    pub fn warning(&self) -> Option<String> {
        (!self.is_local_only() && self.tls.is_none()).then(|| {
            format!(
                "{} is served without TLS, so tokens and cookies are sent unencrypted; set --tls-cert and --tls-key, unless a proxy terminates TLS",
                self.listen
            )
        })
    }
}
