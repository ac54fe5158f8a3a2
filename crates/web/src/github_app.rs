//! GitHub Apps configured in Secrets:
//! <https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app>.
//!
//! An App authenticates with a token that it signs itself, and uses it to request a token for an
//! installation. The latter grants access to repositories.

use std::fmt;

use http::Uri;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::is_local_host;
use crate::signing::{RsaKey, SigningError};
use crate::token_cache::ExpiringToken;

/// URL of the public API.
const PUBLIC_API: &str = "https://api.github.com";
/// Maximum length of a token in bytes.
const TOKEN_MAX: usize = 4 << 10;

/// A GitHub App and the URL of its API. Its `Debug` output doesn't contain its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GithubApp {
    id: u64,
    installation: Option<u64>,
    key: String,
    base: Option<String>,
}

/// Secret fields for a GitHub App, as in Argo CD: App ID, installation ID, private key, and URL of an
/// Enterprise API.
pub const GITHUB_APP_FIELDS: [&str; 4] =
    ["githubAppID", "githubAppInstallationID", "githubAppPrivateKey", "githubAppEnterpriseBaseUrl"];

impl fmt::Debug for GithubApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GithubApp").field("id", &self.id).field("base", &self.base).finish_non_exhaustive()
    }
}

impl GithubApp {
    /// Parses the fields of a Secret. `text` returns a field by name, or an empty string if the field doesn't
    /// exist.
    ///
    /// # Errors
    ///
    /// Returns an error if a field is missing or invalid. The message is a phrase to follow the Secret's
    /// name, and contains no values.
    pub fn new<'a>(text: impl Fn(&str) -> &'a str) -> Result<Self, String> {
        let [id, installation, key, base] = GITHUB_APP_FIELDS.map(text);
        let number = |name: &str, text: &str| match text.trim().parse::<u64>() {
            Ok(id) if id > 0 => Ok(id),
            _ => Err(format!("has an invalid {name}; use a positive number")),
        };
        if key.trim().is_empty() {
            return Err("has no githubAppPrivateKey; set both githubAppID and githubAppPrivateKey".to_owned());
        }
        if id.trim().is_empty() {
            return Err("has no githubAppID; set both githubAppID and githubAppPrivateKey".to_owned());
        }
        let id = number("githubAppID", id)?;
        let installation = Some(installation).filter(|text| !text.trim().is_empty());
        let installation = installation.map(|text| number("githubAppInstallationID", text)).transpose()?;
        RsaKey::from_pem(key).map_err(|_| {
            "has an invalid githubAppPrivateKey; use the RSA private key in PEM format that GitHub generated"
                .to_owned()
        })?;
        let base = match base.trim().trim_end_matches('/') {
            "" => None,
            base if can_send_secrets_to(base) => Some(base.to_owned()),
            _ => {
                return Err(
                    "has an invalid githubAppEnterpriseBaseUrl; use a URL such as https://git.example.com/api/v3"
                        .to_owned(),
                );
            }
        };
        Ok(Self { id, installation, key: key.to_owned(), base })
    }

    /// Returns the App ID.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the API URL, without a trailing slash.
    pub fn base(&self) -> &str {
        self.configured_base().unwrap_or(PUBLIC_API)
    }

    /// Returns the API URL in the Secret, if any.
    pub fn configured_base(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// Returns the installation ID in the Secret, if any.
    pub fn installation(&self) -> Option<u64> {
        self.installation
    }

    /// Returns a token that authenticates the App, signed at the given time in seconds since 1970. Until the
    /// token expires, it is as secret as the key.
    ///
    /// # Errors
    ///
    /// Returns an error if the key can't be used for signing.
    pub fn signed_assertion(&self, now: u64) -> Result<String, SigningError> {
        let claims = Map::from_iter([("iss".to_owned(), self.id.to_string().into())]);
        RsaKey::from_pem(&self.key)?.jwt(None, claims, now)
    }

    /// Returns the path for the `POST` request that creates a token for an installation.
    pub fn token_path(installation: u64) -> String {
        format!("/app/installations/{installation}/access_tokens")
    }

    /// Returns the two paths for looking up an owner's installation: as an organization, and as a user.
    /// Returns `None` if the name is invalid.
    pub fn installation_paths(owner: &str) -> Option<[String; 2]> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
        let is_one = !owner.is_empty() && owner.chars().all(is_name) && !owner.starts_with('.');
        is_one.then(|| ["orgs", "users"].map(|kind| format!("/{kind}/{owner}/installation")))
    }

    /// Returns the installation ID in a response.
    pub fn parse_installation(answer: &Value) -> Option<u64> {
        answer.get("id")?.as_u64()
    }

    /// Returns the token in a response.
    pub fn parse_token(answer: &Value) -> Option<ExpiringToken> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let token = text("token").filter(|token| is_token(token))?.to_owned();
        let ends = text("expires_at").and_then(|ends| ends.parse::<Timestamp>().ok());
        Some(ExpiringToken { token, expires_at: ends.and_then(|ends| u64::try_from(ends.as_second()).ok()) })
    }
}

/// Returns true if a text can be a token, i.e. is a valid header value.
pub fn is_token(text: &str) -> bool {
    (1..=TOKEN_MAX).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic())
}

/// Returns true if secrets may be sent to a URL. The connection must be encrypted or stay on this machine,
/// and the URL must not contain credentials, a query or a fragment.
pub fn can_send_secrets_to(address: &str) -> bool {
    let Ok(uri) = address.parse::<Uri>() else { return false };
    let names_somebody = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    let host = uri.host().unwrap_or_default();
    let is_safe = match uri.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => is_local_host(host),
        _ => false,
    };
    is_safe && !names_somebody && uri.query().is_none() && !address.contains('#')
}
