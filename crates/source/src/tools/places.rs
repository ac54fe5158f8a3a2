//! Places for programs at work. Whoever has taken more than is allowed waits for all others next time, and leaves them a place: a few
//! charts without end hold nobody else up.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// More names are not kept of those who have taken too much.
const NAMES_MAX: usize = 10_000;

/// How many programs are at work, and who waits.
#[derive(Debug, Default)]
pub(super) struct Places {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Those of them whose last program had to be ended.
    taken_by_slow: usize,
    /// Whether they are such, and when they came.
    waiting: BTreeSet<(bool, u64)>,
    came: u64,
    slow: BTreeSet<String>,
}

/// One place, for as long as it is held.
pub(super) struct Place<'p> {
    places: &'p Places,
    whose: &'p str,
    is_slow: bool,
}

impl State {
    /// Whether it is the turn of one who waits.
    fn is_turn(&self, of: (bool, u64), limit: usize) -> bool {
        let (is_slow, _) = of;
        // One place is left for the others, where there are several.
        let has_place = !is_slow || self.taken_by_slow < limit.saturating_sub(1).max(1);
        self.taken < limit && has_place && self.waiting.first() == Some(&of)
    }
}

impl Places {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place, in the order of arrival.
    pub fn take<'p>(&'p self, whose: &'p str, limit: usize) -> Place<'p> {
        let limit = limit.max(1);
        let mut state = self.state();
        let is_slow = state.slow.contains(whose);
        state.came = state.came.saturating_add(1);
        let us = (is_slow, state.came);
        state.waiting.insert(us);
        let waited = self.freed.wait_while(state, |state| !state.is_turn(us, limit));
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting.remove(&us);
        state.taken = state.taken.saturating_add(1);
        state.taken_by_slow = state.taken_by_slow.saturating_add(usize::from(is_slow));
        // The next one may have a place as well.
        self.freed.notify_all();
        Place { places: self, whose, is_slow }
    }
}

impl Place<'_> {
    /// The program has ended, or had to be ended because it took too much.
    pub fn leave(self, was_too_much: bool) {
        let mut state = self.places.state();
        match was_too_much {
            true if state.slow.len() < NAMES_MAX => drop(state.slow.insert(self.whose.to_owned())),
            true => {}
            false => drop(state.slow.remove(self.whose)),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.places.state();
        state.taken = state.taken.saturating_sub(1);
        state.taken_by_slow = state.taken_by_slow.saturating_sub(usize::from(self.is_slow));
        self.places.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    fn waiting(places: &Places, count: usize) {
        while places.state().waiting.len() != count {
            thread::yield_now();
        }
    }

    #[test]
    fn those_who_took_too_much_wait_for_the_others() {
        let places = Places::default();
        places.take("slow", 1).leave(true);
        let held = places.take("first", 1);
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            for (at, name) in ["slow", "second", "third"].into_iter().enumerate() {
                let (tell, places) = (tell.clone(), &places);
                scope.spawn(move || {
                    let place = places.take(name, 1);
                    tell.send(name).ok();
                    place.leave(false);
                });
                waiting(places, at + 1);
            }
            held.leave(false);
        });
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), ["second", "third", "slow"]);
        // It has behaved since.
        assert!(places.state().slow.is_empty());
    }

    #[test]
    fn those_who_took_too_much_leave_a_place() {
        let places = Places::default();
        ["a", "b"].into_iter().for_each(|name| places.take(name, 2).leave(true));
        let held = places.take("a", 2);
        thread::scope(|scope| {
            let other = scope.spawn(|| places.take("b", 2).leave(false));
            waiting(&places, 1);
            places.take("quick", 2).leave(false);
            assert!(!other.is_finished());
            held.leave(false);
        });
    }
}
