//! The page and the HTTP API of `tidegate serve`.

use std::env;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tidegate_server::{Collector, Server, ServerError, Settings, Site, Targets, TlsFiles};
use tidegate_service::user;

use crate::args::{ApiArgs, Listen};
use crate::error::CliError;
use crate::output::Printer;

/// Where is listened where nobody says it.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8480);
/// Any port that is free.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Begins to listen, where that is asked for. Applications of a folder are those of a person, who is shown them without
/// having to ask: at an address that lets in nobody else. With it comes what is told of that once it is sure that this process
/// serves.
pub async fn listen(
    args: &ApiArgs,
    is_folder: bool,
    site: &Arc<Site>,
    printer: &Printer,
) -> Result<Option<(Server, String)>, CliError> {
    let listen = match args.listen {
        Some(Listen::At(listen)) => listen,
        None if is_folder => return listen_for_owner(site, printer).await,
        Some(Listen::Off) | None => return Ok(None),
    };
    let mut settings = Settings::new(listen);
    settings.tokens.clone_from(&args.tokens);
    settings.oidc.clone_from(&args.oidc);
    settings.webhooks.clone_from(&args.webhook_secrets);
    if let (Some(certificates), Some(key)) = (args.tls_cert.clone(), args.tls_key.clone()) {
        settings.tls = Some(TlsFiles { certificates, key });
    }
    let server = Server::listen(&settings, site).await.map_err(refused)?;
    if let Some(warning) = settings.warning() {
        printer.warn(&warning);
    }
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let who = match (settings.tokens.is_some(), server.provider()) {
        (true, None) => "those with a token".to_owned(),
        (true, Some(provider)) => format!("those with a token or who sign in with {provider}"),
        (false, Some(provider)) => format!("those who sign in with {provider}"),
        (false, None) => "those on this machine, who may look".to_owned(),
    };
    let address = server.address();
    let said = format!(
        "the API is at {scheme}://{address} for {who}; the page that shows it is at {scheme}://{address}/"
    );
    Ok(Some((server, said)))
}

/// A page that nobody has asked for keeps nothing from being served.
async fn listen_for_owner(site: &Arc<Site>, printer: &Printer) -> Result<Option<(Server, String)>, CliError> {
    let settings = |listen| Settings { owner: Some(user::user()), ..Settings::new(listen) };
    let server = match Server::listen(&settings(USUAL), site).await {
        // Another service may be there.
        Err(ServerError::Listen { .. }) => Server::listen(&settings(ANY), site).await,
        listening => listening,
    };
    let server = match server {
        Ok(server) => server,
        Err(error @ ServerError::Listen { .. }) => {
            printer.warn(&format!("there is no page: {error}; --listen says where it is to be"));
            return Ok(None);
        }
        Err(error) => return Err(refused(error)),
    };
    let (address, token) = (server.address(), server.token().unwrap_or_default());
    let said = format!(
        "the page is at http://{address}/#token={token} (whoever has this address may do everything: keep it to yourself)"
    );
    Ok(Some((server, said)))
}

/// The address of a page that its owner opens with a token, again: on a terminal the line before has scrolled away by the time
/// that all is served.
pub fn remind(server: Option<&Server>, printer: &Printer) {
    if !io::stderr().is_terminal() {
        return;
    }
    if let Some((address, token)) = server.and_then(|server| Some((server.address(), server.token()?))) {
        printer.note(&format!("the page is at http://{address}/#token={token}"));
    }
}

/// Who is to be notified, where somebody is.
pub fn targets(args: &ApiArgs) -> Result<Option<Targets>, CliError> {
    let read = args.notify.as_deref().map(Targets::read).transpose();
    read.map_err(|error| CliError::usage(error.to_string()))
}

/// Who takes traces, where somebody does.
pub fn collector(args: &ApiArgs, printer: &Printer) -> Result<Option<Collector>, CliError> {
    match Collector::find(args.otlp.as_deref(), |name| env::var(name).ok()) {
        Ok(found) => Ok(found),
        Err(error) if args.otlp.is_some() => Err(CliError::usage(error.to_string())),
        // Variables may be there for others.
        Err(error) => {
            printer.warn(&format!("no traces are sent: {error}"));
            Ok(None)
        }
    }
}

fn refused(error: ServerError) -> CliError {
    match error {
        ServerError::Listen { .. } => CliError::refused(error.to_string()),
        error => CliError::usage(error.to_string()),
    }
}
