//! Connections of `tidegate serve` to the other services that share its operation log.

use std::fs;
use std::sync::Arc;

use tidegate_oplog::{KeptKind, LogError, PostgresLog};
use tidegate_server::{PeerTls, Server, SessionStore};
use tidegate_web::{SystemTrust, TrustedServers};

use crate::args::ServeArgs;
use crate::error::CliError;

/// Returns the TLS settings for forwarding requests to the leader, or `None` without a shared log.
pub fn tls_settings(args: &ServeArgs) -> Result<Option<PeerTls>, CliError> {
    if args.log.is_none() {
        return Ok(None);
    }
    let read = |path| fs::read_to_string(path).map_err(|error| CliError::io("read", path, error));
    let authorities = args.peer_ca.as_ref().map(read).transpose()?;
    let trusted = authorities.as_deref().map_or(TrustedServers::System, TrustedServers::Authorities);
    let config = SystemTrust::default().tls_config(trusted, None).map_err(|error| {
        CliError::usage(format!("cannot verify the certificates of other services: {error}"))
    })?;
    Ok(Some(PeerTls { config, server_name: args.peer_name.clone() }))
}

/// Returns the URL at which other services reach the API of this one, if they can.
pub fn advertised_url(args: &ServeArgs, server: Option<&Server>) -> Result<Option<String>, CliError> {
    let (Some(server), true) = (server, args.log.is_some()) else { return Ok(None) };
    if let Some(url) = &args.advertise {
        // The leader can't distinguish forwarded requests of other users from those of its own machine.
        if args.api.tokens.is_none() && args.api.oidc.is_none() {
            return Err(CliError::usage(format!(
                "other machines can use the API at {url} through a standby; restrict access with `tidegate serve --tokens \
                 FILE` or `tidegate serve --oidc FILE`"
            )));
        }
        return Ok(Some(url.clone()));
    }
    let address = server.address();
    let is_reachable = !address.ip().is_unspecified() && !address.ip().to_canonical().is_loopback();
    let scheme = if args.api.tls_cert.is_some() { "https" } else { "http" };
    Ok(is_reachable.then(|| format!("{scheme}://{address}")))
}

/// Sessions of the web page in a shared log.
struct SharedSessions(Arc<PostgresLog>);

/// Returns the store for the sessions of the web page.
pub fn session_store(log: Arc<PostgresLog>) -> Arc<dyn SessionStore> {
    Arc::new(SharedSessions(log))
}

impl SessionStore for SharedSessions {
    fn load(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let names = self.0.list_kept(KeptKind::Session).map_err(describe)?;
        let mut sessions = Vec::new();
        for name in names {
            // The name proves that a service with the key has written the content.
            let content = match name.parse() {
                Ok(digest) => match self.0.kept_sealed(KeptKind::Session, digest) {
                    Err(error) if error.is_outage() => return Err(describe(error)),
                    read => read.unwrap_or_default(),
                },
                Err(_) => Vec::new(),
            };
            sessions.push((name, content));
        }
        Ok(sessions)
    }

    fn save(&self, content: &[u8]) -> Result<String, String> {
        self.0.keep_sealed(KeptKind::Session, content).map(|name| name.to_string()).map_err(describe)
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        self.0.discard(KeptKind::Session, name).map_err(describe)
    }
}

fn describe(error: LogError) -> String {
    error.to_string()
}
