//! The sessions of the page: what a browser has instead of a token, for some hours.
//!
//! A browser is given a secret in a cookie that no script can read. Here is only its digest, and by what the session was opened:
//! a token, which ends its sessions when it is taken back, or somebody for whom a provider has vouched. They are in memory alone,
//! so they end with the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::oidc::Person;

/// A session ends so long after it was opened: a working day.
pub(crate) const ENDS_AFTER: Duration = Duration::from_secs(12 * 60 * 60);
/// And so long after it was used last. A view that listens to events uses it.
const IDLE_FOR: Duration = Duration::from_secs(60 * 60);
/// Sessions of one token or person; the one that was used least lately ends for another.
const EACH_MAX: usize = 32;
/// All sessions.
const ALL_MAX: usize = 1024;
/// The longest secret that is looked at.
const SECRET_MAX: usize = 128;

/// A number that nobody guesses, as text; nothing where the system gives none.
pub(crate) fn secret() -> Option<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

type Key = [u8; 32];

fn key(secret: &str) -> Key {
    Sha256::digest(secret.as_bytes()).into()
}

/// By what a session was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A token, by its digest.
    Token([u8; 32]),
    /// Somebody for whom a provider has vouched.
    Person(Arc<Person>),
}

/// The sessions of a process.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<Key, Session>>);

struct Session {
    holder: Holder,
    /// What a page has to say beside the cookie, which comes by itself.
    csrf: Arc<str>,
    ends_at: Instant,
    used: Instant,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("ends_at", &self.ends_at).finish_non_exhaustive()
    }
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now >= self.ends_at || now.saturating_duration_since(self.used) >= IDLE_FOR
    }
}

/// A session that is open.
#[derive(Clone)]
pub(crate) struct Open {
    sessions: Arc<Sessions>,
    key: Key,
    holder: Holder,
    csrf: Arc<str>,
    ends_at: Instant,
}

impl Sessions {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one that lasts so long, and no longer than all do; and the secret of it. Nothing where the system has no secrets
    /// to give.
    pub fn open(self: &Arc<Self>, holder: Holder, lasts: Duration, now: Instant) -> Option<(Open, String)> {
        let (secret, csrf): (String, Arc<str>) = (self::secret()?, self::secret()?.into());
        let mut all = self.all();
        all.retain(|_, session| !session.is_over(now));
        let own = |session: &Session| session.holder == holder;
        if all.values().filter(|session| own(session)).count() >= EACH_MAX {
            end_oldest(&mut all, own);
        }
        if all.len() >= ALL_MAX {
            end_oldest(&mut all, |_| true);
        }
        let key = key(&secret);
        let ends_at = now + lasts.min(ENDS_AFTER);
        let open = Open {
            sessions: Arc::clone(self),
            key,
            holder: holder.clone(),
            csrf: Arc::clone(&csrf),
            ends_at,
        };
        all.insert(key, Session { holder, csrf, ends_at, used: now });
        drop(all);
        Some((open, secret))
    }

    /// The session with this secret, while it is open.
    pub fn of(self: &Arc<Self>, secret: &str, now: Instant) -> Option<Open> {
        if secret.len() > SECRET_MAX {
            return None;
        }
        // Who could tell by the time how much of a digest is right does not come nearer to the secret.
        let key = key(secret);
        let mut all = self.all();
        let session = all.get_mut(&key).filter(|session| !session.is_over(now))?;
        session.used = now;
        let (holder, csrf, ends_at) = (session.holder.clone(), Arc::clone(&session.csrf), session.ends_at);
        drop(all);
        Some(Open { sessions: Arc::clone(self), key, holder, csrf, ends_at })
    }
}

fn end_oldest(all: &mut HashMap<Key, Session>, among: impl Fn(&Session) -> bool) {
    let oldest = all.iter().filter(|(_, session)| among(session)).min_by_key(|(_, session)| session.used);
    if let Some(key) = oldest.map(|(key, _)| *key) {
        all.remove(&key);
    }
}

impl Open {
    /// By what it was opened.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// What a page has to say beside the cookie.
    pub fn csrf(&self) -> &str {
        &self.csrf
    }

    /// How long it lasts at most.
    pub fn lasts(&self, now: Instant) -> Duration {
        self.ends_at.saturating_duration_since(now)
    }

