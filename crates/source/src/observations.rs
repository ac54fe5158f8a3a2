//! Observations of state that changes outside the process, made one at a time.

use std::sync::{Mutex, PoisonError};

use crate::remote::Singleflight;

/// Observations made one at a time, with the latest result. An older observation never replaces a newer
/// result.
pub(crate) struct SharedObservations<T> {
    singleflight: Singleflight<T>,
    latest: Mutex<Option<T>>,
}

impl<T> Default for SharedObservations<T> {
    fn default() -> Self {
        Self { singleflight: Singleflight::default(), latest: Mutex::default() }
    }
}

impl<T: Clone> SharedObservations<T> {
    /// Returns the latest observation, if any.
    pub fn last(&self) -> Option<T> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes an observation and returns the previous and the new result. Callers that join another caller's
    /// observation get the new result twice, so that only one caller detects a change.
    pub fn observe(&self, look: impl FnOnce(Option<T>) -> T) -> (Option<T>, T) {
        let mut before = None;
        let (found, is_own) = self.singleflight.run(|| {
            before = self.last();
            let found = look(before.clone());
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
            found
        });
        if !is_own {
            before = Some(found.clone());
        }
        (before, found)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// If two observations overlap, the later one to start wins, even if it finishes first.
    #[test]
    fn an_older_observation_never_follows_a_newer_one() {
        let (looks, thing) = (SharedObservations::default(), AtomicU32::new(1));
        let (begun, is_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let (looks, thing) = (&looks, &thing);
            scope.spawn(move || {
                looks.observe(|_| {
                    let seen = thing.load(Ordering::SeqCst);
                    begun.send(()).unwrap();
                    // Stay in flight until the next caller has its result, but only briefly: it may be
                    // waiting for this call.
                    may_go.recv_timeout(std::time::Duration::from_millis(50)).ok();
                    seen
                })
            });
            is_begun.recv().unwrap();
            thing.store(2, Ordering::SeqCst);
            let (before, found) = looks.observe(|_| thing.load(Ordering::SeqCst));
            assert_eq!((before, found), (Some(1), 2));
            go.send(()).ok();
        });
        assert_eq!(looks.last(), Some(2));
    }

    #[test]
    fn one_caller_of_a_shared_observation_gets_the_change() {
        let (looks, count) = (SharedObservations::default(), AtomicU32::new(0));
        assert_eq!(looks.observe(|before| before.map_or(0, |_: u32| 1)), (None, 0));
        let asked: Vec<_> = thread::scope(|scope| {
            let look = || looks.observe(|_| count.fetch_add(1, Ordering::SeqCst) + 1);
            let all: Vec<_> = (0..8).map(|_| scope.spawn(look)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let mut changes: Vec<_> = asked.iter().filter(|(before, found)| *before != Some(*found)).collect();
        changes.sort();
        let each: Vec<u32> = changes.iter().map(|(_, found)| *found).collect();
        assert_eq!(each, (1..=count.load(Ordering::SeqCst)).collect::<Vec<_>>(), "{asked:?}");
        assert!(changes.iter().all(|(before, found)| *before == Some(found - 1)), "{changes:?}");
    }
}
