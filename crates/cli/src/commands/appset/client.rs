//! API client for ApplicationSets, connected to the process in a state directory or to a remote service.

use tidegate_applicationset::rollout::qualified_name;
use tidegate_daemon::application_access::{self, AppSetListing};
use tidegate_model::argo::ApplicationSet;
use tidegate_state::error::ServiceError;
use tidegate_views::appset_actions::{AppSetDeletionPreview, AppSetExplanation};
use tidegate_views::protocol::Request;

use crate::commands::app::service_client::ServiceClient;
use crate::error::CliError;
use crate::output::Printer;

/// Returns all ApplicationSets, or those with this name.
pub async fn find(client: &ServiceClient, name: Option<&str>) -> Result<AppSetListing, ServiceError> {
    match client {
        ServiceClient::Local(state_dir) => application_access::list_appsets(state_dir, name).await,
        ServiceClient::Remote(remote) => remote.appsets(name).await,
    }
}

/// Returns ApplicationSets like [`find`]. Without a running service, prints a note and returns the last
/// recorded state.
pub async fn find_with_fallback(
    client: &ServiceClient,
    printer: &Printer,
    name: Option<&str>,
) -> Result<AppSetListing, ServiceError> {
    match client {
        ServiceClient::Local(state_dir) => {
            application_access::list_or_stored_appsets(state_dir, printer, name).await
        }
        ServiceClient::Remote(remote) => remote.appsets(name).await,
    }
}

/// Returns the only ApplicationSet with the given name.
pub async fn get_appset(client: &ServiceClient, name: &str) -> Result<ApplicationSet, CliError> {
    expect_single(find(client, Some(name)).await?, name)
}

/// Returns the only ApplicationSet in the listing. If there isn't exactly one, the error mentions `name`.
pub fn expect_single(found: AppSetListing, name: &str) -> Result<ApplicationSet, CliError> {
    let mut found = found.appsets;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            found.push(last);
            let names: Vec<String> = found.iter().map(qualified_name).collect();
            Err(CliError::usage(format!(
                "several ApplicationSets are named {name}: {}; use one of these names",
                names.join(", ")
            )))
        }
        (None, _) => Err(CliError::usage(format!(
            "ApplicationSet {name} not found; `tidegate appset list` lists all ApplicationSets"
        ))),
    }
}

/// Returns the full name of the only ApplicationSet with this name.
pub async fn resolve_name(client: &ServiceClient, name: &str) -> Result<String, CliError> {
    Ok(qualified_name(&get_appset(client, name).await?))
}

/// Explains the current state of an ApplicationSet.
pub async fn explain(client: &ServiceClient, name: &str) -> Result<AppSetExplanation, ServiceError> {
    match client {
        ServiceClient::Local(state_dir) => {
            application_access::explain_appset(state_dir, name.to_owned()).await
        }
        ServiceClient::Remote(remote) => remote.explain_appset(name).await,
    }
}

/// Explains an ApplicationSet like [`explain`]. Without a running service, uses the recorded state.
pub async fn explain_with_fallback(
    client: &ServiceClient,
    printer: &Printer,
    name: &str,
) -> Result<AppSetExplanation, ServiceError> {
    match client {
        ServiceClient::Local(state_dir) => {
            application_access::explain_or_stored_appset(state_dir, printer, name).await
        }
        ServiceClient::Remote(remote) => remote.explain_appset(name).await,
    }
}

/// Returns the order in which a deletion of the ApplicationSet would delete its Applications.
pub async fn plan_deletion(
    client: &ServiceClient,
    name: &str,
) -> Result<AppSetDeletionPreview, ServiceError> {
    match client {
        ServiceClient::Local(state_dir) => {
            application_access::plan_appset_deletion(state_dir, name.to_owned()).await
        }
        ServiceClient::Remote(remote) => remote.plan_appset_deletion(name).await,
    }
}

/// Sends a request for an ApplicationSet. Returns once the service has stored it durably.
pub async fn send(client: &ServiceClient, request: &Request) -> Result<(), ServiceError> {
    match client {
        ServiceClient::Local(state_dir) => application_access::send_request(state_dir, request).await,
        ServiceClient::Remote(remote) => remote.send_appset_request(request).await,
    }
}
