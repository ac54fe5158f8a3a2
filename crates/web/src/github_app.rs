//! GitHub Apps, as Secrets have them: <https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app>.
//!
//! An App proves who it is by a token that it signs itself, and is given another one for an installation, with which
//! repositories are read.

use std::fmt;

use http::Uri;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::is_this_machine;
use crate::leases::Lease;
use crate::signing::{RsaKey, SigningError};

/// Where the API is, but for servers of one's own.
const PUBLIC: &str = "https://api.github.com";
/// Longer tokens are none.
const TOKEN_MAX: usize = 4 << 10;

/// A GitHub App, and where it is asked for tokens. Its debug form shows nothing of its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GithubApp {
    id: u64,
    installation: Option<u64>,
    key: String,
    base: Option<String>,
}

/// The fields of a Secret that has a GitHub App, as Argo CD names them: its number, that of its installation, its key, and
/// where the API of a server of one's own is.
pub const GITHUB_APP_FIELDS: [&str; 4] =
    ["githubAppID", "githubAppInstallationID", "githubAppPrivateKey", "githubAppEnterpriseBaseUrl"];

impl fmt::Debug for GithubApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GithubApp").field("id", &self.id).field("base", &self.base).finish_non_exhaustive()
    }
}

impl GithubApp {
    /// Reads the fields of a Secret, which `text` gives by their names; empty where one is not there.
    ///
    /// # Errors
    ///
    /// One of them is missing or means nothing; in words that go on after the name of the Secret and show no value.
    pub fn new<'a>(text: impl Fn(&str) -> &'a str) -> Result<Self, String> {
        let [id, installation, key, base] = GITHUB_APP_FIELDS.map(text);
        let number = |name: &str, text: &str| match text.trim().parse::<u64>() {
            Ok(id) if id > 0 => Ok(id),
            _ => Err(format!("has a {name} that is no number")),
        };
        if key.trim().is_empty() {
            return Err("has no githubAppPrivateKey; a GitHub App needs githubAppID and that".to_owned());
        }
        if id.trim().is_empty() {
            return Err("has no githubAppID; a GitHub App needs that and githubAppPrivateKey".to_owned());
        }
        let id = number("githubAppID", id)?;
        let installation = Some(installation).filter(|text| !text.trim().is_empty());
        let installation = installation.map(|text| number("githubAppInstallationID", text)).transpose()?;
        RsaKey::from_pem(key).map_err(|_| {
            "has a githubAppPrivateKey that is no private RSA key in PEM; give it as GitHub has made it"
                .to_owned()
        })?;
        let base = match base.trim().trim_end_matches('/') {
            "" => None,
            base if is_told_in_secret(base) => Some(base.to_owned()),
            _ => {
                return Err(
                    "has a githubAppEnterpriseBaseUrl that is no address such as https://git.example.com/api/v3"
                        .to_owned(),
                );
            }
        };
        Ok(Self { id, installation, key: key.to_owned(), base })
    }

    /// Its number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where its API is, without a slash at the end.
    pub fn base(&self) -> &str {
        self.named_base().unwrap_or(PUBLIC)
    }

    /// The same, where it is written down.
    pub fn named_base(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// Its installation, where that is written down.
    pub fn installation(&self) -> Option<u64> {
        self.installation
    }

    /// What proves to the server who asks, at a moment in seconds since 1970. It is as secret as the key until it ends.
    ///
    /// # Errors
    ///
    /// Nothing can be signed with its key.
    pub fn proof(&self, now: u64) -> Result<String, SigningError> {
        let claims = Map::from_iter([("iss".to_owned(), self.id.to_string().into())]);
        RsaKey::from_pem(&self.key)?.jwt(None, claims, now)
    }

    /// What an installation is asked for a token with, by `POST`.
    pub fn token_path(installation: u64) -> String {
        format!("/app/installations/{installation}/access_tokens")
    }

    /// By what its installation at an owner of repositories is found: an organisation, or else a user. Nothing of a name that
    /// no owner has.
    pub fn installation_paths(owner: &str) -> Option<[String; 2]> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
        let is_one = !owner.is_empty() && owner.chars().all(is_name) && !owner.starts_with('.');
        is_one.then(|| ["orgs", "users"].map(|kind| format!("/{kind}/{owner}/installation")))
    }

    /// The number of the installation that a server tells of.
    pub fn installation_of(answer: &Value) -> Option<u64> {
        answer.get("id")?.as_u64()
    }

    /// The token in an answer.
    pub fn token_of(answer: &Value) -> Option<Lease> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let token = text("token").filter(|token| is_token(token))?.to_owned();
        let ends = text("expires_at").and_then(|ends| ends.parse::<Timestamp>().ok());
        Some(Lease { token, ends: ends.and_then(|ends| u64::try_from(ends.as_second()).ok()) })
    }
}

/// Whether a text may be a token: something that can be sent.
pub fn is_token(text: &str) -> bool {
    (1..=TOKEN_MAX).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic())
}

/// Whether something secret may be told at an address: nobody can read along on the way, or there is no way.
pub fn is_told_in_secret(address: &str) -> bool {
    let Ok(uri) = address.parse::<Uri>() else { return false };
    let names_somebody = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    let host = uri.host().unwrap_or_default();
    let is_safe = match uri.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => is_this_machine(host),
        _ => false,
    };
    is_safe && !names_somebody && uri.query().is_none() && !address.contains('#')
}
