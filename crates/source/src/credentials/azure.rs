//! Azure identities: service principals from Secrets, and this process's workload identity.

use std::path::PathBuf;

use tidegate_web::can_send_secrets_to;

use crate::address::{AddressKind, RemoteLocation};
use crate::secret_text::SecretText;

/// Token server of the Azure public cloud.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// An Azure identity and the purpose of its tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AzureIdentity {
    pub proof: AzureProof,
    /// Registry that exchanges the token for a password: its host, and its port unless it is the default.
    /// `None` for Git repositories, which accept the token itself.
    pub registry: Option<String>,
}

/// Method for authenticating an identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AzureProof {
    /// Client secret of a service principal.
    Principal(AzurePrincipal),
    /// Service account token of this process's Pod.
    Workload,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AzurePrincipal {
    pub authority: String,
    pub tenant: String,
    pub client: String,
    pub secret: SecretText,
}

/// Azure workload identity of a process, from its environment:
/// <https://azure.github.io/azure-workload-identity/docs/>.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureWorkload {
    /// Value of `AZURE_CLIENT_ID`.
    pub client: String,
    /// Value of `AZURE_TENANT_ID`.
    pub tenant: String,
    /// Value of `AZURE_FEDERATED_TOKEN_FILE`. The file is read for every request, because the token is
    /// rotated.
    pub token_file: PathBuf,
    /// Value of `AZURE_AUTHORITY_HOST`. Empty for the public cloud.
    pub authority: String,
}

impl AzureWorkload {
    /// Reads the workload identity from the environment. Missing variables are reported when a token is
    /// requested.
    pub fn from_environment() -> Self {
        let text = |name: &str| std::env::var(name).unwrap_or_default();
        Self {
            client: text("AZURE_CLIENT_ID"),
            tenant: text("AZURE_TENANT_ID"),
            token_file: PathBuf::from(text("AZURE_FEDERATED_TOKEN_FILE")),
            authority: text("AZURE_AUTHORITY_HOST"),
        }
    }

    /// Returns the token server, the tenant and the client, or an error that names the first missing
    /// variable.
    pub(crate) fn token_request_parts(&self) -> Result<(String, &str, &str), String> {
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
            return Err("AZURE_TENANT_ID is not a valid tenant".to_owned());
        }
        let authority = parse_authority(&self.authority)
            .ok_or("AZURE_AUTHORITY_HOST is not an https:// URL".to_owned())?;
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

    /// Creates a service principal from the fields of a Secret. The error continues a sentence that starts
    /// with the Secret's name.
    pub fn principal<'a>(text: impl Fn(&str) -> &'a str) -> Result<Self, String> {
        let [client, secret, tenant, endpoint] = Self::PRINCIPAL_FIELDS.map(|field| (field, text(field)));
        for (field, value) in [client, secret, tenant] {
            if value.is_empty() {
                return Err(format!("has an Azure service principal without {field}"));
            }
        }
        if !is_tenant(tenant.1) {
            return Err(format!("has an invalid {}; use an Azure tenant ID or domain", tenant.0));
        }
        let authority = parse_authority(endpoint.1)
            .ok_or_else(|| format!("has an invalid {}; use an https:// URL", endpoint.0))?;
        let principal = AzurePrincipal {
            authority,
            tenant: tenant.1.to_owned(),
            client: client.1.to_owned(),
            secret: SecretText(secret.1.to_owned()),
        };
        Ok(Self { proof: AzureProof::Principal(principal), registry: None })
    }

    /// Creates this process's workload identity for a repository or registry.
    pub fn workload(place: &AddressKind) -> Self {
        let registry = match place {
            AddressKind::Registry(site) => Some(RemoteLocation::authority(site)),
            _ => None,
        };
        Self { proof: AzureProof::Workload, registry }
    }

    /// Returns the URL of the token server. Empty if it comes from the environment.
    pub fn token_server(&self) -> &str {
        match &self.proof {
            AzureProof::Principal(principal) => &principal.authority,
            AzureProof::Workload => "",
        }
    }
}

/// Returns true if the tenant is an ID or a domain. Anything else is rejected, because the tenant becomes
/// part of a URL.
fn is_tenant(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// Normalizes a token server's URL; empty means the default. Returns `None` if secrets must not be sent
/// there.
fn parse_authority(text: &str) -> Option<String> {
    let text = text.trim_end_matches('/');
    let text = if text.is_empty() { AUTHORITY } else { text };
    can_send_secrets_to(text).then(|| text.to_owned())
}
