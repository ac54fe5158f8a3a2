//! Page sessions, which browsers use instead of a token for a few hours.
//!
//! The browser keeps a secret in a cookie that scripts can't read. The server only keeps its digest and the
//! principal: a token, or a user authenticated by a provider. Revoking a token ends its sessions. Sessions
//! end with the process, unless an observer stores them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::access::Person;

/// Maximum lifetime of a session, enough for a working day.
pub(crate) const LIFETIME_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Maximum idle time of a session. An open view with an event stream keeps it active.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Maximum number of sessions per token or user. Beyond that, a new session replaces the least recently used.
const SESSIONS_PER_PRINCIPAL_MAX: usize = 32;
/// Maximum number of sessions of all tokens and users together.
const SESSIONS_MAX: usize = 1024;
/// Maximum length of a secret in bytes.
const SECRET_MAX: usize = 128;

/// Returns a random secret, or `None` if the system can't provide random numbers.
pub(crate) fn generate_secret() -> Option<String> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// Digest of a session's secret.
pub(crate) type SessionKey = [u8; 32];

fn session_key(secret: &str) -> SessionKey {
    Sha256::digest(secret.as_bytes()).into()
}

/// Owner of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Principal {
    /// A token, by its digest.
    Token([u8; 32]),
    /// A user authenticated by a provider.
    Person(Arc<Person>),
}

/// Sessions of this process.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    all: Mutex<HashMap<SessionKey, Session>>,
    observer: OnceLock<UnboundedSender<SessionChange>>,
}

/// Change to the sessions.
pub(crate) enum SessionChange {
    Opened(SessionKey, Session),
    /// The session has expired, or the user has signed out.
    Ended(SessionKey),
}

#[derive(Clone)]
pub(crate) struct Session {
    pub principal: Principal,
    /// CSRF token, required in addition to the cookie because browsers send cookies by themselves.
    pub csrf: Arc<str>,
    pub expires_at: Instant,
    last_used_at: Instant,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("ends_at", &self.expires_at).finish_non_exhaustive()
    }
}

impl Session {
    /// Creates a session that lasts at most `lifetime` (capped at 12 h).
    pub fn new(principal: Principal, csrf: Arc<str>, lifetime: Duration, now: Instant) -> Self {
        Self { principal, csrf, expires_at: now + lifetime.min(LIFETIME_MAX), last_used_at: now }
    }

    fn is_expired(&self, now: Instant) -> bool {
        now >= self.expires_at || now.saturating_duration_since(self.last_used_at) >= IDLE_TIMEOUT
    }
}

/// An open session.
#[derive(Clone)]
pub(crate) struct OpenSession {
    sessions: Arc<Sessions>,
    key: SessionKey,
    principal: Principal,
    csrf: Arc<str>,
    expires_at: Instant,
}

impl Sessions {
    fn lock_sessions(&self) -> MutexGuard<'_, HashMap<SessionKey, Session>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the observer of all later changes. Only the first one counts.
    pub fn set_observer(&self, observer: UnboundedSender<SessionChange>) {
        let _ = self.observer.set(observer);
    }

    fn notify(&self, change: SessionChange) {
        if let Some(observer) = self.observer.get() {
            let _ = observer.send(change);
        }
    }

    /// Removes all expired sessions.
    pub fn remove_expired(&self, now: Instant) {
        self.remove_expired_of(&mut self.lock_sessions(), now);
    }

    fn remove_expired_of(&self, all: &mut HashMap<SessionKey, Session>, now: Instant) {
        let expired: Vec<SessionKey> =
            all.iter().filter(|(_, session)| session.is_expired(now)).map(|(key, _)| *key).collect();
        expired.into_iter().for_each(|key| self.remove(all, key));
    }

    /// Adds a session of another process.
    pub fn restore(&self, key: SessionKey, session: Session) {
        self.lock_sessions().insert(key, session);
    }

    fn remove(&self, all: &mut HashMap<SessionKey, Session>, key: SessionKey) {
        all.remove(&key);
        self.notify(SessionChange::Ended(key));
    }

    /// Creates a session that lasts at most `lifetime` (capped at 12 h). Returns it with its secret, or
    /// `None` if the system can't provide random numbers.
    pub fn open(
        self: &Arc<Self>,
        principal: Principal,
        lifetime: Duration,
        now: Instant,
    ) -> Option<(OpenSession, String)> {
        let (secret, csrf): (String, Arc<str>) = (self::generate_secret()?, self::generate_secret()?.into());
        let mut all = self.lock_sessions();
        self.remove_expired_of(&mut all, now);
        let own = |session: &Session| session.principal == principal;
        if all.values().filter(|session| own(session)).count() >= SESSIONS_PER_PRINCIPAL_MAX {
            self.remove_oldest(&mut all, own);
        }
        if all.len() >= SESSIONS_MAX {
            self.remove_oldest(&mut all, |_| true);
        }
        let key = session_key(&secret);
        let session = Session::new(principal, csrf, lifetime, now);
        all.insert(key, session.clone());
        drop(all);
        self.notify(SessionChange::Opened(key, session.clone()));
        let Session { principal, csrf, expires_at, .. } = session;
        Some((OpenSession { sessions: Arc::clone(self), key, principal, csrf, expires_at }, secret))
    }

    /// Returns the open session with this secret.
    pub fn get(self: &Arc<Self>, secret: &str, now: Instant) -> Option<OpenSession> {
        if secret.len() > SECRET_MAX {
            return None;
        }
        // Only digests are compared, so timing reveals nothing about the secret.
        let key = session_key(secret);
        let mut all = self.lock_sessions();
        let session = all.get_mut(&key).filter(|session| !session.is_expired(now))?;
        session.last_used_at = now;
        let (principal, csrf, expires_at) =
            (session.principal.clone(), Arc::clone(&session.csrf), session.expires_at);
        drop(all);
        Some(OpenSession { sessions: Arc::clone(self), key, principal, csrf, expires_at })
    }

