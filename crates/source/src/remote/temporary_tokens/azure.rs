//! Access tokens for Azure identities. Azure registries exchange these tokens for passwords:
//! <https://learn.microsoft.com/en-us/entra/identity-platform/v2-oauth2-client-creds-grant-flow>.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use tidegate_web::{ExpiringToken, TokenFailure, is_token};

use super::Outcome;
use super::form::{self, Hints};
use super::google::TOKEN_SECONDS_MAX;
use super::token_response::TokenRequest;
use crate::credentials::{AccessSettings, AzureIdentity, AzureProof, Issuer};
use crate::error::to_line;
use crate::remote::{Network, Problem};
use crate::secret_text::SecretText;

/// Scope of tokens for Azure DevOps.
const DEVOPS_SCOPE: &str = "499b84ac-1321-427f-aa17-267ca6975798/.default";
/// Scope of tokens to exchange for a registry password.
const MANAGEMENT_SCOPE: &str = "https://management.core.windows.net/.default";
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// Maximum size of a service account token, in bytes.
const TOKEN_FILE_MAX: u64 = 64 << 10;
/// Time to cache a registry password, in seconds. It is valid for three hours, but the response doesn't
/// say so.
const REGISTRY_SECONDS: u64 = 60 * 60;

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
struct ExchangeResponse {
    refresh_token: String,
}

/// Client to request a token for.
struct Client {
    who: String,
    authority: String,
    tenant: String,
    client: String,
    proof: String,
    is_secret: bool,
}

impl Network {
    /// Requests a token for an identity. For a registry, the token is exchanged for a password.
    pub(super) fn azure_token(
        &self,
        identity: &AzureIdentity,
        issuer: &Issuer,
        access: &AccessSettings,
        now: u64,
    ) -> Outcome {
        let client = self.azure_client(identity, issuer)?;
        let scope = if identity.registry.is_some() { MANAGEMENT_SCOPE } else { DEVOPS_SCOPE };
        let given = self.azure_access_token(&client, scope, issuer, access, now)?;
        match &identity.registry {
            None => Ok(given),
            Some(registry) => self.exchange_azure_token(&client, registry, &given.token, issuer, access, now),
        }
    }

    fn azure_client(&self, identity: &AzureIdentity, issuer: &Issuer) -> Result<Client, Problem> {
        match &identity.proof {
            AzureProof::Principal(one) => Ok(Client {
                who: format!("the service principal {} in Secret {}", to_line(&one.client), issuer.secret),
                authority: one.authority.clone(),
                tenant: one.tenant.clone(),
                client: one.client.clone(),
                proof: one.secret.0.clone(),
                is_secret: true,
            }),
            AzureProof::Workload => {
                let who = format!("the workload identity in Secret {}", issuer.secret);
                let none = |reason: String| {
                    Problem::new(format!("cannot get a token for {who}: {reason}")).with_hint(
                        "label the pod with azure.workload.identity/use: \"true\", and annotate its service account with azure.workload.identity/client-id",
                    )
                };
                let (authority, tenant, client) = self.azure.token_request_parts().map_err(none)?;
                let proof = read_token_file(&self.azure.token_file).map_err(|error| {
                    none(format!("cannot read the file specified by AZURE_FEDERATED_TOKEN_FILE: {error}"))
                })?;
                let (tenant, client) = (tenant.to_owned(), client.to_owned());
                Ok(Client { who, authority, tenant, client, proof, is_secret: false })
            }
        }
    }

    fn azure_access_token(
        &self,
        client: &Client,
        scope: &str,
        issuer: &Issuer,
        access: &AccessSettings,
        now: u64,
    ) -> Outcome {
        let Client { who, authority, tenant, client, proof, is_secret } = client;
        let (server, who) = (format!("Azure at {authority}"), who.clone());
        let asked = TokenRequest { server, who, assertion: proof, now };
        let hints = Hints {
            rejected: match is_secret {
                true => {
                    "check the azureServicePrincipal… fields in the Secret; the client secret may have \
                     expired"
                }
                false => "check that the identity's federated credential is for the pod's service account",
            },
            other: "check the token endpoint in azureActiveDirectoryEndpoint or AZURE_AUTHORITY_HOST",
        };
        let mut fields = vec![("grant_type", "client_credentials"), ("client_id", client), ("scope", scope)];
        match is_secret {
            true => fields.push(("client_secret", proof)),
            false => fields.extend([("client_assertion_type", ASSERTION_TYPE), ("client_assertion", proof)]),
        }
        let link = self.link_to_issuer(authority, issuer, access, SecretText::default());
        let link = link.map_err(|problem| asked.connection_error(problem))?;
        let url = format!("{authority}/{tenant}/oauth2/v2.0/token");
        let given: TokenResponse = form::send_form(&link, &url, &fields, &asked, &hints)?;
        if !is_token(&given.access_token) {
            return Err(asked.error("returned a response without a token").with_hint(hints.other).into());
        }
        let ends = given.expires_in.map(|seconds| now.saturating_add(seconds.min(TOKEN_SECONDS_MAX)));
        Ok(ExpiringToken { token: given.access_token, expires_at: ends })
    }

    /// Exchanges an Azure token for the password of a registry:
    /// <https://learn.microsoft.com/en-us/azure/container-registry/container-registry-authentication>.
    fn exchange_azure_token(
        &self,
        client: &Client,
        registry: &str,
        token: &str,
        issuer: &Issuer,
        access: &AccessSettings,
        now: u64,
    ) -> Outcome {
        let scheme = if access.uses_plain_http { "http" } else { "https" };
        let base = format!("{scheme}://{registry}");
        let asked = TokenRequest {
            server: format!("the registry {base}"),
            who: client.who.clone(),
            assertion: token,
            now,
        };
        let hints = Hints {
            rejected: "check that the identity has the AcrPull role on the registry",
            other: "check that the registry is an Azure Container Registry",
        };
        let service = registry.split(':').next().unwrap_or(registry);
        let fields = [
            ("grant_type", "access_token"),
            ("service", service),
            ("tenant", &client.tenant),
            ("access_token", token),
        ];
        let access = AccessSettings { issuer_certificates: access.certificates.clone(), ..access.clone() };
        let link = self.link_to_issuer(&base, issuer, &access, SecretText::default());
        let link = link.map_err(|problem| asked.connection_error(problem))?;
        let given: ExchangeResponse =
            form::send_form(&link, &format!("{base}/oauth2/exchange"), &fields, &asked, &hints)?;
        if !is_token(&given.refresh_token) {
            let wrong = asked.error("returned a response without a token").with_hint(hints.other);
            return Err(TokenFailure::from(wrong));
        }
        Ok(ExpiringToken {
            token: given.refresh_token,
            expires_at: Some(now.saturating_add(REGISTRY_SECONDS)),
        })
    }
}

/// Reads the service account token. The cluster rotates it, so the file must be read for each request.
fn read_token_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TOKEN_FILE_MAX).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}
