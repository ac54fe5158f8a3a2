//! Impersonation of service accounts at destinations. A project can name service accounts
//! (`destinationServiceAccounts`), whose permissions are then used for writes instead of the program's own.

use tidegate_model::InvalidGlob;
use tidegate_model::argo::{AppProject, Application, DestinationServiceAccount};

use crate::control_namespace;
use crate::project::is_match;
use crate::repository_name::matches_server;

/// Policy for using the service accounts that projects name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImpersonationMode {
    /// Ignored: all writes use the program's own permissions.
    #[default]
    Ignored,
    /// Uses the account if the project names one, and the program's own permissions otherwise.
    WhereNamed,
    /// Rejects writes if the project doesn't name an account.
    Required,
}

/// Reason the account for a destination can't be determined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// No entry matches the destination.
    #[error(
        "no matching service account found for destination server '{server}' and namespace '{namespace}' in \
         project '{project}': add an entry with that server, that namespace and a defaultServiceAccount to \
         the project's destinationServiceAccounts; impersonation is enabled, so Tidegate writes only as a \
         service account"
    )]
    NoMatch {
        /// Name of the project.
        project: String,
        /// URL of the cluster.
        server: String,
        /// Namespace as specified in the application.
        namespace: String,
    },
    /// An entry contains an invalid pattern.
    #[error(
        "project '{project}': destinationServiceAccounts: {source}; the project's applications will not be \
         synced until this is fixed"
    )]
    Rule {
        /// Name of the project.
        project: String,
        /// Problem with the pattern.
        source: InvalidGlob,
    },
    /// The account is not a valid service account name.
    #[error(
        "failed to derive service account to impersonate: default service account contains invalid chars \
         '{account}' (project '{project}', destinationServiceAccounts); use the name of a ServiceAccount, or \
         NAMESPACE:NAME"
    )]
    Name {
        /// Name of the project.
        project: String,
        /// The invalid account name.
        account: String,
    },
}

/// Returns the user that a project's applications impersonate in a cluster with these URLs. The first
/// matching entry applies. Returns `None` if the program's own permissions apply.
///
/// # Errors
///
/// Fails if a required entry is missing or an entry is invalid.
pub fn impersonated_user(
    accounts: ImpersonationMode,
    project: &AppProject,
    application: &Application,
    servers: &[String],
) -> Result<Option<String>, AccountError> {
    if accounts == ImpersonationMode::Ignored {
        return Ok(None);
    }
    let name = &project.metadata.name;
    let namespace = application.spec.destination.namespace.as_str();
    let wrong = |source| AccountError::Rule { project: name.clone(), source };
    let urls: Vec<&str> = servers.iter().map(String::as_str).collect();
    for entry in &project.spec.destination_service_accounts {
        let is_it = matches_server(&entry.server, &urls).map_err(wrong)?
            && is_match(&entry.namespace, namespace).map_err(wrong)?;
        if is_it {
            return user_of_entry(entry, application).map(Some).ok_or_else(|| AccountError::Name {
                project: name.clone(),
                account: entry.default_service_account.clone(),
            });
        }
    }
    if accounts == ImpersonationMode::WhereNamed {
        return Ok(None);
    }
    Err(AccountError::NoMatch {
        project: name.clone(),
        server: servers.first().cloned().unwrap_or_default(),
        namespace: namespace.to_owned(),
    })
}

/// Returns the user for the entry's account, `NAMESPACE:NAME`. Without a namespace, the account is in the
/// destination namespace or, if that isn't set either, in the application's.
fn user_of_entry(entry: &DestinationServiceAccount, application: &Application) -> Option<String> {
    let own = || {
        let destination = &application.spec.destination.namespace;
        let namespaces = [destination, &application.metadata.namespace];
        namespaces.into_iter().find(|one| !one.is_empty()).map_or(control_namespace(), String::as_str)
    };
    let said = entry.default_service_account.as_str();
    let (namespace, name) = said.split_once(':').unwrap_or_else(|| (own(), said));
    (is_valid_name(namespace) && is_valid_name(name))
        .then(|| format!("system:serviceaccount:{namespace}:{name}"))
}

/// Returns true if all characters are valid in Kubernetes names. Wildcards are not.
fn is_valid_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    !text.is_empty() && text.chars().all(is_plain)
}
