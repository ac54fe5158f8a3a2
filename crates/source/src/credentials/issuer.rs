//! Issuers of temporary passwords, for Secrets without a permanent one.

use std::fmt;

use serde::Deserialize;
use tidegate_web::{GithubApp, RsaKey, can_send_secrets_to};

use super::azure::AzureIdentity;
use crate::address::RemoteLocation;
use crate::secret_text::SecretText;

/// Names of the credential types in messages.
pub(super) const GITHUB_APP_NAME: &str = "a GitHub App";
pub(super) const GOOGLE_ACCOUNT_NAME: &str = "a Google Cloud account";
pub(super) const AZURE_IDENTITY_NAME: &str = "an Azure identity";
/// Default token server of Google Cloud accounts.
const GOOGLE_TOKEN_SERVER: &str = "https://oauth2.googleapis.com/token";

/// Issuer of temporary passwords for the credentials in a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Issuer {
    /// Name of the Secret that contains the credentials.
    pub secret: String,
    pub kind: IssuerKind,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IssuerKind {
    /// GitHub, which issues tokens to an App.
    Github {
        app: GithubApp,
        /// Owner of the repository, for looking up the installation. `None` if the Secret contains the
        /// installation ID.
        owner: Option<String>,
    },
    /// Google, which issues tokens to a service account.
    Google(GoogleAccount),
    /// Azure, which issues tokens to an identity.
    Azure(AzureIdentity),
}

/// Key of a Google Cloud service account, from its key file.
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
    /// Creates the issuer for a GitHub App from the fields of a Secret. The error continues a sentence that
    /// starts with the Secret's name.
    pub fn github<'a>(text: impl Fn(&str) -> &'a str, site: &RemoteLocation) -> Result<Self, String> {
        let app = GithubApp::new(text)?;
        let owner = match app.installation() {
            Some(_) => None,
            None => {
                let owner = site.path.trim_start_matches('/').split('/').next().unwrap_or_default();
                if GithubApp::installation_paths(owner).is_none() {
                    return Err(
                        "has no githubAppInstallationID, and the installation cannot be looked up because the repository URL contains no valid owner; set githubAppInstallationID"
                            .to_owned(),
                    );
                }
                Some(owner.to_ascii_lowercase())
            }
        };
        Ok(Self::Github { app, owner })
    }

    /// Creates the issuer for a Google Cloud account from its key file. The error continues a sentence that
    /// starts with the Secret's name.
    pub fn google(key: &str) -> Result<Self, String> {
        let wrong = |reason: &str| format!("has an invalid gcpServiceAccountKey: {reason}");
        let file: KeyFile = serde_json::from_str(key).map_err(|_| {
            wrong("the value is not JSON; use the key file exactly as Google Cloud created it")
        })?;
        if file.kind != "service_account" || file.client_email.is_empty() {
            return Err(wrong("the key is not for a service account"));
        }
        RsaKey::from_pem(&file.private_key)
            .map_err(|_| wrong("private_key does not contain an RSA private key"))?;
        let token_uri =
            if file.token_uri.is_empty() { GOOGLE_TOKEN_SERVER.to_owned() } else { file.token_uri };
        if !can_send_secrets_to(&token_uri) {
            return Err(wrong("token_uri is not an https:// URL"));
        }
        Ok(Self::Google(GoogleAccount {
            email: file.client_email,
            key_id: file.private_key_id,
            key: SecretText(file.private_key),
            token_uri,
        }))
    }

    /// Returns the URL of the token server. Empty if it comes from the environment.
    pub fn token_server(&self) -> &str {
        match self {
            Self::Github { app, .. } => app.base(),
            Self::Google(account) => &account.token_uri,
            Self::Azure(identity) => identity.token_server(),
        }
    }

    /// Returns the credential type, for messages.
    pub fn credential_name(&self) -> &'static str {
        match self {
            Self::Github { .. } => GITHUB_APP_NAME,
            Self::Google(_) => GOOGLE_ACCOUNT_NAME,
            Self::Azure(_) => AZURE_IDENTITY_NAME,
        }
    }

    /// Returns the user name to send with a token.
    pub fn username(&self) -> &str {
        match self {
            Self::Github { .. } => "x-access-token",
            Self::Google(account) => &account.email,
            // Azure registries expect this user name with a token.
            Self::Azure(_) => "00000000-0000-0000-0000-000000000000",
        }
    }

    /// Returns true if the token is a bearer token rather than a password.
    pub fn is_bearer(&self) -> bool {
        matches!(self, Self::Azure(AzureIdentity { registry: None, .. }))
    }
}
