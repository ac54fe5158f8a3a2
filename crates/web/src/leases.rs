//! Tokens that somebody gives for a while, each kept for all who need it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A token is not used any more so long before its end, in seconds: it has to last until a server has read it.
const BEFORE_END: u64 = 5 * 60;

/// A token, and when it ends. Its debug form shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Lease {
    /// The token itself.
    pub token: String,
    /// When it ends, in seconds since 1970. One that does not say so is used once.
    pub ends: Option<u64>,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("ends", &self.ends).finish_non_exhaustive()
    }
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused<E> {
    /// What to say of it.
    pub error: E,
    /// Until when nobody is to ask again, in seconds since 1970.
    pub until: Option<u64>,
}

/// A token, as it is handed out.
#[derive(Clone, PartialEq, Eq)]
pub struct Leased {
    /// The token itself.
    pub token: String,
    /// It was there already: it may have been taken back since.
    pub is_kept: bool,
}

impl fmt::Debug for Leased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased").field("is_kept", &self.is_kept).finish_non_exhaustive()
    }
}

type Outcome<E> = Result<Lease, Refused<E>>;

struct Slot<E> {
    /// How often it was asked for.
    finished: AtomicU64,
    last: Mutex<Option<Outcome<E>>>,
}

impl<E> Slot<E> {
    fn is_of_use(&self, now: u64) -> bool {
        match &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(lease)) => is_fresh(lease, now),
            Some(Err(refused)) => refused.until.is_some_and(|until| now < until),
            None => false,
        }
    }
}

/// Tokens by who they are for, each kept until shortly before it ends.
pub struct Leases<K, E> {
    slots: Mutex<BTreeMap<K, Arc<Slot<E>>>>,
}

impl<K, E> Default for Leases<K, E> {
    fn default() -> Self {
        Self { slots: Mutex::default() }
    }
}

impl<K: Ord + Clone, E: Clone> Leases<K, E> {
    /// The token that is kept, or else the one that `ask` gives; `now` is in seconds since 1970. One at a time asks for a key:
    /// what comes of that, be it an error, is for all who wait meanwhile.
    ///
    /// # Errors
    ///
    /// What `ask` says, now or while it is not to be asked again.
    pub fn take(&self, key: &K, now: u64, ask: impl FnOnce() -> Outcome<E>) -> Result<Leased, E> {
        let slot = {
            let new = || Arc::new(Slot { finished: AtomicU64::new(0), last: Mutex::default() });
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            if !slots.contains_key(key) {
                // What is over and in nobody's hands is for somebody who does not come any more.
                slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_of_use(now));
            }
            Arc::clone(slots.entry(key.clone()).or_insert_with(new))
        };
        let before = slot.finished.load(Ordering::SeqCst);
        let mut last = slot.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = slot.finished.load(Ordering::SeqCst) > before;
        match &*last {
            Some(Ok(lease)) if is_new || is_fresh(lease, now) => {
                return Ok(Leased { token: lease.token.clone(), is_kept: true });
            }
            Some(Err(refused)) if is_new || refused.until.is_some_and(|until| now < until) => {
                return Err(refused.error.clone());
            }
            _ => {}
        }
        let outcome = ask();
        slot.finished.fetch_add(1, Ordering::SeqCst);
        *last = Some(outcome.clone());
        match outcome {
            Ok(lease) => Ok(Leased { token: lease.token, is_kept: false }),
            Err(refused) => Err(refused.error),
        }
    }

    /// Gives a token up that a server does not accept, unless another one has taken its place.
    pub fn give_up(&self, key: &K, token: &str) {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        if let Some(slot) = slot {
            let mut last = slot.last.lock().unwrap_or_else(PoisonError::into_inner);
            last.take_if(|last| last.as_ref().is_ok_and(|lease| lease.token == token));
        }
    }

    /// Forgets what is for others than these.
    pub fn retain(&self, is_kept: impl Fn(&K) -> bool) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| is_kept(key));
    }
}

