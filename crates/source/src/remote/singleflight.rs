//! Coalescing of concurrent calls that need the same result.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs work for one caller at a time. Everyone waiting when the work starts shares its result; results of
/// work that started before the call are never used.
pub(crate) struct Singleflight<T> {
    started: AtomicU64,
    last: Mutex<Option<(u64, T)>>,
}

impl<T> Default for Singleflight<T> {
    fn default() -> Self {
        Self { started: AtomicU64::new(0), last: Mutex::new(None) }
    }
}

impl<T: Clone> Singleflight<T> {
    /// Returns the result, and true if this caller ran the work.
    pub fn run(&self, work: impl FnOnce() -> T) -> (T, bool) {
        let asked = self.started.load(Ordering::SeqCst);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, outcome)) = &*last
            && *number > asked
        {
            return (outcome.clone(), false);
        }
        let number = self.started.fetch_add(1, Ordering::SeqCst) + 1;
        let outcome = work();
        *last = Some((number, outcome.clone()));
        (outcome, true)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Callers that arrive during a run must share the result of the next run instead.
    #[test]
    fn waiting_callers_share_a_run() {
        let turn = Singleflight::default();
        let (started, is_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let done = Mutex::new(0);
        let count = || {
            *done.lock().unwrap() += 1;
            *done.lock().unwrap()
        };
        thread::scope(|scope| {
            let (turn, count) = (&turn, &count);
            scope.spawn(move || {
                turn.run(|| {
                    started.send(()).unwrap();
                    may_go.recv().unwrap();
                    count()
                })
            });
            is_begun.recv().unwrap();
            let waiting: Vec<_> = (0..8).map(|_| scope.spawn(move || turn.run(count))).collect();
            go.send(()).unwrap();
            let got: Vec<_> = waiting.into_iter().map(|one| one.join().unwrap()).collect();
            assert!(got.iter().all(|(number, _)| *number > 1), "{got:?}");
        });
        assert!(*done.lock().unwrap() <= 9);
        assert!(turn.run(count).1, "without waiting callers, the work runs again");
    }
}
