//! What keeps calls waiting: a server that asks for patience, or one that is silent. It is told while they wait, because
//! a call that hangs says so itself only when it is given up.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_cluster::Strain;
use tokio::time::Instant;

/// A server that was asked and has said nothing at all for so long is told of.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Keeps account of the calls on their way.
pub(crate) struct Monitor {
    state: Mutex<State>,
}

struct State {
    next: u64,
    calls: BTreeMap<u64, Pending>,
    /// When the server said anything last.
    heard: Instant,
    /// Until when it asks to be left alone, and by which answer.
    asked: Option<(Instant, String)>,
}

/// A call on its way.
struct Pending {
    what: String,
    since: Instant,
}

/// One call, until this is dropped.
pub(crate) struct Mark<'m> {
    monitor: &'m Monitor,
    number: u64,
}

impl Monitor {
    pub(crate) fn new() -> Self {
        let state = State { next: 0, calls: BTreeMap::new(), heard: Instant::now(), asked: None };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change is complete before anything could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call is sent.
    pub(crate) fn sent(&self, what: String) -> Mark<'_> {
        let mut state = self.state();
        let number = state.next;
        state.next = number.wrapping_add(1);
        state.calls.insert(number, Pending { what, since: Instant::now() });
        Mark { monitor: self, number }
    }

    /// The server asks to be called again only after a while.
    pub(crate) fn asked(&self, wait: Duration, words: impl FnOnce() -> String) {
        let (mut state, until) = (self.state(), Instant::now() + wait);
        if state.asked.as_ref().is_none_or(|(known, _)| *known < until) {
            state.asked = Some((until, words()));
        }
    }

    /// The server said something.
    pub(crate) fn heard(&self) {
        self.state().heard = Instant::now();
    }

    /// When it did so last.
    pub(crate) fn heard_at(&self) -> Instant {
        self.state().heard
    }

    /// What keeps calls waiting now.
    pub(crate) fn strain(&self) -> Option<Strain> {
        let (state, now) = (self.state(), Instant::now());
        if let Some((until, words)) = state.asked.as_ref().filter(|(until, _)| *until > now) {
            let left = until.saturating_duration_since(now);
            return Some(Strain::AsksToWait { left, message: words.clone() });
        }
        let oldest = state.calls.values().min_by_key(|call| call.since)?;
        let silent = now.saturating_duration_since(oldest.since.max(state.heard));
        let message = format!("no answer to {}", oldest.what);
        (silent >= SILENT_AFTER).then_some(Strain::Silent { lasts: silent, message })
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.monitor.state().calls.remove(&self.number);
    }
}
