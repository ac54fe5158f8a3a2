//! What was seen of something that changes elsewhere.

use std::sync::{Mutex, PoisonError};

use crate::remote::Turn;

/// Looks at one thing, and what the last of them has shown. They take turns, so that what an earlier one has seen never stands for
/// what a later one has.
pub(crate) struct Looks<T> {
    turns: Turn<T>,
    seen: Mutex<Option<T>>,
}

impl<T> Default for Looks<T> {
    fn default() -> Self {
        Self { turns: Turn::default(), seen: Mutex::default() }
    }
}

impl<T: Clone> Looks<T> {
    /// What the last look has shown; nothing before the first.
    pub fn last(&self) -> Option<T> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks, knowing what was seen before. Returns that, and what is seen now. Whoever is served by a look of somebody else that
    /// began later than this was asked for sees no change: that one does.
    pub fn look(&self, look: impl FnOnce(Option<T>) -> T) -> (Option<T>, T) {
        let mut before = None;
        let (found, is_own) = self.turns.take(|| {
            before = self.last();
            let found = look(before.clone());
            *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
            found
        });
        if !is_own {
            before = Some(found.clone());
        }
        (before, found)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Of two looks at once, one of which takes long: what came after it had begun is seen by whoever asks then, and stays.
    #[test]
    fn what_was_seen_earlier_never_comes_after_what_was_seen_later() {
        let (looks, thing) = (Looks::default(), AtomicU32::new(1));
        let (begun, is_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let (looks, thing) = (&looks, &thing);
            scope.spawn(move || {
                looks.look(|_| {
                    let seen = thing.load(Ordering::SeqCst);
                    begun.send(()).unwrap();
                    // On its way, until whoever asks next is served, or cannot be before this ends.
                    may_go.recv_timeout(std::time::Duration::from_millis(50)).ok();
                    seen
                })
            });
            is_begun.recv().unwrap();
            thing.store(2, Ordering::SeqCst);
            let (before, found) = looks.look(|_| thing.load(Ordering::SeqCst));
            assert_eq!((before, found), (Some(1), 2));
            go.send(()).ok();
        });
        assert_eq!(looks.last(), Some(2));
    }

    #[test]
    fn a_change_is_seen_by_one_of_those_who_share_a_look() {
        let (looks, count) = (Looks::default(), AtomicU32::new(0));
        assert_eq!(looks.look(|before| before.map_or(0, |_: u32| 1)), (None, 0));
        let asked: Vec<_> = thread::scope(|scope| {
            let look = || looks.look(|_| count.fetch_add(1, Ordering::SeqCst) + 1);
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
