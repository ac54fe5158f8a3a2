//! The web page and the HTTP API of `tidegate serve`.

use std::env;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tidegate_server::{Collector, PeerTls, Server, ServerError, ServerState, Settings, Targets, TlsFiles};
use tidegate_state::user;

use crate::args::{ApiArgs, ListenAddress};
use crate::error::CliError;
use crate::output::Printer;

/// Address to try first.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8480);
/// Fallback address with any free port.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Starts the server if it is enabled. With an apps folder, the page is on by default, under a URL that only
/// the user who started the service can open. Also returns the message to print once this process manages the
/// applications.
pub async fn start_server(
    args: &ApiArgs,
    is_folder: bool,
    peer_tls: Option<PeerTls>,
    state: &Arc<ServerState>,
    printer: &Printer,
) -> Result<Option<(Server, String)>, CliError> {
    let listen = match args.listen {
        Some(ListenAddress::Address(listen)) => listen,
        None if is_folder => return start_owner_server(state, printer).await,
        Some(ListenAddress::Off) | None => return Ok(None),
    };
    let mut settings = Settings::new(listen);
    settings.tokens.clone_from(&args.tokens);
    settings.oidc.clone_from(&args.oidc);
    settings.webhooks.clone_from(&args.webhook_secrets);
    if let (Some(certificates), Some(key)) = (args.tls_cert.clone(), args.tls_key.clone()) {
        settings.tls = Some(TlsFiles { certificates, key });
    }
    settings.peer_tls = peer_tls;
    let server = Server::listen(&settings, state).await.map_err(server_error)?;
    if let Some(warning) = settings.warning() {
        printer.warn(&warning);
    }
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let who = match (settings.tokens.is_some(), server.provider()) {
        (true, None) => "clients with a token".to_owned(),
        (true, Some(provider)) => format!("clients with a token and users of {provider}"),
        (false, Some(provider)) => format!("users of {provider}"),
        (false, None) => "clients on this machine (read-only)".to_owned(),
    };
    let address = server.address();
    let text = format!(
        "the API is available to {who} at {scheme}://{address}; the web page is at {scheme}://{address}/"
    );
    Ok(Some((server, text)))
}

/// Starts the server for the user who started the service. A failure isn't fatal, because no one asked for
/// the page.
async fn start_owner_server(
    state: &Arc<ServerState>,
    printer: &Printer,
) -> Result<Option<(Server, String)>, CliError> {
    let settings = |listen| Settings { owner: Some(user::user_name()), ..Settings::new(listen) };
    let server = match Server::listen(&settings(DEFAULT_ADDRESS), state).await {
        // Another service may be using the address.
        Err(ServerError::Bind { .. }) => Server::listen(&settings(ANY_PORT), state).await,
        listening => listening,
    };
    let server = match server {
        Ok(server) => server,
        Err(error @ ServerError::Bind { .. }) => {
            printer
                .warn(&format!("the web page is disabled: {error}; use --listen to choose another address"));
            return Ok(None);
        }
        Err(error) => return Err(server_error(error)),
    };
    let (address, token) = (server.address(), server.token().unwrap_or_default());
    let text = format!(
        "the web page is at http://{address}/#token={token} (this URL grants full access; keep it secret)"
    );
    Ok(Some((server, text)))
}

/// Prints the page's URL again, because the first message has scrolled off the terminal by now.
pub fn repeat_address(server: Option<&Server>, printer: &Printer) {
    if !io::stderr().is_terminal() {
        return;
    }
    if let Some((address, token)) = server.and_then(|server| Some((server.address(), server.token()?))) {
        printer.note(&format!("the web page is at http://{address}/#token={token}"));
    }
}

/// Returns the notification targets, if configured.
pub fn notification_targets(args: &ApiArgs) -> Result<Option<Targets>, CliError> {
    let read = args.notify.as_deref().map(Targets::read).transpose();
    read.map_err(|error| CliError::usage(error.to_string()))
}

/// Returns the trace collector, if configured.
pub fn trace_collector(args: &ApiArgs, printer: &Printer) -> Result<Option<Collector>, CliError> {
    match Collector::find(args.otlp.as_deref(), |name| env::var(name).ok()) {
        Ok(found) => Ok(found),
        Err(error) if args.otlp.is_some() => Err(CliError::usage(error.to_string())),
        // The environment variables may be meant for other programs.
        Err(error) => {
            printer.warn(&format!("traces are not sent: {error}"));
            Ok(None)
        }
    }
}

fn server_error(error: ServerError) -> CliError {
    match error {
        ServerError::Bind { .. } => CliError::refused(error.to_string()),
        error => CliError::usage(error.to_string()),
    }
}