    fn remove_oldest(&self, all: &mut HashMap<SessionKey, Session>, is_candidate: impl Fn(&Session) -> bool) {
        let candidates = all.iter().filter(|(_, session)| is_candidate(session));
        if let Some(key) = candidates.min_by_key(|(_, session)| session.last_used_at).map(|(key, _)| *key) {
            self.remove(all, key);
        }
    }
}

impl OpenSession {
    /// Returns the session's owner.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Returns the CSRF token that pages must send in addition to the cookie.
    pub fn csrf(&self) -> &str {
        &self.csrf
    }

    pub fn remaining_lifetime(&self, now: Instant) -> Duration {
        self.expires_at.saturating_duration_since(now)
    }

    /// Returns true if the session is still open. Calling this counts as using it.
    pub fn is_active(&self, now: Instant) -> bool {
        let mut all = self.sessions.lock_sessions();
        let session = all.get_mut(&self.key).filter(|session| !session.is_expired(now));
        session.map(|session| session.last_used_at = now).is_some()
    }

    /// Ends the session.
    pub fn end(&self) {
        self.sessions.remove(&mut self.sessions.lock_sessions(), self.key);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;
    use crate::access::{Caller, Role};

    const TOKEN: Principal = Principal::Token([1; 32]);

    fn open_session(sessions: &Arc<Sessions>, holder: Principal, now: Instant) -> (OpenSession, String) {
        sessions.open(holder, LIFETIME_MAX, now).unwrap()
    }

    #[test]
    fn a_session_ends_by_age_idleness_or_sign_out() {
        let (sessions, begin) = (Arc::new(Sessions::default()), Instant::now());
        let (open, secret) = self::open_session(&sessions, TOKEN, begin);
        assert_ne!(open.csrf(), secret, "the CSRF token does not reveal the secret");
        assert!(!format!("{sessions:?}").contains(&secret) && !format!("{sessions:?}").contains(open.csrf()));
        for wrong in ["", "x", &secret[1..], &format!("{secret}x"), open.csrf(), &"x".repeat(1 << 20)] {
            assert!(sessions.get(wrong, begin).is_none(), "{wrong:.20}");
        }
        let found = sessions.get(&secret, begin).unwrap();
        assert_eq!((found.principal(), found.csrf()), (&TOKEN, open.csrf()));
        // A session used every half hour expires after twelve hours.
        let mut now = begin;
        while now + IDLE_TIMEOUT / 2 < begin + LIFETIME_MAX {
            now += IDLE_TIMEOUT / 2;
            assert!(found.is_active(now) && sessions.get(&secret, now).is_some());
        }
        assert!(found.remaining_lifetime(now) <= IDLE_TIMEOUT / 2);
        now += IDLE_TIMEOUT / 2;
        assert!(!found.is_active(now) && sessions.get(&secret, now).is_none());
        // An unused session expires after one hour.
        let (open, secret) = self::open_session(&sessions, TOKEN, now);
        now += IDLE_TIMEOUT;
        assert!(!open.is_active(now) && sessions.get(&secret, now).is_none());
        let (open, secret) = self::open_session(&sessions, TOKEN, now);
        open.end();
        assert!(!open.is_active(now) && sessions.get(&secret, now).is_none());
    }

    #[test]
    fn a_session_of_a_person_lasts_as_configured_up_to_the_maximum() {
        let (sessions, begin) = (Arc::new(Sessions::default()), Instant::now());
        let caller = Caller { name: "oidc:ann".to_owned(), role: Role::Operator };
        let ann =
            Principal::Person(Arc::new(Person { caller, subject: "ann".to_owned(), settings: [0; 32] }));
        let lifetime = IDLE_TIMEOUT / 2;
        let (open, secret) = sessions.open(ann.clone(), lifetime, begin).unwrap();
        assert_eq!((open.remaining_lifetime(begin), open.principal()), (lifetime, &ann));
        assert!(open.is_active(begin + lifetime - Duration::from_millis(1)));
        assert!(!open.is_active(begin + lifetime) && sessions.get(&secret, begin + lifetime).is_none());
        let (open, _) = sessions.open(ann, 2 * LIFETIME_MAX, begin).unwrap();
        assert_eq!(open.remaining_lifetime(begin), LIFETIME_MAX);
    }

    #[test]
    fn sessions_are_limited_per_principal_and_in_total() {
        let (sessions, begin) = (Arc::new(Sessions::default()), Instant::now());
        let (other, _) = open_session(&sessions, Principal::Token([2; 32]), begin);
        let opened: Vec<_> = (1..=40_u64)
            .map(|second| open_session(&sessions, TOKEN, begin + Duration::from_secs(second)).0)
            .collect();
        let now = begin + Duration::from_secs(60);
        let open: Vec<bool> = opened.iter().map(|open| open.is_active(now)).collect();
        assert_eq!(open.iter().filter(|is_open| **is_open).count(), SESSIONS_PER_PRINCIPAL_MAX);
        assert!(
            open.iter().rev().take(SESSIONS_PER_PRINCIPAL_MAX).all(|is_open| *is_open),
            "the newest sessions stay open"
        );
        assert!(other.is_active(now), "the session of another token stays open");
        for number in 0..2 * SESSIONS_MAX {
            let mut token = [3; 32];
            token[..8].copy_from_slice(&number.to_le_bytes());
            self::open_session(&sessions, Principal::Token(token), now);
            assert!(sessions.lock_sessions().len() <= SESSIONS_MAX);
        }
    }
}
