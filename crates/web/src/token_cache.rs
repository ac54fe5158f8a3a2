//! Cache of temporary tokens, shared by all users of a token.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Safety margin before a token expires, in seconds. The token must still be valid when it reaches the
/// server.
const EXPIRY_MARGIN: u64 = 5 * 60;

/// A token with its expiration time. Its `Debug` output doesn't contain the token.
#[derive(Clone, PartialEq, Eq)]
pub struct ExpiringToken {
    /// The token.
    pub token: String,
    /// Unix time when the token expires. Tokens without one are used only once.
    pub expires_at: Option<u64>,
}

impl fmt::Debug for ExpiringToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("ends", &self.expires_at).finish_non_exhaustive()
    }
}

/// Reason a token couldn't be obtained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFailure<E> {
    /// The error.
    pub error: E,
    /// Unix time before which the request must not be repeated.
    pub retry_at: Option<u64>,
}

/// A token from the cache.
#[derive(Clone, PartialEq, Eq)]
pub struct ObtainedToken {
    /// The token.
    pub token: String,
    /// True if the token was already cached, and thus may have been revoked.
    pub is_from_cache: bool,
}

impl fmt::Debug for ObtainedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased").field("is_kept", &self.is_from_cache).finish_non_exhaustive()
    }
}

type TokenResult<E> = Result<ExpiringToken, TokenFailure<E>>;

struct TokenSlot<E> {
    /// Number of completed requests.
    finished: AtomicU64,
    last: Mutex<Option<TokenResult<E>>>,
}

impl<E> TokenSlot<E> {
    fn is_usable(&self, now: u64) -> bool {
        match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(lease)) => is_unexpired(lease, now),
            Some(Err(refused)) => refused.retry_at.is_some_and(|until| now < until),
            None => false,
        }
    }
}

/// Cache of tokens by key, each kept until shortly before it expires.
pub struct TokenCache<K, E> {
    slots: Mutex<BTreeMap<K, Arc<TokenSlot<E>>>>,
}

impl<K, E> Default for TokenCache<K, E> {
    fn default() -> Self {
        Self { slots: Mutex::default() }
    }
}

impl<K: Ord + Clone, E: Clone> TokenCache<K, E> {
    /// Returns the cached token, or the result of `ask` if none is valid. `now` is in seconds since 1970.
    /// Requests for the same key run one at a time, and all waiting callers share the result or the error.
    ///
    /// # Errors
    ///
    /// Returns the error from `ask`, and the same error without calling `ask` until the request may be
    /// repeated.
    pub fn get_or_request(
        &self,
        key: &K,
        now: u64,
        ask: impl FnOnce() -> TokenResult<E>,
    ) -> Result<ObtainedToken, E> {
        let slot = {
            let new = || Arc::new(TokenSlot { finished: AtomicU64::new(0), last: Mutex::default() });
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            if !slots.contains_key(key) {
                // Drop expired and unused slots, whose keys may never be requested again.
                slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_usable(now));
            }
            Arc::clone(slots.entry(key.clone()).or_insert_with(new))
        };
        let before = slot.finished.load(Ordering::SeqCst);
        let mut last = slot.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = slot.finished.load(Ordering::SeqCst) > before;
        match &*last {
            Some(Ok(lease)) if is_new || is_unexpired(lease, now) => {
                return Ok(ObtainedToken { token: lease.token.clone(), is_from_cache: true });
            }
            Some(Err(refused)) if is_new || refused.retry_at.is_some_and(|until| now < until) => {
                return Err(refused.error.clone());
            }
            _ => {}
        }
        let outcome = ask();
        slot.finished.fetch_add(1, Ordering::SeqCst);
        *last = Some(outcome.clone());
        match outcome {
            Ok(lease) => Ok(ObtainedToken { token: lease.token, is_from_cache: false }),
            Err(refused) => Err(refused.error),
        }
    }

    /// Removes a token that a server has rejected, unless it has already been replaced.
    pub fn discard(&self, key: &K, token: &str) {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        if let Some(slot) = slot {
            let mut last = slot.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.take_if(|last| last.as_ref().is_ok_and(|lease| lease.token == token));
        }
    }

    /// Keeps only the keys accepted by `is_kept`.
    pub fn retain(&self, is_kept: impl Fn(&K) -> bool) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| is_kept(key));
    }
}

