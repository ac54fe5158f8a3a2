//! Where and how the API is offered.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::error::ServerError;
use crate::limits::Limits;

/// Where and how the API is offered.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it is listened; port 0 for any.
    pub listen: SocketAddr,
    /// The tokens of those who may ask. Without them those on this machine may look.
    pub tokens: Option<PathBuf>,
    /// With whom people sign in at the page. Without it, nobody does but with a token.
    pub oidc: Option<PathBuf>,
    /// Who has started the process: without tokens, one is made for them, and nobody else may ask.
    pub owner: Option<String>,
    /// The secrets of webhooks: a file, or a folder of files. Without them no webhook is taken.
    pub webhooks: Option<PathBuf>,
    /// What the connections are secured with.
    pub tls: Option<TlsFiles>,
    /// What is taken from those who ask.
    pub limits: Limits,
}

/// What connections are secured with, in PEM. Both are read again when they change.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, and those that vouch for it.
    pub certificates: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Settings {
    /// The usual limits, and nothing but this address.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            tokens: None,
            oidc: None,
            owner: None,
            webhooks: None,
            tls: None,
            limits: Limits::default(),
        }
    }

    /// Refuses what would let in anybody.
    pub fn check(&self) -> Result<(), ServerError> {
        let is_open = self.tokens.is_none() && self.oidc.is_none();
        if is_open && !self.is_here() {
            return Err(ServerError::Open { listen: self.listen });
        }
        Ok(())
    }

    /// Whether it is offered to this machine alone.
    pub(crate) fn is_here(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }

    /// What those who start it should know; nothing where all is well.
    pub fn warning(&self) -> Option<String> {
        (!self.is_here() && self.tls.is_none()).then(|| {
            format!(
                "{} is served without TLS: tokens and cookies can be read on the way; give --tls-cert and --tls-key, unless something in front of it does TLS",
                self.listen
            )
        })
    }
}
