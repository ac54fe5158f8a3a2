//! Sessions that outlive the process, for services that share an operation log.
//!
//! The leader stores each session without its secret, and the next leader restores the sessions. Idle time before a
//! takeover doesn't count.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

use crate::access::{Caller, Person, Role};
use crate::sessions::{Principal, Session, SessionChange, SessionKey, Sessions};

/// Interval between removals of expired sessions.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(60);

/// Storage of sessions. The content must be protected against changes, because it contains roles.
pub trait SessionStore: Send + Sync + 'static {
    /// Returns all stored sessions with their names.
    fn load(&self) -> Result<Vec<(String, Vec<u8>)>, String>;
    /// Stores a session durably, and returns its name.
    fn save(&self, content: &[u8]) -> Result<String, String>;
    /// Removes a session.
    fn remove(&self, name: &str) -> Result<(), String>;
}

/// Stored session.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSession {
    /// Digest of the secret.
    key: SessionKey,
    principal: StoredPrincipal,
    csrf: String,
    expires_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
enum StoredPrincipal {
    /// Digest of a token.
    Token([u8; 32]),
    /// User authenticated by a provider.
    Person { name: String, role: Role, subject: String, settings: [u8; 32] },
}

/// Current time on both clocks.
#[derive(Clone, Copy)]
struct Now {
    monotonic: Instant,
    wall: Timestamp,
}

impl Now {
    fn read() -> Self {
        Self { monotonic: Instant::now(), wall: SystemClock.now() }
    }
}

impl StoredSession {
    fn new(key: SessionKey, session: &Session, now: Now) -> Self {
        let principal = match &session.principal {
            Principal::Token(digest) => StoredPrincipal::Token(*digest),
            Principal::Person(person) => StoredPrincipal::Person {
                name: person.caller.name.clone(),
                role: person.caller.role,
                subject: person.subject.clone(),
                settings: person.settings,
            },
        };
        let expires_at = now.wall + session.expires_at.saturating_duration_since(now.monotonic);
        Self { key, principal, csrf: session.csrf.to_string(), expires_at }
    }

    /// Returns the session, unless it has expired.
    fn restore(self, now: Now) -> Option<(SessionKey, Session)> {
        let remaining = self.expires_at.since(now.wall);
        let principal = match self.principal {
            StoredPrincipal::Token(digest) => Principal::Token(digest),
            StoredPrincipal::Person { name, role, subject, settings } => {
                Principal::Person(Arc::new(Person { caller: Caller { name, role }, subject, settings }))
            }
        };
        let session = Session::new(principal, self.csrf.into(), remaining, now.monotonic);
        (remaining > Duration::ZERO).then_some((self.key, session))
    }
}

/// Restores the stored sessions, and stores later changes until the process ends.
pub(crate) async fn keep_sessions(sessions: &Arc<Sessions>, store: Arc<dyn SessionStore>) {
    let (sender, changes) = unbounded_channel();
    let reader = Arc::clone(&store);
    let loaded = tokio::task::spawn_blocking(move || reader.load()).await;
    let loaded = loaded.unwrap_or_else(|error| Err(error.to_string())).unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to read the sessions of the web page; users have to sign in again");
        Vec::new()
    });
    let now = Now::read();
    let (mut names, mut expired) = (HashMap::new(), Vec::new());
    for (name, content) in loaded {
        let stored: Option<StoredSession> = serde_json::from_slice(&content).ok();
        match stored.and_then(|stored| stored.restore(now)) {
            Some((key, session)) => {
                sessions.restore(key, session);
                names.insert(key, name);
            }
            None => expired.push(name),
        }
    }
    sessions.set_observer(sender);
    let sessions = Arc::downgrade(sessions);
    tokio::spawn(async move {
        while let Some(sessions) = sessions.upgrade() {
            sessions.remove_expired(Instant::now());
            drop(sessions);
            tokio::time::sleep(CLEANUP_INTERVAL).await;
        }
    });
    // The runtime must not wait for a store that is unavailable.
    let thread = std::thread::Builder::new().name("tidegate-sessions".to_owned());
    let spawned = thread.spawn(move || {
        for name in expired {
            report(store.remove(&name));
        }
        store_changes(store.as_ref(), names, changes);
    });
    report(spawned.map(drop).map_err(|error| error.to_string()));
}

/// Stores changes one after the other, until the sessions are dropped.
fn store_changes(
    store: &dyn SessionStore,
    mut names: HashMap<SessionKey, String>,
    mut changes: UnboundedReceiver<SessionChange>,
) {
    while let Some(change) = changes.blocking_recv() {
        match change {
            SessionChange::Opened(key, session) => {
                let now = Now::read();
                let content = serde_json::to_vec(&StoredSession::new(key, &session, now));
                match content.map_err(|error| error.to_string()).and_then(|content| store.save(&content)) {
                    Ok(name) => drop(names.insert(key, name)),
                    error => report(error.map(drop)),
                }
            }
            SessionChange::Ended(key) => {
                if let Some(name) = names.remove(&key) {
                    report(store.remove(&name));
                }
            }
        }
    }
}

fn report(result: Result<(), String>) {
    if let Err(error) = result {
        tracing::warn!(%error, "failed to store a session of the web page; the user may have to sign in again");
    }
}