fn is_fresh(lease: &Lease, now: u64) -> bool {
    lease.ends.is_some_and(|ends| now.saturating_add(BEFORE_END) < ends)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const NOON: u64 = 1_795_348_800;

    fn lease(token: &str, seconds: u64) -> Outcome<&'static str> {
        Ok(Lease { token: token.to_owned(), ends: Some(NOON + seconds) })
    }

    fn never() -> Outcome<&'static str> {
        unreachable!("nobody is asked")
    }

    #[test]
    fn a_token_is_kept_until_shortly_before_its_end() {
        let leases = Leases::default();
        let take = |key: &'static str, now, ask: &dyn Fn() -> Outcome<&'static str>| {
            leases.take(&key, now, ask).map(|leased| (leased.token, leased.is_kept))
        };
        assert_eq!(take("a", NOON, &|| lease("one", 3600)), Ok(("one".to_owned(), false)));
        assert_eq!(take("a", NOON + 3299, &never), Ok(("one".to_owned(), true)));
        assert_eq!(take("b", NOON, &|| lease("other", 3600)), Ok(("other".to_owned(), false)));
        assert_eq!(take("a", NOON + 3300, &|| lease("two", 7200)), Ok(("two".to_owned(), false)));
        // What somebody has found to be no good any more is asked for anew, and only that.
        leases.give_up(&"a", "one");
        assert_eq!(take("a", NOON + 3300, &never), Ok(("two".to_owned(), true)));
        leases.give_up(&"a", "two");
        assert_eq!(take("a", NOON + 3300, &|| lease("three", 7200)), Ok(("three".to_owned(), false)));
        leases.retain(|key| *key == "b");
        assert_eq!(take("a", NOON, &|| lease("four", 3600)), Ok(("four".to_owned(), false)));
        assert_eq!(take("b", NOON, &never), Ok(("other".to_owned(), true)));
        // Without an end nobody knows how long it is good.
        assert_eq!(take("d", NOON + 3600, &|| lease("late", 7200)), Ok(("late".to_owned(), false)));
        assert_eq!(leases.slots.lock().unwrap().len(), 1, "what is over takes no room");
        let endless = || Ok(Lease { token: "endless".to_owned(), ends: None });
        assert_eq!(take("c", NOON, &endless), Ok(("endless".to_owned(), false)));
        assert_eq!(take("c", NOON, &endless), Ok(("endless".to_owned(), false)));
    }

    #[test]
    fn who_asks_us_to_wait_is_not_asked_before() {
        let leases = Leases::default();
        let wait = || Err(Refused { error: "wait", until: Some(NOON + 60) });
        assert_eq!(leases.take(&"a", NOON, wait), Err("wait"));
        assert_eq!(leases.take(&"a", NOON + 59, never), Err("wait"));
        assert!(leases.take(&"a", NOON + 60, || lease("one", 3600)).is_ok());
        let fails = || Err(Refused { error: "no", until: None });
        assert_eq!(leases.take(&"b", NOON, fails), Err("no"));
        assert!(leases.take(&"b", NOON, || lease("one", 3600)).is_ok(), "other errors are not kept");
    }

    #[test]
    fn one_asks_and_all_who_wait_share_what_comes_of_it() {
        let leases = Leases::default();
        let (begun, is_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let asked = Mutex::new(0);
        thread::scope(|scope| {
            let (leases, asked) = (&leases, &asked);
            let first = scope.spawn(move || {
                leases.take(&"a", NOON, || {
                    *asked.lock().unwrap() += 1;
                    begun.send(()).unwrap();
                    may_go.recv().unwrap();
                    lease("one", 3600)
                })
            });
            is_begun.recv().unwrap();
            let waiting: Vec<_> = (0..8).map(|_| scope.spawn(|| leases.take(&"a", NOON, never))).collect();
            go.send(()).unwrap();
            assert!(!first.join().unwrap().unwrap().is_kept);
            for one in waiting {
                assert_eq!(one.join().unwrap().map(|leased| leased.token), Ok("one".to_owned()));
            }
        });
        assert_eq!(*asked.lock().unwrap(), 1);
    }

    #[test]
    fn nothing_shows() {
        let shown =
            format!("{:?} {:?}", lease("hunter2", 1), Leased { token: "hunter2".into(), is_kept: true });
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
