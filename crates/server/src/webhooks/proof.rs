//! Authentication of webhook events.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use http::header::{self, HeaderName};
use sha2::Sha256;
use tidegate_executor::{Clock as _, SystemClock};

use super::provider::Provider;
use super::secrets::{SecretKey, Secrets};
use crate::headers::single_header;
use crate::problem::{Code, Problem};
use crate::tokens::is_same;

const GITHUB: HeaderName = HeaderName::from_static("x-hub-signature-256");
const BITBUCKET_SERVER: HeaderName = HeaderName::from_static("x-hub-signature");
const GITLAB: HeaderName = HeaderName::from_static("x-gitlab-token");
const BITBUCKET: HeaderName = HeaderName::from_static("x-hook-uuid");
const GOGS: HeaderName = HeaderName::from_static("x-gogs-signature");
const GITEA: HeaderName = HeaderName::from_static("x-gitea-signature");
/// Headers for the generic format, which Tidegate's own notifications also use.
const GENERIC: HeaderName = HeaderName::from_static("x-tidegate-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-tidegate-timestamp");
/// Maximum difference in seconds between the timestamp of a generic event and the current time.
const FRESH_SECONDS: u64 = 300;

/// Sender of an event, as far as the request head tells.
pub(crate) struct Sender {
    pub(super) provider: Provider,
    pub(super) event: String,
    pub(super) proof: Proof,
}

impl Sender {
    /// Rejects a body that can't be authenticated.
    pub fn verify_body(&self, body: &Bytes) -> Result<(), Problem> {
        if self.proof.is_valid_for(body) { Ok(()) } else { Err(authentication_problem(self.provider)) }
    }
}

/// Proof that an event is authentic.
pub(super) enum Proof {
    /// Authenticity already proven by the headers.
    Verified,
    /// HMAC of `prefix` followed by the body.
    Signed { key: Vec<u8>, prefix: Vec<u8>, signature: Vec<u8> },
}

/// Returns the response to a failed authentication, without the reason.
fn authentication_problem(provider: Provider) -> Problem {
    let message = format!("the event from {} is not authenticated", provider.name());
    let next = "configure the webhook with the secret from --webhook-secrets".to_owned();
    Problem { next, ..Problem::new(Code::Unauthorized, message) }
}

/// Returns the response to a generic event with an old timestamp.
fn timestamp_problem(at: &str, now: i64) -> Problem {
    let message = if at.is_empty() {
        "the X-Tidegate-Timestamp header is missing".to_owned()
    } else {
        format!("X-Tidegate-Timestamp is too far from the current Unix time, {now}")
    };
    let next = format!(
        "sign each event when sending it, with a timestamp within {FRESH_SECONDS} s of the current time; check the clocks of both machines and the secret in --webhook-secrets"
    );
    Problem { next, ..Problem::new(Code::Unauthorized, message) }
}

impl Proof {
    /// Returns the proof required for an event with this head. Verifies a proof in the head itself right
    /// away.
    pub fn from_headers(provider: Provider, headers: &HeaderMap, secrets: &Secrets) -> Result<Self, Problem> {
        let of = |key: SecretKey| {
            let missing = || {
                let message =
                    format!("events from {} are not accepted: {} is not set", provider.name(), key.name());
                let next = format!("add {} to --webhook-secrets", key.name());
                Problem { next, ..Problem::new(Code::Unauthorized, message) }
            };
            secrets.get(key).ok_or_else(missing)
        };
        let shown = |is_right: bool| {
            if is_right { Ok(Self::Verified) } else { Err(authentication_problem(provider)) }
        };
        let header_value =
            |name: HeaderName| Ok::<_, Problem>(single_header(headers, &name)?.unwrap_or_default());
        let signed = |key: SecretKey, text: &str, prefix: Vec<u8>| {
            let signature = decode_hex(text).ok_or_else(|| authentication_problem(provider))?;
            Ok(Self::Signed { key: of(key)?.as_bytes().to_vec(), prefix, signature })
        };
        let sha256 = |text: String| text.strip_prefix("sha256=").unwrap_or_default().to_owned();
        match provider {
            Provider::GitLab => shown(is_same(of(SecretKey::GitLab)?, &header_value(GITLAB)?)),
            Provider::Bitbucket => shown(is_same(
                strip_braces(of(SecretKey::Bitbucket)?),
                strip_braces(&header_value(BITBUCKET)?),
            )),
            Provider::AzureDevOps => {
                let wanted = format!("{}:{}", of(SecretKey::AzureUser)?, of(SecretKey::AzurePassword)?);
                let given = header_value(header::AUTHORIZATION)?;
                let given = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
                let given = given.and_then(|(_, text)| BASE64_STANDARD.decode(text.trim()).ok());
                shown(is_same(&wanted, &String::from_utf8(given.unwrap_or_default()).unwrap_or_default()))
            }
            Provider::GitHub => signed(SecretKey::GitHub, &sha256(header_value(GITHUB)?), Vec::new()),
            Provider::BitbucketServer => {
                signed(SecretKey::BitbucketServer, &sha256(header_value(BITBUCKET_SERVER)?), Vec::new())
            }
            Provider::Gogs => {
                let name = if headers.contains_key(&GOGS) { GOGS } else { GITEA };
                signed(SecretKey::Gogs, &header_value(name)?, Vec::new())
            }
            Provider::Generic => {
                let at = header_value(TIMESTAMP)?;
                let now = SystemClock.now().as_seconds();
                let is_fresh = at.parse::<i64>().is_ok_and(|at| at.abs_diff(now) <= FRESH_SECONDS);
                if !is_fresh {
                    return Err(timestamp_problem(&at, now));
                }
                signed(SecretKey::Generic, &sha256(header_value(GENERIC)?), format!("{at}.").into_bytes())
            }
        }
    }

    /// Returns true if the signature matches the body.
    pub fn is_valid_for(&self, body: &[u8]) -> bool {
        let Self::Signed { key, prefix, signature } = self else { return true };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return false };
        mac.update(prefix);
        mac.update(body);
        // This comparison takes constant time.
        mac.verify_slice(signature).is_ok()
    }
}

/// Removes the braces that Bitbucket puts around some IDs.
fn strip_braces(uuid: &str) -> &str {
    uuid.trim_matches(['{', '}'])
}

/// Decodes a SHA-256 digest from hexadecimal digits.
fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digest: tidegate_model::Digest = text.to_ascii_lowercase().parse().ok()?;
    Some(digest.0.to_vec())
}
