//! Slots for concurrent calls of tools. An Application counts as slow if its last call exceeded a limit. Slow
//! Applications wait until no others are waiting, and always leave a slot free, so that a few charts that
//! never finish can't block everyone else.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of Applications remembered as slow.
const NAMES_MAX: usize = 10_000;

/// Slots in use, and the callers waiting for one.
#[derive(Debug, Default)]
pub(super) struct ToolSlots {
    state: Mutex<SlotState>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    taken: usize,
    /// Number of slots used by slow Applications.
    taken_by_slow: usize,
    /// Waiting callers, in order of precedence.
    waiting: BTreeSet<WaitingCaller>,
    arrivals: u64,
    slow_applications: BTreeSet<String>,
}

/// Caller that waits for a slot. Callers of slow Applications come after all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitingCaller {
    is_slow: bool,
    /// Order of arrival.
    arrival: u64,
}

/// A slot for one call. Released on drop.
pub(super) struct ToolSlot<'p> {
    slots: &'p ToolSlots,
    application: &'p str,
    is_slow: bool,
}

impl SlotState {
    /// Returns true if a waiting caller may take a slot now.
    fn is_next(&self, caller: WaitingCaller, limit: usize) -> bool {
        // Slow Applications leave a slot free, unless it is the only one.
        let has_place = !caller.is_slow || self.taken_by_slow < limit.saturating_sub(1).max(1);
        self.taken < limit && has_place && self.waiting.first() == Some(&caller)
    }
}

impl ToolSlots {
    fn lock_state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot. Callers are served in order of arrival, slow Applications last.
    pub fn acquire<'p>(&'p self, whose: &'p str, limit: usize) -> ToolSlot<'p> {
        let limit = limit.max(1);
        let mut state = self.lock_state();
        let is_slow = state.slow_applications.contains(whose);
        state.arrivals = state.arrivals.saturating_add(1);
        let us = WaitingCaller { is_slow, arrival: state.arrivals };
        state.waiting.insert(us);
        let waited = self.released.wait_while(state, |state| !state.is_next(us, limit));
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting.remove(&us);
        state.taken = state.taken.saturating_add(1);
        state.taken_by_slow = state.taken_by_slow.saturating_add(usize::from(is_slow));
        // Another slot may be free for the next in line.
        self.released.notify_all();
        ToolSlot { slots: self, application: whose, is_slow }
    }
}

impl ToolSlot<'_> {
    /// Releases the slot. If the call exceeded a limit (`was_too_much`), the Application counts as slow from
    /// now on.
    pub fn release(self, was_too_much: bool) {
        let mut state = self.slots.lock_state();
        match was_too_much {
            true if state.slow_applications.len() < NAMES_MAX => {
                state.slow_applications.insert(self.application.to_owned());
            }
            true => {}
            false => {
                state.slow_applications.remove(self.application);
            }
        }
    }
}

impl Drop for ToolSlot<'_> {
    fn drop(&mut self) {
        let mut state = self.slots.lock_state();
        state.taken = state.taken.saturating_sub(1);
        state.taken_by_slow = state.taken_by_slow.saturating_sub(usize::from(self.is_slow));
        self.slots.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    fn wait_for_callers(places: &ToolSlots, count: usize) {
        while places.lock_state().waiting.len() != count {
            thread::yield_now();
        }
    }

    #[test]
    fn slow_applications_wait_for_the_others() {
        let places = ToolSlots::default();
        places.acquire("slow", 1).release(true);
        let held = places.acquire("first", 1);
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            for (at, name) in ["slow", "second", "third"].into_iter().enumerate() {
                let (tell, places) = (tell.clone(), &places);
                scope.spawn(move || {
                    let place = places.acquire(name, 1);
                    tell.send(name).ok();
                    place.release(false);
                });
                wait_for_callers(places, at + 1);
            }
            held.release(false);
        });
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), ["second", "third", "slow"]);
        // After a successful call, the Application is no longer slow.
        assert!(places.lock_state().slow_applications.is_empty());
    }

    #[test]
    fn slow_applications_leave_a_free_slot() {
        let places = ToolSlots::default();
        ["a", "b"].into_iter().for_each(|name| places.acquire(name, 2).release(true));
        let held = places.acquire("a", 2);
        thread::scope(|scope| {
            let other = scope.spawn(|| places.acquire("b", 2).release(false));
            wait_for_callers(&places, 1);
            places.acquire("quick", 2).release(false);
            assert!(!other.is_finished());
            held.release(false);
        });
    }
}
