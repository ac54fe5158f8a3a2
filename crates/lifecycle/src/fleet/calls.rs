use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use crate::machine::Owed;
use crate::operation::CallError;

/// Wait after the first failed call; doubled each time.
const CALL_WAIT: Duration = Duration::from_millis(500);
/// Longest wait between two calls. What is asked of the engine's own process or of the API server costs little, and the
/// whole fleet waits.
const CALL_WAIT_MAX: Duration = Duration::from_secs(15);

/// Calls about one member that have failed in a row, and may be made again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// How many.
    pub failed: u32,
    /// When the next may be made.
    pub not_before: Option<Timestamp>,
    /// Why the last one failed.
    pub message: String,
}

impl Calls {
    /// When a call that has just failed is made again; `None` where none may be made, and this is about the one before.
    pub(crate) fn again(&self, error: &CallError, now: Timestamp) -> Option<Timestamp> {
        self.may_call(now).then(|| now + error.wait(CALL_WAIT, self.failed, CALL_WAIT_MAX))
    }

    /// A call about the member is owed, unless one has failed a moment ago: then once it may be made.
    pub(crate) fn owe<C>(&self, call: C, owed: &mut Owed<C>, now: Timestamp) {
        match self.not_before.filter(|at| *at > now) {
            Some(at) => owed.wake(at, now),
            None => owed.commands.push(call),
        }
    }

    /// One more has failed.
    pub(crate) fn fail(&mut self, message: &str, retry_at: Timestamp) {
        self.failed = self.failed.saturating_add(1);
        self.not_before = Some(retry_at);
        message.clone_into(&mut self.message);
    }

    fn may_call(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }

    /// What keeps going wrong, in words; empty when nothing does.
    pub(crate) fn trouble(&self) -> String {
        match self.failed {
            0 => String::new(),
            1 => format!("{}; trying again", self.message),
            times => format!("{} ({times} times); trying again", self.message),
        }
    }
}
