//! Those who are on their way to the provider and back.
//!
//! Each is known by a word that travels with them (`state`), and by a secret in a cookie of their browser, so that nobody
//! comes back in the place of another. They are in memory alone, and each comes back once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::sessions::secret;
use crate::tokens::is_same;

/// How long somebody may be on their way.
pub(crate) const WITHIN: Duration = Duration::from_secs(10 * 60);
/// How many may be. Strangers ask so seldom that they cannot be more.
const MOST: usize = 4096;

/// Somebody who is on their way.
pub(super) struct Traveller {
    /// The secret of their browser.
    browser: String,
    pub nonce: String,
    pub verifier: String,
    /// Where they come back to.
    pub to: String,
    /// What they want to see then.
    pub next: String,
    begun: Instant,
}

/// What somebody is sent off with.
pub(super) struct Departure {
    pub state: String,
    pub browser: String,
    pub nonce: String,
    /// What proves, without showing it, that whoever comes back knows the verifier.
    pub challenge: String,
}

/// All who are on their way, by the digest of their word.
#[derive(Default)]
pub(super) struct Pending(Mutex<HashMap<[u8; 32], Traveller>>);

impl Pending {
    fn all(&self) -> MutexGuard<'_, HashMap<[u8; 32], Traveller>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends somebody off. Nothing where there are too many, or the system has no secrets to give.
    pub fn depart(&self, to: String, next: String, now: Instant) -> Option<Departure> {
        let [state, browser, nonce, verifier] = [secret()?, secret()?, secret()?, secret()?];
        let challenge = challenge(&verifier);
        let departure = Departure { state, browser: browser.clone(), nonce: nonce.clone(), challenge };
        let mut all = self.all();
        all.retain(|_, traveller| !traveller.is_late(now));
        if all.len() >= MOST {
            return None;
        }
        let traveller = Traveller { browser, nonce, verifier, to, next, begun: now };
        all.insert(key(&departure.state), traveller);
        Some(departure)
    }

    /// Who comes back with this word in this browser, once and in time. Whoever comes in another browser ends nothing.
    pub fn arrive(&self, state: &str, browser: &str, now: Instant) -> Option<Traveller> {
        let mut all = self.all();
        let key = key(state);
        let is_theirs = is_same(&all.get(&key)?.browser, browser);
        let traveller = if is_theirs { all.remove(&key) } else { None };
        traveller.filter(|traveller| !traveller.is_late(now))
    }
}

impl Traveller {
    fn is_late(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= WITHIN
    }
}

/// What shows that a verifier is known, without showing it (RFC 7636, S256).
fn challenge(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

fn key(state: &str) -> [u8; 32] {
    Sha256::digest(state.as_bytes()).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    fn depart(pending: &Pending, now: Instant) -> Departure {
        pending.depart("https://deploy.example.com/back".to_owned(), "/operations".to_owned(), now).unwrap()
    }

    #[test]
    fn everybody_comes_back_once_in_time_and_in_their_own_browser() {
        let (pending, begin) = (Pending::default(), Instant::now());
        let (ann, ben) = (depart(&pending, begin), depart(&pending, begin));
        for (state, browser) in [
            (ann.state.as_str(), ben.browser.as_str()),
            (&ben.state, &ann.browser),
            (&ann.state, ""),
            (&ann.browser, &ann.state),
            ("", &ann.browser),
            (&ann.state[1..], &ann.browser),
        ] {
            assert!(pending.arrive(state, browser, begin).is_none(), "{state} {browser}");
        }
        let found = pending.arrive(&ann.state, &ann.browser, begin).unwrap();
        assert_eq!((found.nonce.as_str(), found.next.as_str()), (ann.nonce.as_str(), "/operations"));
        assert!(pending.arrive(&ann.state, &ann.browser, begin).is_none(), "once");
        assert!(pending.arrive(&ben.state, &ben.browser, begin + WITHIN).is_none(), "in time");
        let last = depart(&pending, begin);
        let moment = Duration::from_millis(1);
        assert!(pending.arrive(&last.state, &last.browser, begin + WITHIN - moment).is_some());
    }

    /// Verifier and challenge of RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_that_of_the_verifier() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let (pending, now) = (Pending::default(), Instant::now());
        let ann = depart(&pending, now);
        let verifier = pending.arrive(&ann.state, &ann.browser, now).unwrap().verifier;
        assert_eq!(ann.challenge, challenge(&verifier));
        assert!(verifier.len() >= 43 && verifier != ann.nonce && ann.state != ann.browser);
    }

    #[test]
    fn no_more_than_so_many_are_on_their_way_and_time_makes_room() {
        let (pending, begin) = (Pending::default(), Instant::now());
        for _ in 0..MOST {
            depart(&pending, begin);
        }
        let to = || ("a".to_owned(), "b".to_owned());
        assert!(pending.depart(to().0, to().1, begin).is_none());
        assert!(pending.depart(to().0, to().1, begin + WITHIN).is_some());
        assert_eq!(pending.all().len(), 1);
    }
}
