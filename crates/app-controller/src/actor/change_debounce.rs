//! Debounce for object changes that start comparisons.

use std::time::Duration;

use ractor::ActorRef;
use tidegate_application::comparison::ComparisonOutcome;
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::supersede::ManifestComparison;
use tidegate_model::Timestamp;

use super::ActorState;
use crate::comparison_result::{ComparisonResult, ComparisonStart};
use crate::messages::AppMessage;

/// Delay after the first change, to batch the changes that follow.
const DEBOUNCE_DELAY: Duration = Duration::from_millis(200);
/// Longer delay while an operation is running, since a comparison follows anyway when it finishes.
const DEBOUNCE_DELAY_RUNNING: Duration = Duration::from_secs(5);
/// Minimum pause between comparisons while objects keep changing, as a multiple of the last comparison's
/// duration, and its lower bound. It keeps rollouts visible without overloading the cluster.
const PAUSE_FACTOR: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Delay before comparing again after the cluster denied a read, or after the comparison with the running
/// operation's manifests failed.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Reason for the next comparison, and the time of the first change.
#[derive(Clone, Copy)]
pub(super) struct PendingChange {
    since: Timestamp,
    reason: ChangeReason,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChangeReason {
    /// An object has changed. A comparison in progress may already have seen it.
    ObjectChange,
    /// The last comparison was incomplete, so another comparison is needed even if nothing changes.
    Incomplete,
}

impl ActorState {
    /// Schedules a single comparison for all changes that occur before it starts.
    pub(super) fn schedule_comparison(&mut self, myself: &ActorRef<AppMessage>, reason: ChangeReason) {
        let since = self.now();
        let stirred = self.pending_change.get_or_insert(PendingChange { since, reason });
        stirred.reason = stirred.reason.max(reason);
        self.compare_if_due(myself);
    }

    /// Requests the scheduled comparison once it is due. That is later while an operation is running, because
    /// objects then change constantly.
    pub(super) fn compare_if_due(&mut self, myself: &ActorRef<AppMessage>) {
        // The running comparison may already include the change.
        let Some(PendingChange { since, reason }) = self.pending_change.filter(|_| !self.is_comparing) else {
            return;
        };
        let now = self.now();
        let together = if self.has_running_operation() { DEBOUNCE_DELAY_RUNNING } else { DEBOUNCE_DELAY };
        // The clock may have been set back since the change.
        let due = (since.min(now) + together).max(self.quiet_until);
        if due > now {
            self.set_alarm(myself, due);
            return;
        }
        self.pending_change = None;
        if reason == ChangeReason::Incomplete || self.shared.watches.has_unread_changes(&self.key) {
            self.request_comparison(RefreshLevel::Recent);
        }
    }

    /// Requests a comparison when an object's grace period expires, which no watch event reports.
    pub(super) fn compare_changed_health(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        match self.next_health_change {
            Some(at) if at <= now => {
                self.next_health_change = None;
                self.request_comparison(RefreshLevel::Recent);
            }
            Some(at) => self.set_alarm(myself, at),
            None => {}
        }
    }

    /// Handles the result of a comparison, and schedules the next comparison if there were more changes.
    pub(super) fn finish_comparison(
        &mut self,
        myself: &ActorRef<AppMessage>,
        compared: ComparisonResult,
        start: ComparisonStart,
        began: Timestamp,
    ) {
        let now = self.now();
        let rest = now.since(began).saturating_mul(PAUSE_FACTOR).max(PAUSE_MIN);
        let has_failed = matches!(compared.outcome, ComparisonOutcome::Failed { .. });
        let is_unsure = !has_failed && compared.operation_relation.newest == ManifestComparison::Unknown;
        // No event reports that access was granted or that the log became readable again.
        let again = (compared.is_access_denied || is_unsure).then_some(AGAIN_AFTER);
        self.quiet_until = now + again.unwrap_or(rest);
        let is_read = compared.objects.is_some();
        self.handle_comparison(compared, start);
        if let Some(stirred) = self.pending_change.as_mut().filter(|_| has_failed) {
            // A change during the comparison may have fixed the cause of the failure.
            stirred.reason = ChangeReason::Incomplete;
        }
        if again.is_some() {
            self.schedule_comparison(myself, ChangeReason::Incomplete);
        } else if is_read && !has_failed && self.shared.watches.has_unread_changes(&self.key) {
            self.schedule_comparison(myself, ChangeReason::ObjectChange);
        } else {
            self.compare_if_due(myself);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests;