fn is_unexpired(lease: &ExpiringToken, now: u64) -> bool {
    lease.expires_at.is_some_and(|ends| now.saturating_add(EXPIRY_MARGIN) < ends)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const NOON: u64 = 1_795_348_800;

    fn expiring_token(token: &str, seconds: u64) -> TokenResult<&'static str> {
        Ok(ExpiringToken { token: token.to_owned(), expires_at: Some(NOON + seconds) })
    }

    fn must_not_request() -> TokenResult<&'static str> {
        unreachable!("no request is sent")
    }

    #[test]
    fn a_token_is_cached_until_shortly_before_its_expiry() {
        let leases = TokenCache::default();
        let take = |key: &'static str, now, ask: &dyn Fn() -> TokenResult<&'static str>| {
            leases.get_or_request(&key, now, ask).map(|leased| (leased.token, leased.is_from_cache))
        };
        assert_eq!(take("a", NOON, &|| expiring_token("one", 3600)), Ok(("one".to_owned(), false)));
        assert_eq!(take("a", NOON + 3299, &must_not_request), Ok(("one".to_owned(), true)));
        assert_eq!(take("b", NOON, &|| expiring_token("other", 3600)), Ok(("other".to_owned(), false)));
        assert_eq!(take("a", NOON + 3300, &|| expiring_token("two", 7200)), Ok(("two".to_owned(), false)));
        // The rejected token is requested again; other tokens are not.
        leases.discard(&"a", "one");
        assert_eq!(take("a", NOON + 3300, &must_not_request), Ok(("two".to_owned(), true)));
        leases.discard(&"a", "two");
        assert_eq!(
            take("a", NOON + 3300, &|| expiring_token("three", 7200)),
            Ok(("three".to_owned(), false))
        );
        leases.retain(|key| *key == "b");
        assert_eq!(take("a", NOON, &|| expiring_token("four", 3600)), Ok(("four".to_owned(), false)));
        assert_eq!(take("b", NOON, &must_not_request), Ok(("other".to_owned(), true)));
        // The validity of a token without an expiration time is unknown.
        assert_eq!(take("d", NOON + 3600, &|| expiring_token("late", 7200)), Ok(("late".to_owned(), false)));
        assert_eq!(leases.slots.lock().unwrap().len(), 1, "expired entries are removed");
        let endless = || Ok(ExpiringToken { token: "endless".to_owned(), expires_at: None });
        assert_eq!(take("c", NOON, &endless), Ok(("endless".to_owned(), false)));
        assert_eq!(take("c", NOON, &endless), Ok(("endless".to_owned(), false)));
    }

    #[test]
    fn a_requested_wait_is_honored() {
        let leases = TokenCache::default();
        let wait = || Err(TokenFailure { error: "wait", retry_at: Some(NOON + 60) });
        assert_eq!(leases.get_or_request(&"a", NOON, wait), Err("wait"));
        assert_eq!(leases.get_or_request(&"a", NOON + 59, must_not_request), Err("wait"));
        assert!(leases.get_or_request(&"a", NOON + 60, || expiring_token("one", 3600)).is_ok());
        let fails = || Err(TokenFailure { error: "no", retry_at: None });
        assert_eq!(leases.get_or_request(&"b", NOON, fails), Err("no"));
        assert!(
            leases.get_or_request(&"b", NOON, || expiring_token("one", 3600)).is_ok(),
            "other errors are not cached"
        );
    }

    #[test]
    fn concurrent_callers_share_one_request() {
        let leases = TokenCache::default();
        let (started, is_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let asked = Mutex::new(0);
        thread::scope(|scope| {
            let (leases, asked) = (&leases, &asked);
            let first = scope.spawn(move || {
                leases.get_or_request(&"a", NOON, || {
                    *asked.lock().unwrap() += 1;
                    started.send(()).unwrap();
                    may_go.recv().unwrap();
                    expiring_token("one", 3600)
                })
            });
            is_begun.recv().unwrap();
            let waiting: Vec<_> =
                (0..8).map(|_| scope.spawn(|| leases.get_or_request(&"a", NOON, must_not_request))).collect();
            go.send(()).unwrap();
            assert!(!first.join().unwrap().unwrap().is_from_cache);
            for one in waiting {
                assert_eq!(one.join().unwrap().map(|leased| leased.token), Ok("one".to_owned()));
            }
        });
        assert_eq!(*asked.lock().unwrap(), 1);
    }

    #[test]
    fn debug_forms_contain_no_secrets() {
        let shown = format!(
            "{:?} {:?}",
            expiring_token("hunter2", 1),
            ObtainedToken { token: "hunter2".into(), is_from_cache: true }
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
