//! Backpressure from a server that requests delays or doesn't respond. It is reported while calls are still
//! waiting, because a hanging call doesn't fail before its timeout.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_cluster::Backpressure;
use tokio::time::Instant;

/// Time without a response until a server is reported as unresponsive.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Monitors the calls in flight.
pub(crate) struct Monitor {
    state: Mutex<State>,
}

struct State {
    next_number: u64,
    calls: BTreeMap<u64, PendingCall>,
    /// Time of the last response.
    last_response_at: Instant,
    /// End of the delay requested by the server, and the response that requested it.
    requested_delay: Option<(Instant, String)>,
}

/// Call in flight.
struct PendingCall {
    what: String,
    started_at: Instant,
}

/// Guard that marks a call as in flight until it is dropped.
pub(crate) struct CallMark<'m> {
    monitor: &'m Monitor,
    number: u64,
}

impl Monitor {
    pub(crate) fn new() -> Self {
        let state = State {
            next_number: 0,
            calls: BTreeMap::new(),
            last_response_at: Instant::now(),
            requested_delay: None,
        };
        Self { state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Changes are complete before anything can panic, so a poisoned lock is fine.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start of a call.
    pub(crate) fn begin_call(&self, what: String) -> CallMark<'_> {
        let mut state = self.state();
        let number = state.next_number;
        state.next_number = number.wrapping_add(1);
        state.calls.insert(number, PendingCall { what, started_at: Instant::now() });
        CallMark { monitor: self, number }
    }

    /// Records a delay that the server requested for all calls.
    pub(crate) fn record_delay(&self, wait: Duration, text: impl FnOnce() -> String) {
        let (mut state, until) = (self.state(), Instant::now() + wait);
        if state.requested_delay.as_ref().is_none_or(|(known, _)| *known < until) {
            state.requested_delay = Some((until, text()));
        }
    }

    /// Records a response from the server.
    pub(crate) fn record_response(&self) {
        self.state().last_response_at = Instant::now();
    }

    /// Returns the time of the last response.
    pub(crate) fn last_response_at(&self) -> Instant {
        self.state().last_response_at
    }

    /// Records that the server responded.
    pub(crate) fn backpressure(&self) -> Option<Backpressure> {
        let (state, now) = (self.state(), Instant::now());
        if let Some((until, text)) = state.requested_delay.as_ref().filter(|(until, _)| *until > now) {
            let remaining = until.saturating_duration_since(now);
            return Some(Backpressure::RateLimited { remaining, message: text.clone() });
        }
        let oldest = state.calls.values().min_by_key(|call| call.started_at)?;
        let silent = now.saturating_duration_since(oldest.started_at.max(state.last_response_at));
        let message = format!("no response to {}", oldest.what);
        (silent >= SILENT_AFTER).then_some(Backpressure::Unresponsive { elapsed: silent, message })
    }
}

impl Drop for CallMark<'_> {
    fn drop(&mut self) {
        self.monitor.state().calls.remove(&self.number);
    }
}
