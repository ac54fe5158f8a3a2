use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use crate::machine::Outstanding;
use crate::operation::CallError;

/// Delay after the first failed call. Doubles with each further failure.
const CALL_RETRY_DELAY: Duration = Duration::from_millis(500);
/// Maximum delay between two calls. Short, because the calls are cheap and hold up the whole rollout or
/// teardown.
const CALL_RETRY_DELAY_MAX: Duration = Duration::from_secs(15);

/// Consecutive failed calls for one Application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailures {
    /// Number of consecutive failures.
    pub failed: u32,
    /// Earliest time of the next call.
    pub not_before: Option<Timestamp>,
    /// Message of the last failure.
    pub message: String,
}

impl CallFailures {
    /// Returns the retry time for a failed call, or `None` if a retry is already scheduled. The error is then
    /// from an earlier call.
    pub(crate) fn next_retry(&self, error: &CallError, now: Timestamp) -> Option<Timestamp> {
        self.can_call(now)
            .then(|| now + error.retry_delay(CALL_RETRY_DELAY, self.failed, CALL_RETRY_DELAY_MAX))
    }

    /// Adds a call for an Application to the outstanding commands, or a wake-up if the call must wait after a
    /// failure.
    pub(crate) fn schedule_call<C>(&self, call: C, owed: &mut Outstanding<C>, now: Timestamp) {
        match self.not_before.filter(|at| *at > now) {
            Some(at) => owed.request_wake(at, now),
            None => owed.commands.push(call),
        }
    }

    pub(crate) fn record_failure(&mut self, message: &str, retry_at: Timestamp) {
        self.failed = self.failed.saturating_add(1);
        self.not_before = Some(retry_at);
        message.clone_into(&mut self.message);
    }

    fn can_call(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }

    /// Describes the current problem. Empty if there is none.
    pub(crate) fn describe_problem(&self) -> String {
        match self.failed {
            0 => String::new(),
            1 => format!("{}; trying again", self.message),
            times => format!("{} ({times} times); trying again", self.message),
        }
    }
}