    /// Whether it is still open; it is used.
    pub fn counts(&self, now: Instant) -> bool {
        let mut all = self.sessions.all();
        let session = all.get_mut(&self.key).filter(|session| !session.is_over(now));
        session.map(|session| session.used = now).is_some()
    }

    /// Ends it.
    pub fn end(&self) {
        self.sessions.all().remove(&self.key);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    const TOKEN: Holder = Holder::Token([1; 32]);

    fn open(sessions: &Arc<Sessions>, holder: Holder, now: Instant) -> (Open, String) {
        sessions.open(holder, ENDS_AFTER, now).unwrap()
    }

    #[test]
    fn a_session_ends_by_itself_by_idleness_and_when_somebody_ends_it() {
        let (sessions, begin) = (Arc::new(Sessions::default()), Instant::now());
        let (open, secret) = self::open(&sessions, TOKEN, begin);
        assert_ne!(open.csrf(), secret, "who reads one does not have the other");
        assert!(!format!("{sessions:?}").contains(&secret) && !format!("{sessions:?}").contains(open.csrf()));
        for wrong in ["", "x", &secret[1..], &format!("{secret}x"), open.csrf(), &"x".repeat(1 << 20)] {
            assert!(sessions.of(wrong, begin).is_none(), "{wrong:.20}");
        }
        let found = sessions.of(&secret, begin).unwrap();
        assert_eq!((found.holder(), found.csrf()), (&TOKEN, open.csrf()));
        // Used every half hour, it lasts twelve hours.
        let mut now = begin;
        while now + IDLE_FOR / 2 < begin + ENDS_AFTER {
            now += IDLE_FOR / 2;
            assert!(found.counts(now) && sessions.of(&secret, now).is_some());
        }
        assert!(found.lasts(now) <= IDLE_FOR / 2);
        now += IDLE_FOR / 2;
        assert!(!found.counts(now) && sessions.of(&secret, now).is_none());
        // Not used, an hour.
        let (open, secret) = self::open(&sessions, TOKEN, now);
        now += IDLE_FOR;
        assert!(!open.counts(now) && sessions.of(&secret, now).is_none());
        let (open, secret) = self::open(&sessions, TOKEN, now);
        open.end();
        assert!(!open.counts(now) && sessions.of(&secret, now).is_none());
    }

    #[test]
    fn a_session_of_a_person_ends_when_the_settings_say_so_and_never_later_than_all() {
        let (sessions, begin) = (Arc::new(Sessions::default()), Instant::now());
        let ann = Holder::Person(Arc::new(Person::new("ann", crate::access::Role::Operator)));
        let lasts = IDLE_FOR / 2;
        let (open, secret) = sessions.open(ann.clone(), lasts, begin).unwrap();
        assert_eq!((open.lasts(begin), open.holder()), (lasts, &ann));
        assert!(open.counts(begin + lasts - Duration::from_millis(1)));
        assert!(!open.counts(begin + lasts) && sessions.of(&secret, begin + lasts).is_none());
        let (open, _) = sessions.open(ann, 2 * ENDS_AFTER, begin).unwrap();
        assert_eq!(open.lasts(begin), ENDS_AFTER);
    }

    #[test]
    fn there_are_never_more_than_so_many_and_nobody_ends_those_of_others_alone() {
        let (sessions, begin) = (Arc::new(Sessions::default()), Instant::now());
        let (other, _) = open(&sessions, Holder::Token([2; 32]), begin);
        let opened: Vec<_> = (1..=40_u64)
            .map(|second| open(&sessions, TOKEN, begin + Duration::from_secs(second)).0)
            .collect();
        let now = begin + Duration::from_secs(60);
        let open: Vec<bool> = opened.iter().map(|open| open.counts(now)).collect();
        assert_eq!(open.iter().filter(|is_open| **is_open).count(), EACH_MAX);
        assert!(open.iter().rev().take(EACH_MAX).all(|is_open| *is_open), "the newest stay");
        assert!(other.counts(now), "that of another token too");
        for number in 0..2 * ALL_MAX {
            let mut token = [3; 32];
            token[..8].copy_from_slice(&number.to_le_bytes());
            self::open(&sessions, Holder::Token(token), now);
            assert!(sessions.all().len() <= ALL_MAX);
        }
    }
}
