//! Issuers of temporary passwords, for Secrets that don't contain a permanent password.

use std::fmt;

use serde::Deserialize;
use tidegate_web::{GithubApp, RsaKey, can_send_secrets_to};

use super::azure::AzureIdentity;
use crate::address::RemoteLocation;
use crate::secret_text::SecretText;

/// Name of the credential type in messages.
pub(super) const GITHUB_APP_NAME: &str = "a GitHub App";
pub(super) const GOOGLE_ACCOUNT_NAME: &str = "a Google Cloud account";
pub(super) const AZURE_IDENTITY_NAME: &str = "an Azure identity";
/// Default token server of Google Cloud accounts.
const GOOGLE_TOKEN_SERVER: &str = "https://oauth2.googleapis.com/token";

/// Secret that contains the credentials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Issuer {
    /// Secret that contains the credentials.
    pub secret: String,
    pub kind: IssuerKind,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IssuerKind {
    /// Owner of the repository. Used to find the installation if its ID isn't configured.
    Github {
        app: GithubApp,
        /// Repository owner, used to find the installation if its ID isn't configured.
        owner: Option<String>,
    },
    /// Google, for a service account.
    Google(GoogleAccount),
    /// Azure, for an identity.
    Azure(AzureIdentity),
}

/// Key of a Google Cloud service account.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoogleAccount {
    pub email: String,
    pub key_id: String,
    pub key: SecretText,
    pub token_uri: String,
}

impl fmt::Debug for GoogleAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoogleAccount").field("email", &self.email).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct KeyFile {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    client_email: String,
    #[serde(default)]
    private_key: String,
    #[serde(default)]
    private_key_id: String,
    #[serde(default)]
    token_uri: String,
}

impl IssuerKind {
    /// Creates the issuer for a GitHub App from the fields of a Secret. In output, the error message follows
    /// the name of the Secret.
    pub fn github<'a>(text: impl Fn(&str) -> &'a str, site: &RemoteLocation) -> Result<Self, String> {
        let app = GithubApp::new(text)?;
        let owner = match app.installation() {
            Some(_) => None,
            None => {
                let owner = site.path.trim_start_matches('/').split('/').next().unwrap_or_default();
                if GithubApp::installation_paths(owner).is_none() {
                    return Err(
                        "has no githubAppInstallationID, and the repository URL does not contain an owner to find the installation by; set githubAppInstallationID"
                            .to_owned(),
                    );
                }
                Some(owner.to_ascii_lowercase())
            }
        };
        Ok(Self::Github { app, owner })
    }

    /// Creates the issuer for a Google Cloud account from its key. In output, the error message follows the
    /// name of the Secret.
    pub fn google(key: &str) -> Result<Self, String> {
        let wrong = |reason: &str| format!("has a gcpServiceAccountKey that {reason}");
        let file: KeyFile = serde_json::from_str(key)
            .map_err(|_| wrong("is not a JSON key; use the key file exactly as Google Cloud created it"))?;
        if file.kind != "service_account" || file.client_email.is_empty() {
            return Err(wrong("is not the key of a service account"));
        }
        RsaKey::from_pem(&file.private_key)
            .map_err(|_| wrong("does not contain an RSA private key in private_key"))?;
        let token_uri =
            if file.token_uri.is_empty() { GOOGLE_TOKEN_SERVER.to_owned() } else { file.token_uri };
        if !can_send_secrets_to(&token_uri) {
            return Err(wrong("has a token_uri that is not an https:// URL"));
        }
        Ok(Self::Google(GoogleAccount {
            email: file.client_email,
            key_id: file.private_key_id,
            key: SecretText(file.private_key),
            token_uri,
        }))
    }

    /// Returns the token server. Empty if only the process's environment specifies it.
    pub fn token_server(&self) -> &str {
        match self {
            Self::Github { app, .. } => app.base(),
            Self::Google(account) => &account.token_uri,
            Self::Azure(identity) => identity.token_server(),
        }
    }

    /// Returns the name of the credential type.
    pub fn credential_name(&self) -> &'static str {
        match self {
            Self::Github { .. } => GITHUB_APP_NAME,
            Self::Google(_) => GOOGLE_ACCOUNT_NAME,
            Self::Azure(_) => AZURE_IDENTITY_NAME,
        }
    }

    /// Returns the user name to send together with a token.
    pub fn username(&self) -> &str {
        match self {
            Self::Github { .. } => "x-access-token",
            Self::Google(account) => &account.email,
            // User name that Azure registries expect together with a token.
            Self::Azure(_) => "00000000-0000-0000-0000-000000000000",
        }
    }

    /// Returns true if the token is sent as a bearer token instead of a password.
    pub fn is_bearer(&self) -> bool {
        matches!(self, Self::Azure(AzureIdentity { registry: None, .. }))
    }
}
