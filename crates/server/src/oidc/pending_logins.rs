//! Logins in progress.
//!
//! A login is identified by a random value in the redirect (`state`) and a secret in a browser cookie, so it
//! can't be completed in another browser. Logins are kept in memory only, and each can be completed only
//! once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::sessions::generate_secret;
use crate::tokens::is_same;

/// Time limit for a login.
pub(crate) const LOGIN_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum number of logins in progress. The rate limit for unauthenticated requests keeps them below this.
const LOGINS_MAX: usize = 4096;

/// A login in progress.
pub(super) struct PendingLogin {
    /// Secret in the browser's cookie.
    browser_secret: String,
    pub nonce: String,
    pub verifier: String,
    /// URL that the provider redirects the user back to.
    pub redirect_uri: String,
    /// View to show after the login.
    pub next: String,
    started_at: Instant,
}

/// Parameters for a new login.
pub(super) struct LoginParameters {
    pub state: String,
    pub browser_secret: String,
    pub nonce: String,
    /// PKCE challenge: a digest that doesn't reveal the verifier.
    pub challenge: String,
}

/// All logins in progress, by the digest of their `state`.
#[derive(Default)]
pub(super) struct PendingLogins(Mutex<HashMap<[u8; 32], PendingLogin>>);

impl PendingLogins {
    fn lock_logins(&self) -> MutexGuard<'_, HashMap<[u8; 32], PendingLogin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a login. Returns `None` if there are too many in progress or the system can't provide random
    /// numbers.
    pub fn start(&self, redirect_uri: String, next: String, now: Instant) -> Option<LoginParameters> {
        let [state, browser_secret, nonce, verifier] =
            [generate_secret()?, generate_secret()?, generate_secret()?, generate_secret()?];
        let challenge = pkce_challenge(&verifier);
        let departure = LoginParameters {
            state,
            browser_secret: browser_secret.clone(),
            nonce: nonce.clone(),
            challenge,
        };
        let mut all = self.lock_logins();
        all.retain(|_, traveller| !traveller.is_expired(now));
        if all.len() >= LOGINS_MAX {
            return None;
        }
        let traveller = PendingLogin { browser_secret, nonce, verifier, redirect_uri, next, started_at: now };
        all.insert(state_digest(&departure.state), traveller);
        Some(departure)
    }

    /// Completes the login with this `state` in this browser, unless it has expired or was already completed.
    /// A request from another browser leaves it pending.
    pub fn complete(&self, state: &str, browser: &str, now: Instant) -> Option<PendingLogin> {
        let mut all = self.lock_logins();
        let key = state_digest(state);
        let is_theirs = is_same(&all.get(&key)?.browser_secret, browser);
        let traveller = if is_theirs { all.remove(&key) } else { None };
        traveller.filter(|traveller| !traveller.is_expired(now))
    }
}

impl PendingLogin {
    fn is_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.started_at) >= LOGIN_TIMEOUT
    }
}

/// Returns a verifier's PKCE challenge (RFC 7636, S256).
fn pkce_challenge(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

fn state_digest(state: &str) -> [u8; 32] {
    Sha256::digest(state.as_bytes()).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn start_login(pending: &PendingLogins, now: Instant) -> LoginParameters {
        pending.start("https://deploy.example.com/back".to_owned(), "/operations".to_owned(), now).unwrap()
    }

    #[test]
    fn a_login_completes_once_in_time_and_in_its_own_browser() {
        let (pending, begin) = (PendingLogins::default(), Instant::now());
        let (ann, ben) = (start_login(&pending, begin), start_login(&pending, begin));
        for (state, browser) in [
            (ann.state.as_str(), ben.browser_secret.as_str()),
            (&ben.state, &ann.browser_secret),
            (&ann.state, ""),
            (&ann.browser_secret, &ann.state),
            ("", &ann.browser_secret),
            (&ann.state[1..], &ann.browser_secret),
        ] {
            assert!(pending.complete(state, browser, begin).is_none(), "{state} {browser}");
        }
        let found = pending.complete(&ann.state, &ann.browser_secret, begin).unwrap();
        assert_eq!((found.nonce.as_str(), found.next.as_str()), (ann.nonce.as_str(), "/operations"));
        assert!(pending.complete(&ann.state, &ann.browser_secret, begin).is_none(), "once");
        assert!(
            pending.complete(&ben.state, &ben.browser_secret, begin + LOGIN_TIMEOUT).is_none(),
            "in time"
        );
        let last = start_login(&pending, begin);
        let moment = Duration::from_millis(1);
        assert!(
            pending.complete(&last.state, &last.browser_secret, begin + LOGIN_TIMEOUT - moment).is_some()
        );
    }

    /// Verifier and challenge from RFC 7636, appendix B.
    #[test]
    fn the_challenge_matches_the_verifier() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(pkce_challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let (pending, now) = (PendingLogins::default(), Instant::now());
        let ann = start_login(&pending, now);
        let verifier = pending.complete(&ann.state, &ann.browser_secret, now).unwrap().verifier;
        assert_eq!(ann.challenge, pkce_challenge(&verifier));
        assert!(verifier.len() >= 43 && verifier != ann.nonce && ann.state != ann.browser_secret);
    }

    #[test]
    fn the_number_of_logins_is_limited_until_some_expire() {
        let (pending, begin) = (PendingLogins::default(), Instant::now());
        for _ in 0..LOGINS_MAX {
            start_login(&pending, begin);
        }
        let to = || ("a".to_owned(), "b".to_owned());
        assert!(pending.start(to().0, to().1, begin).is_none());
        assert!(pending.start(to().0, to().1, begin + LOGIN_TIMEOUT).is_some());
        assert_eq!(pending.lock_logins().len(), 1);
    }
}
