//! Comparison requests. Each is answered once the result of a comparison that started after it has been
//! published.

use tidegate_application::refresh::{self, RefreshLevel};

use super::ActorState;
use crate::messages::Reply;

/// Caller that is waiting for a comparison.
pub(super) struct RefreshWaiter {
    reply: Reply,
    state: WaiterState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaiterState {
    Waiting,
    InProgress,
    Done,
}

impl ActorState {
    /// Requests a comparison. An Application that is being deleted is no longer compared; the request retries
    /// its deletion instead.
    pub(super) fn refresh(&mut self, level: RefreshLevel, reply: Reply) {
        self.request_comparison(level);
        self.refresh_waiters.push(RefreshWaiter { reply, state: WaiterState::Waiting });
    }

    /// Assigns the pending requests to the comparison that is starting.
    pub(super) fn assign_refreshes(&mut self) {
        self.move_refreshes(WaiterState::Waiting, WaiterState::InProgress);
    }

    /// Puts the requests of a discarded comparison back in the queue for the next comparison.
    pub(super) fn requeue_refreshes(&mut self) {
        self.move_refreshes(WaiterState::InProgress, WaiterState::Waiting);
    }

    /// Marks the requests that a finished comparison satisfies as done.
    pub(super) fn complete_refreshes(&mut self) {
        self.move_refreshes(WaiterState::InProgress, WaiterState::Done);
    }

    fn move_refreshes(&mut self, from: WaiterState, to: WaiterState) {
        self.refresh_waiters.iter_mut().filter(|one| one.state == from).for_each(|one| one.state = to);
    }

    /// Answers the requests whose comparison was published or is impossible.
    pub(super) fn answer_refreshes(&mut self) {
        if self.refresh_waiters.is_empty() {
            return;
        }
        let cannot = match (refresh::skip_reason(&self.application), &self.problem) {
            (Some(reason), _) => Some(reason),
            (None, Some(problem)) => Some(format!("application {} cannot be compared: {problem}", self.key)),
            (None, None) => None,
        };
        if self.application.is_deleting() && !self.is_deletion_blocked {
            self.refresh_waiters.iter_mut().for_each(|one| one.state = WaiterState::Done);
        }
        for RefreshWaiter { reply, state } in std::mem::take(&mut self.refresh_waiters) {
            match (state, &cannot) {
                (WaiterState::Done, _) => drop(reply.send(Ok(()))),
                (_, Some(reason)) => drop(reply.send(Err(reason.clone()))),
                (state, None) => self.refresh_waiters.push(RefreshWaiter { reply, state }),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
