//! What proves that an event is its sender's.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use http::header::{self, HeaderName};
use sha2::Sha256;
use tidegate_executor::{Clock as _, SystemClock};

use super::provider::Provider;
use super::secrets::{Key, Secrets};
use crate::front::text;
use crate::problem::{Code, Problem};
use crate::tokens::is_same;

const GITHUB: HeaderName = HeaderName::from_static("x-hub-signature-256");
const BITBUCKET_SERVER: HeaderName = HeaderName::from_static("x-hub-signature");
const GITLAB: HeaderName = HeaderName::from_static("x-gitlab-token");
const BITBUCKET: HeaderName = HeaderName::from_static("x-hook-uuid");
const GOGS: HeaderName = HeaderName::from_static("x-gogs-signature");
const GITEA: HeaderName = HeaderName::from_static("x-gitea-signature");
/// Those of our own notifications.
const GENERIC: HeaderName = HeaderName::from_static("x-tidegate-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-tidegate-timestamp");
/// So many seconds an event of our own kind may be old, or ahead.
const FRESH_SECONDS: u64 = 300;

/// What proves an event.
pub(super) enum Proof {
    /// What its head says did.
    Shown,
    /// This HMAC of the body, after what comes before it.
    Signed { key: Vec<u8>, before: Vec<u8>, signature: Vec<u8> },
}

/// What is answered where nothing is proven. It does not say what is wrong with the proof.
pub(super) fn wrong(provider: Provider) -> Problem {
    let message = format!("the event is not proven to be of {}", provider.name());
    let next = "give the webhook the secret that --webhook-secrets has for it".to_owned();
    Problem { next, ..Problem::new(Code::Unauthorized, message) }
}

/// What is answered where an event of our own kind was not signed a moment ago.
fn stale(at: &str, now: i64) -> Problem {
    let message = if at.is_empty() {
        "there is no X-Tidegate-Timestamp".to_owned()
    } else {
        format!("X-Tidegate-Timestamp is not the time now, in seconds since 1970, which is {now}")
    };
    let next = format!(
        "sign each event anew when it is sent, with the time of then, which may be off by {FRESH_SECONDS} s at most; look whether the sender's clock is right, and ours, and whether the secret is the one that --webhook-secrets has"
    );
    Problem { next, ..Problem::new(Code::Unauthorized, message) }
}

impl Proof {
    /// What has to prove an event with this head. What only the head can prove is proven now.
    pub fn of(provider: Provider, headers: &HeaderMap, secrets: &Secrets) -> Result<Self, Problem> {
        let of = |key: Key| {
            let missing = || {
                let message = format!("no event of {} is taken: there is no {}", provider.name(), key.name());
                let next = format!("write {} into what --webhook-secrets names", key.name());
                Problem { next, ..Problem::new(Code::Unauthorized, message) }
            };
            secrets.get(key).ok_or_else(missing)
        };
        let shown = |is_right: bool| if is_right { Ok(Self::Shown) } else { Err(wrong(provider)) };
        let said = |name: HeaderName| Ok::<_, Problem>(text(headers, &name)?.unwrap_or_default());
        let signed = |key: Key, text: &str, before: Vec<u8>| {
            let signature = digits(text).ok_or_else(|| wrong(provider))?;
            Ok(Self::Signed { key: of(key)?.as_bytes().to_vec(), before, signature })
        };
        let sha256 = |text: String| text.strip_prefix("sha256=").unwrap_or_default().to_owned();
        match provider {
            Provider::GitLab => shown(is_same(of(Key::GitLab)?, &said(GITLAB)?)),
            Provider::Bitbucket => shown(is_same(bare(of(Key::Bitbucket)?), bare(&said(BITBUCKET)?))),
            Provider::AzureDevOps => {
                let wanted = format!("{}:{}", of(Key::AzureUser)?, of(Key::AzurePassword)?);
                let given = said(header::AUTHORIZATION)?;
                let given = given.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
                let given = given.and_then(|(_, text)| BASE64_STANDARD.decode(text.trim()).ok());
                shown(is_same(&wanted, &String::from_utf8(given.unwrap_or_default()).unwrap_or_default()))
            }
            Provider::GitHub => signed(Key::GitHub, &sha256(said(GITHUB)?), Vec::new()),
            Provider::BitbucketServer => {
                signed(Key::BitbucketServer, &sha256(said(BITBUCKET_SERVER)?), Vec::new())
            }
            Provider::Gogs => {
                let name = if headers.contains_key(&GOGS) { GOGS } else { GITEA };
                signed(Key::Gogs, &said(name)?, Vec::new())
            }
            Provider::Generic => {
                let at = said(TIMESTAMP)?;
                let now = SystemClock.now().as_seconds();
                let is_fresh = at.parse::<i64>().is_ok_and(|at| at.abs_diff(now) <= FRESH_SECONDS);
                if !is_fresh {
                    return Err(stale(&at, now));
                }
                signed(Key::Generic, &sha256(said(GENERIC)?), format!("{at}.").into_bytes())
            }
        }
    }

    /// Whether a body is the one that was signed.
    pub fn holds(&self, body: &[u8]) -> bool {
        let Self::Signed { key, before, signature } = self else { return true };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return false };
        mac.update(before);
        mac.update(body);
        // Takes the same time whatever they are.
        mac.verify_slice(signature).is_ok()
    }
}

/// Bitbucket shows its ids with braces in some places.
fn bare(uuid: &str) -> &str {
    uuid.trim_matches(['{', '}'])
}

/// The bytes that digits say: those of a SHA-256 and nothing else.
fn digits(text: &str) -> Option<Vec<u8>> {
    let digest: tidegate_model::Digest = text.to_ascii_lowercase().parse().ok()?;
    Some(digest.0.to_vec())
}
