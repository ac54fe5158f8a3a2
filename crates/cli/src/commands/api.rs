//! The HTTP API of `tidegate serve`.

use std::sync::Arc;

use tidegate_server::{Server, ServerError, Settings, Site, Targets, TlsFiles};

use crate::args::ApiArgs;
use crate::error::CliError;
use crate::output::Printer;

/// Begins to listen, where that is asked for.
pub async fn listen(args: &ApiArgs, site: &Arc<Site>, printer: &Printer) -> Result<Option<Server>, CliError> {
    let Some(listen) = args.listen else { return Ok(None) };
    let mut settings = Settings::new(listen);
    settings.tokens.clone_from(&args.tokens);
    settings.webhooks.clone_from(&args.webhook_secrets);
    if let (Some(certificates), Some(key)) = (args.tls_cert.clone(), args.tls_key.clone()) {
        settings.tls = Some(TlsFiles { certificates, key });
    }
    let server = Server::listen(&settings, site).await.map_err(refused)?;
    if let Some(warning) = settings.warning() {
        printer.warn(&warning);
    }
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let who =
        if settings.tokens.is_some() { "those with a token" } else { "those on this machine, who may look" };
    printer.note(&format!("the API is at {scheme}://{} for {who}", server.address()));
    Ok(Some(server))
}

/// Who is to be notified, where somebody is.
pub fn targets(args: &ApiArgs) -> Result<Option<Targets>, CliError> {
    let read = args.notify.as_deref().map(Targets::read).transpose();
    read.map_err(|error| CliError::usage(error.to_string()))
}

fn refused(error: ServerError) -> CliError {
    match error {
        ServerError::Listen { .. } => CliError::refused(error.to_string()),
        error => CliError::usage(error.to_string()),
    }
}
