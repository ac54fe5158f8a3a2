//! Tokens that Azure gives an identity, and the password that a registry of Azure gives for one:
//! <https://learn.microsoft.com/en-us/entra/identity-platform/v2-oauth2-client-creds-grant-flow>.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use tidegate_web::{Lease, Refused, is_token};

use super::Outcome;
use super::answer::Asked;
use super::form::{self, Hints};
use super::google::LONGEST;
use crate::credentials::{Access, AzureIdentity, AzureProof, Issuer};
use crate::error::plain;
use crate::hidden::Hidden;
use crate::remote::{Network, Problem};

/// Azure DevOps, as an application that tokens are for.
const DEVOPS: &str = "499b84ac-1321-427f-aa17-267ca6975798/.default";
/// What registries take tokens of.
const MANAGEMENT: &str = "https://management.core.windows.net/.default";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// More bytes than the token of a cluster has.
const TOKEN_FILE_MAX: u64 = 64 << 10;
/// How long the password of a registry is kept, in seconds: it is good for three hours, which its answer does not say.
const REGISTRY_SECONDS: u64 = 60 * 60;

#[derive(Deserialize)]
struct Given {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
struct Exchanged {
    refresh_token: String,
}

/// What a token is asked for with.
struct Client {
    who: String,
    authority: String,
    tenant: String,
    client: String,
    proof: String,
    is_secret: bool,
}

impl Network {
    /// Asks for a token of an identity, and for the password that a registry gives for it.
    pub(super) fn azure_token(
        &self,
        identity: &AzureIdentity,
        issuer: &Issuer,
        access: &Access,
        now: u64,
    ) -> Outcome {
        let client = self.azure_client(identity, issuer)?;
        let scope = if identity.registry.is_some() { MANAGEMENT } else { DEVOPS };
        let given = self.azure_access(&client, scope, issuer, access, now)?;
        match &identity.registry {
            None => Ok(given),
            Some(registry) => self.azure_exchange((&client, registry), &given.token, issuer, access, now),
        }
    }

    fn azure_client(&self, identity: &AzureIdentity, issuer: &Issuer) -> Result<Client, Problem> {
        match &identity.proof {
            AzureProof::Principal(one) => Ok(Client {
                who: format!("the service principal {} of Secret {}", plain(&one.client), issuer.secret),
                authority: one.authority.clone(),
                tenant: one.tenant.clone(),
                client: one.client.clone(),
                proof: one.secret.0.clone(),
                is_secret: true,
            }),
            AzureProof::Workload => {
                let who = format!("the workload identity that Secret {} asks for", issuer.secret);
                let none = |why: String| {
                    Problem::new(format!("{who} has no token: {why}")).hint(
                        "label the pod azure.workload.identity/use: \"true\", and annotate its service account with azure.workload.identity/client-id",
                    )
                };
                let (authority, tenant, client) = self.azure.parts().map_err(none)?;
                let proof = read(&self.azure.token_file).map_err(|error| {
                    none(format!("the file of AZURE_FEDERATED_TOKEN_FILE cannot be read: {error}"))
                })?;
                let (tenant, client) = (tenant.to_owned(), client.to_owned());
                Ok(Client { who, authority, tenant, client, proof, is_secret: false })
            }
        }
    }

    fn azure_access(
        &self,
        client: &Client,
        scope: &str,
        issuer: &Issuer,
        access: &Access,
        now: u64,
    ) -> Outcome {
        let Client { who, authority, tenant, client, proof, is_secret } = client;
        let (server, who) = (format!("Azure at {authority}"), who.clone());
        let asked = Asked { server, who, proof, now };
        let hints = Hints {
            unknown: match is_secret {
                true => "check the fields azureServicePrincipal… of the Secret; the secret may have ended",
                false => "check the federated credential of the identity, which names the service account",
            },
            other: "check where tokens are asked for: azureActiveDirectoryEndpoint, or AZURE_AUTHORITY_HOST",
        };
        let mut fields = vec![("grant_type", "client_credentials"), ("client_id", client), ("scope", scope)];
        match is_secret {
            true => fields.push(("client_secret", proof)),
            false => fields.extend([("client_assertion_type", ASSERTION), ("client_assertion", proof)]),
        }
        let link = self.to_issuer(authority, issuer, access, Hidden::default());
        let link = link.map_err(|problem| asked.unreached(problem))?;
        let url = format!("{authority}/{tenant}/oauth2/v2.0/token");
        let given: Given = form::ask(&link, &url, &fields, (&asked, &hints))?;
        if !is_token(&given.access_token) {
            return Err(asked.wrong("answers with what is no token").hint(hints.other).into());
        }
        let ends = given.expires_in.map(|seconds| now.saturating_add(seconds.min(LONGEST)));
        Ok(Lease { token: given.access_token, ends })
    }

    /// As <https://learn.microsoft.com/en-us/azure/container-registry/container-registry-authentication> has it.
    fn azure_exchange(
        &self,
        (client, registry): (&Client, &str),
        token: &str,
        issuer: &Issuer,
        access: &Access,
        now: u64,
    ) -> Outcome {
        let scheme = if access.plain_http { "http" } else { "https" };
        let base = format!("{scheme}://{registry}");
        let asked =
            Asked { server: format!("the registry {base}"), who: client.who.clone(), proof: token, now };
        let hints = Hints {
            unknown: "check that the identity has the role AcrPull at the registry",
            other: "check that the registry is one of Azure",
        };
        let service = registry.split(':').next().unwrap_or(registry);
        let fields = [
            ("grant_type", "access_token"),
            ("service", service),
            ("tenant", &client.tenant),
            ("access_token", token),
        ];
        let access = Access { issuer_certificates: access.certificates.clone(), ..access.clone() };
        let link = self.to_issuer(&base, issuer, &access, Hidden::default());
        let link = link.map_err(|problem| asked.unreached(problem))?;
        let given: Exchanged =
            form::ask(&link, &format!("{base}/oauth2/exchange"), &fields, (&asked, &hints))?;
        if !is_token(&given.refresh_token) {
            let wrong = asked.wrong("answers with what is no token").hint(hints.other);
            return Err(Refused::from(wrong));
        }
        Ok(Lease { token: given.refresh_token, ends: Some(now.saturating_add(REGISTRY_SECONDS)) })
    }
}

/// The token that a cluster has put into a file. It changes there.
fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TOKEN_FILE_MAX).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}
