//! As whom is written to a destination? A project may name service accounts (`destinationServiceAccounts`), whose rights
//! then count instead of those of the program.

use tidegate_model::InvalidGlob;
use tidegate_model::argo::{AppProject, Application, DestinationServiceAccount};

use crate::CONTROL_NAMESPACE;
use crate::project::matches_any;

/// Whether service accounts of projects are acted as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounts {
    /// They are not: everything is written with the program's own rights.
    #[default]
    Ignored,
    /// Where a project names one; the rest is written with the program's own rights.
    WhereNamed,
    /// Always: where a project names none, nothing is written.
    Required,
}

/// Why nothing can be written to a destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAccount {
    /// No entry is about it.
    #[error(
        "no matching service account found for destination server '{server}' and namespace '{namespace}' in project '{project}': add an entry of that server and namespace with a defaultServiceAccount to its destinationServiceAccounts; without one nothing is written, because service accounts are impersonated here"
    )]
    NoMatch {
        /// The project.
        project: String,
        /// The cluster.
        server: String,
        /// The namespace, as the application says it.
        namespace: String,
    },
    /// A pattern makes no sense.
    #[error(
        "project '{project}': destinationServiceAccounts: {source}; nothing of its applications is synced until that is mended"
    )]
    Rule {
        /// The project.
        project: String,
        /// What is wrong.
        source: InvalidGlob,
    },
    /// What it names cannot be a service account.
    #[error(
        "failed to derive service account to impersonate: default service account contains invalid chars '{account}' (project '{project}', destinationServiceAccounts); write the name of a ServiceAccount, or NAMESPACE:NAME"
    )]
    Name {
        /// The project.
        project: String,
        /// What is named.
        account: String,
    },
}

/// The user that a project wants an application to be written as, in a cluster that goes by these URLs: of the first entry
/// that is about it. Nothing where that is the program itself.
///
/// # Errors
///
/// There is no such entry and there has to be one, or one makes no sense.
pub fn account(
    accounts: Accounts,
    project: &AppProject,
    application: &Application,
    servers: &[String],
) -> Result<Option<String>, NoAccount> {
    if accounts == Accounts::Ignored {
        return Ok(None);
    }
    let name = &project.metadata.name;
    let namespace = application.spec.destination.namespace.as_str();
    let wrong = |source| NoAccount::Rule { project: name.clone(), source };
    let urls: Vec<&str> = servers.iter().map(|server| server.trim_end_matches('/')).collect();
    for entry in &project.spec.destination_service_accounts {
        let is_it = matches_any(&entry.server, &urls).map_err(wrong)?
            && matches_any(&entry.namespace, &[namespace]).map_err(wrong)?;
        if is_it {
            return user(entry, application).map(Some).ok_or_else(|| NoAccount::Name {
                project: name.clone(),
                account: entry.default_service_account.clone(),
            });
        }
    }
    if accounts == Accounts::WhereNamed {
        return Ok(None);
    }
    Err(NoAccount::NoMatch {
        project: name.clone(),
        server: servers.first().cloned().unwrap_or_default(),
        namespace: namespace.to_owned(),
    })
}

/// `NAMESPACE:NAME`, or a name in the namespace of the destination; in that of the application where it has none.
fn user(entry: &DestinationServiceAccount, application: &Application) -> Option<String> {
    let own = || {
        let destination = &application.spec.destination.namespace;
        let namespaces = [destination, &application.metadata.namespace];
        namespaces.into_iter().find(|one| !one.is_empty()).map_or(CONTROL_NAMESPACE, String::as_str)
    };
    let said = entry.default_service_account.as_str();
    let (namespace, name) = said.split_once(':').unwrap_or_else(|| (own(), said));
    (is_name(namespace) && is_name(name)).then(|| format!("system:serviceaccount:{namespace}:{name}"))
}

/// What a name of Kubernetes may consist of; no sign of a pattern is among it.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    !text.is_empty() && text.chars().all(is_plain)
}
