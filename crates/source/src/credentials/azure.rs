//! Identities of Azure: a service principal that a Secret names, or the one that a cluster gives to this process.

use std::path::PathBuf;

use tidegate_web::is_told_in_secret;

use crate::address::{Place, Site};
use crate::hidden::Hidden;

/// Where tokens of the public cloud are from.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// Whom a token is for, and for what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AzureIdentity {
    pub proof: AzureProof,
    /// The registry that gives a password for the token: its host, and the port if it is not the usual one. Git takes the token
    /// itself.
    pub registry: Option<String>,
}

/// How it is proved who asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AzureProof {
    /// The secret of a service principal.
    Principal(AzurePrincipal),
    /// The token that the cluster gives to this process.
    Workload,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AzurePrincipal {
    pub authority: String,
    pub tenant: String,
    pub client: String,
    pub secret: Hidden,
}

/// The identity that Azure's workload identity gives to a process by its environment:
/// <https://azure.github.io/azure-workload-identity/docs/>.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureWorkload {
    /// `AZURE_CLIENT_ID`
    pub client: String,
    /// `AZURE_TENANT_ID`
    pub tenant: String,
    /// `AZURE_FEDERATED_TOKEN_FILE`, which is read whenever a token is asked for.
    pub token_file: PathBuf,
    /// `AZURE_AUTHORITY_HOST`; empty is that of the public cloud.
    pub authority: String,
}

impl AzureWorkload {
    /// That of this process. What is not set is missed when a token is asked for.
    pub fn of_process() -> Self {
        let text = |name: &str| std::env::var(name).unwrap_or_default();
        Self {
            client: text("AZURE_CLIENT_ID"),
            tenant: text("AZURE_TENANT_ID"),
            token_file: PathBuf::from(text("AZURE_FEDERATED_TOKEN_FILE")),
            authority: text("AZURE_AUTHORITY_HOST"),
        }
    }

    /// The parts that a token is asked with: where, the tenant and the client. The error says what is missing.
    pub(crate) fn parts(&self) -> Result<(String, &str, &str), String> {
        let file = self.token_file.as_os_str().is_empty();
        let missing = [
            ("AZURE_CLIENT_ID", self.client.is_empty()),
            ("AZURE_TENANT_ID", self.tenant.is_empty()),
            ("AZURE_FEDERATED_TOKEN_FILE", file),
        ];
        if let Some((name, _)) = missing.into_iter().find(|(_, is_missing)| *is_missing) {
            return Err(format!("{name} is not set"));
        }
        if !is_tenant(&self.tenant) {
            return Err("AZURE_TENANT_ID is no tenant".to_owned());
        }
        let authority =
            authority(&self.authority).ok_or("AZURE_AUTHORITY_HOST is no https:// address".to_owned())?;
        Ok((authority, &self.tenant, &self.client))
    }
}

impl AzureIdentity {
    pub const PRINCIPAL_FIELDS: [&str; 4] = [
        "azureServicePrincipalClientId",
        "azureServicePrincipalClientSecret",
        "azureServicePrincipalTenantId",
        "azureActiveDirectoryEndpoint",
    ];

    /// A service principal whose fields `text` gives. The error goes on after the name of the Secret.
    pub fn principal<'a>(text: impl Fn(&str) -> &'a str) -> Result<Self, String> {
        let [client, secret, tenant, endpoint] = Self::PRINCIPAL_FIELDS.map(|field| (field, text(field)));
        for (field, value) in [client, secret, tenant] {
            if value.is_empty() {
                return Err(format!("has a service principal of Azure without {field}"));
            }
        }
        if !is_tenant(tenant.1) {
            return Err(format!("has a field {} that is no tenant of Azure", tenant.0));
        }
        let authority = authority(endpoint.1)
            .ok_or_else(|| format!("has a field {} that is no https:// address", endpoint.0))?;
        let principal = AzurePrincipal {
            authority,
            tenant: tenant.1.to_owned(),
            client: client.1.to_owned(),
            secret: Hidden(secret.1.to_owned()),
        };
        Ok(Self { proof: AzureProof::Principal(principal), registry: None })
    }

    /// The identity of this process, for what is at a place.
    pub fn workload(place: &Place) -> Self {
        let registry = match place {
            Place::Registry(site) => Some(Site::authority(site)),
            _ => None,
        };
        Self { proof: AzureProof::Workload, registry }
    }

    /// Where tokens are asked for; empty where only the process knows.
    pub fn address(&self) -> &str {
        match &self.proof {
            AzureProof::Principal(principal) => &principal.authority,
            AzureProof::Workload => "",
        }
    }
}

/// An identifier or a domain: it is a part of an address.
fn is_tenant(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// An address without the slashes at its end, where a secret may be told it; the usual one where it is empty.
fn authority(text: &str) -> Option<String> {
    let text = text.trim_end_matches('/');
    let text = if text.is_empty() { AUTHORITY } else { text };
    is_told_in_secret(text).then(|| text.to_owned())
}
