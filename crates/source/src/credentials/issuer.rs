//! Who gives a password for a while, where a Secret has none that lasts.

use std::fmt;

use serde::Deserialize;
use tidegate_web::{GithubApp, RsaKey, is_told_in_secret};

use super::azure::AzureIdentity;
use crate::address::Site;
use crate::hidden::Hidden;

/// What a Secret has, in words.
pub(super) const APP: &str = "a GitHub App";
pub(super) const ACCOUNT: &str = "an account of Google Cloud";
pub(super) const IDENTITY: &str = "an identity of Azure";
/// Where accounts of Google Cloud get tokens, where their key does not say.
const GOOGLE: &str = "https://oauth2.googleapis.com/token";

/// Whom a Secret has a password from. What is equal is given the same token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Issuer {
    /// The Secret that says so.
    pub secret: String,
    pub kind: IssuerKind,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum IssuerKind {
    /// GitHub, for an App.
    Github {
        app: GithubApp,
        /// By whom its installation is found, where that is not written down.
        owner: Option<String>,
    },
    /// Google, for an account.
    Google(GoogleAccount),
    /// Azure, for an identity.
    Azure(AzureIdentity),
}

/// The key of a service account of Google Cloud.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoogleAccount {
    pub email: String,
    pub key_id: String,
    pub key: Hidden,
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
    /// A GitHub App whose fields `text` gives, for the repositories at a site. The error goes on after the name of the Secret.
    pub fn github<'a>(text: impl Fn(&str) -> &'a str, site: &Site) -> Result<Self, String> {
        let app = GithubApp::new(text)?;
        let owner = match app.installation() {
            Some(_) => None,
            None => {
                let owner = site.path.trim_start_matches('/').split('/').next().unwrap_or_default();
                if GithubApp::installation_paths(owner).is_none() {
                    return Err(
                        "has no githubAppInstallationID, and the repository's address names no owner to find it by"
                            .to_owned(),
                    );
                }
                Some(owner.to_ascii_lowercase())
            }
        };
        Ok(Self::Github { app, owner })
    }

    /// An account of Google Cloud, by its key. The error goes on after the name of the Secret.
    pub fn google(key: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("has a gcpServiceAccountKey that {why}");
        let file: KeyFile = serde_json::from_str(key)
            .map_err(|_| wrong("is no JSON of a key; give it as Google Cloud has made it"))?;
        if file.kind != "service_account" || file.client_email.is_empty() {
            return Err(wrong("is no key of a service account"));
        }
        RsaKey::from_pem(&file.private_key).map_err(|_| wrong("has no private RSA key in private_key"))?;
        let token_uri = if file.token_uri.is_empty() { GOOGLE.to_owned() } else { file.token_uri };
        if !is_told_in_secret(&token_uri) {
            return Err(wrong("has a token_uri that is no https:// address"));
        }
        Ok(Self::Google(GoogleAccount {
            email: file.client_email,
            key_id: file.private_key_id,
            key: Hidden(file.private_key),
            token_uri,
        }))
    }

    /// The address that is asked for tokens; empty where only the process knows it.
    pub fn address(&self) -> &str {
        match self {
            Self::Github { app, .. } => app.base(),
            Self::Google(account) => &account.token_uri,
            Self::Azure(identity) => identity.address(),
        }
    }

    /// What a Secret has.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Github { .. } => APP,
            Self::Google(_) => ACCOUNT,
            Self::Azure(_) => IDENTITY,
        }
    }

    /// Whom a token is the password of.
    pub fn username(&self) -> &str {
        match self {
            Self::Github { .. } => "x-access-token",
            Self::Google(account) => &account.email,
            // As registries of Azure name whoever shows a token.
            Self::Azure(_) => "00000000-0000-0000-0000-000000000000",
        }
    }

    /// Whether a token is shown as itself, and not as a password.
    pub fn is_bearer(&self) -> bool {
        matches!(self, Self::Azure(AzureIdentity { registry: None, .. }))
    }
}
