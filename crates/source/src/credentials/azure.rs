//! Azure identities: service principals from Secrets, and the workload identity of this process.

use std::path::PathBuf;

use tidegate_web::can_send_secrets_to;

use crate::address::{AddressKind, RemoteLocation};
use crate::secret_text::SecretText;

/// Token server of the Azure public cloud.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// An Azure identity, and the purpose of its tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AzureIdentity {
    pub proof: AzureProof,
    /// Registry that exchanges the token for a password, as the host and the port if it isn't the default.
    /// `None` for Git repositories, which accept the token itself.
    pub registry: Option<String>,
}

/// Method that an identity uses to authenticate.
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

/// Azure workload identity of a process, as configured in its environment:
/// <https://azure.github.io/azure-workload-identity/docs/>.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AzureWorkload {
    /// Value of `AZURE_CLIENT_ID`.
    pub client: String,
    /// Value of `AZURE_TENANT_ID`.
    pub tenant: String,
    /// Value of `AZURE_FEDERATED_TOKEN_FILE`. The file is read for each token request, because its content
    /// changes.
    pub token_file: PathBuf,
    /// Value of `AZURE_AUTHORITY_HOST`. An empty string selects the public cloud.
    pub authority: String,
}

impl AzureWorkload {
    /// Reads the workload identity from the environment. A missing variable causes an error only when a token
    /// is requested.
    pub fn from_environment() -> Self {
        let text = |name: &str| std::env::var(name).unwrap_or_default();
        Self {
            client: text("AZURE_CLIENT_ID"),
            tenant: text("AZURE_TENANT_ID"),
            token_file: PathBuf::from(text("AZURE_FEDERATED_TOKEN_FILE")),
            authority: text("AZURE_AUTHORITY_HOST"),
        }
    }

    /// Returns the token server, the tenant and the client. Returns an error that names the first missing
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

    /// Creates a service principal from the fields of a Secret. The error message continues a sentence that
    /// starts with the name of the Secret.
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

    /// Creates the workload identity of this process, for access to a repository or registry.
    pub fn workload(place: &AddressKind) -> Self {
        let registry = match place {
            AddressKind::Registry(site) => Some(RemoteLocation::authority(site)),
            _ => None,
        };
        Self { proof: AzureProof::Workload, registry }
    }

    /// Returns the address of the token server. Empty if the environment specifies the address.
    pub fn token_server(&self) -> &str {
        match &self.proof {
            AzureProof::Principal(principal) => &principal.authority,
            AzureProof::Workload => "",
        }
    }
}

/// Returns true if the tenant is an identifier or a domain. The tenant becomes part of a URL, so it must not
/// contain other characters.
fn is_tenant(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// Normalizes the address of a token server. An empty string results in the default address. Returns `None`
/// if secrets must not be sent to the server.
fn parse_authority(text: &str) -> Option<String> {
    let text = text.trim_end_matches('/');
    let text = if text.is_empty() { AUTHORITY } else { text };
    can_send_secrets_to(text).then(|| text.to_owned())
}
