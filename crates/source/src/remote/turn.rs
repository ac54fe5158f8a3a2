//! Things that many ask for at once, and that need to be done once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does a thing for one at a time. Who asks before it begins is served by it: nobody is given what began before they asked.
pub(crate) struct Turn<T> {
    begun: AtomicU64,
    last: Mutex<Option<(u64, T)>>,
}

impl<T> Default for Turn<T> {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), last: Mutex::new(None) }
    }
}

impl<T: Clone> Turn<T> {
    /// The outcome, and whether it was done for this one.
    pub fn take(&self, work: impl FnOnce() -> T) -> (T, bool) {
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, outcome)) = &*last
            && *number > asked
        {
            return (outcome.clone(), false);
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let outcome = work();
        *last = Some((number, outcome.clone()));
        (outcome, true)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Those who come while work is under way share the next, and not that one.
    #[test]
    fn those_who_wait_share_a_turn() {
        let turn = Turn::default();
        let (begun, is_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let done = Mutex::new(0);
        let count = || {
            *done.lock().unwrap() += 1;
            *done.lock().unwrap()
        };
        thread::scope(|scope| {
            let (turn, count) = (&turn, &count);
            scope.spawn(move || {
                turn.take(|| {
                    begun.send(()).unwrap();
                    may_go.recv().unwrap();
                    count()
                })
            });
            is_begun.recv().unwrap();
            let waiting: Vec<_> = (0..8).map(|_| scope.spawn(move || turn.take(count))).collect();
            go.send(()).unwrap();
            let got: Vec<_> = waiting.into_iter().map(|one| one.join().unwrap()).collect();
            assert!(got.iter().all(|(number, _)| *number > 1), "{got:?}");
        });
        assert!(*done.lock().unwrap() <= 9);
        assert!(turn.take(count).1, "nobody waits: it is done again");
    }
}
