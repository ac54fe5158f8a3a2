//! Comparisons: when they start, and what their results change.

use std::time::Duration;

use tidegate_model::Timestamp;

use super::{
    ApplicationMachine, ComparisonStart, Effect, FinishedComparison, OperationRelation, RefreshId, World,
};
use crate::comparison::{self, ComparisonOutcome};
use crate::refresh::{self, REFRESH_ANNOTATION, RefreshLevel};
use crate::supersede::ManifestComparison;

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
#[derive(Clone, Copy, Debug)]
struct PendingChange {
    since: Timestamp,
    reason: ChangeReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ChangeReason {
    /// An object has changed. A comparison in progress may already have seen it.
    ObjectChange,
    /// The last comparison was incomplete, so another is needed even if nothing changes.
    Incomplete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaiterState {
    Waiting,
    InProgress,
    Done,
}

/// Requested, running and finished comparisons.
#[derive(Default)]
pub(super) struct ComparisonState {
    pub(super) is_running: bool,
    pub(super) requested_level: Option<RefreshLevel>,
    /// Number of comparisons that have finished since the last sync decision.
    pub(super) undecided: u32,
    /// Number of operations that have finished.
    ended_operations: u64,
    /// True if the results of the last comparison may lack writes of an operation.
    may_lack_writes: bool,
    /// Clients that wait for a comparison. Each is answered once the result of a comparison that started
    /// after the request has been published.
    waiters: Vec<(RefreshId, WaiterState)>,
    pending_change: Option<PendingChange>,
    /// End of the pause during which object changes don't start a comparison.
    quiet_until: Timestamp,
    /// Next time an object's health changes without a watch event.
    next_health_change: Option<Timestamp>,
}

impl ComparisonState {
    /// Returns the state at the start, when a comparison is due: the stored one may be outdated.
    pub(super) fn starting() -> Self {
        Self { requested_level: Some(RefreshLevel::Latest), ..Self::default() }
    }

    /// Records that an operation has finished. Earlier comparisons don't include its effects.
    pub(super) fn record_operation_end(&mut self) {
        self.ended_operations = self.ended_operations.wrapping_add(1);
        self.undecided = 0;
        self.may_lack_writes = true;
    }

    fn move_waiters(&mut self, from: WaiterState, to: WaiterState) {
        self.waiters.iter_mut().filter(|(_, state)| *state == from).for_each(|(_, state)| *state = to);
    }
}

impl ApplicationMachine {
    pub(super) fn request_comparison(&mut self, level: RefreshLevel) {
        self.comparison.requested_level = self.comparison.requested_level.max(Some(level));
    }

    /// Requests a comparison for a client. An application that is being deleted is not compared; the request
    /// retries its deletion instead.
    pub(super) fn refresh(&mut self, level: RefreshLevel, request: RefreshId) {
        self.request_comparison(level);
        self.comparison.waiters.push((request, WaiterState::Waiting));
    }

    /// Answers the requests whose comparison was published or is impossible.
    pub(super) fn answer_refreshes(&mut self) {
        if self.comparison.waiters.is_empty() {
            return;
        }
        let cannot = match (refresh::skip_reason(&self.application), &self.problem) {
            (Some(reason), _) => Some(reason),
            (None, Some(problem)) => Some(format!("application {} cannot be compared: {problem}", self.key)),
            (None, None) => None,
        };
        if self.application.is_deleting() && !self.is_deletion_blocked {
            self.comparison.waiters.iter_mut().for_each(|(_, state)| *state = WaiterState::Done);
        }
        for (request, state) in std::mem::take(&mut self.comparison.waiters) {
            let answer = match (state, &cannot) {
                (WaiterState::Done, _) => Ok(()),
                (_, Some(reason)) => Err(reason.clone()),
                (state, None) => {
                    self.comparison.waiters.push((request, state));
                    continue;
                }
            };
            self.effects.push(Effect::AnswerRefresh { request, answer });
        }
    }

    /// Schedules a single comparison for all changes that occur before it starts.
    pub(super) fn schedule_comparison(&mut self, reason: ChangeReason, world: &dyn World, now: Timestamp) {
        let change = self.comparison.pending_change.get_or_insert(PendingChange { since: now, reason });
        change.reason = change.reason.max(reason);
        self.compare_if_due(world, now);
    }

    /// Requests the scheduled comparison once it is due. That is later while an operation is running, because
    /// objects then change constantly.
    pub(super) fn compare_if_due(&mut self, world: &dyn World, now: Timestamp) {
        // The running comparison may already include the change.
        let change = self.comparison.pending_change.filter(|_| !self.comparison.is_running);
        let Some(PendingChange { since, reason }) = change else { return };
        let delay = if self.has_running_operation() { DEBOUNCE_DELAY_RUNNING } else { DEBOUNCE_DELAY };
        // The clock may have been set back since the change.
        let due = (since.min(now) + delay).max(self.comparison.quiet_until);
        if due > now {
            return self.wake(due);
        }
        self.comparison.pending_change = None;
        if reason == ChangeReason::Incomplete || world.has_unread_changes(&self.key) {
            self.request_comparison(RefreshLevel::Recent);
        }
    }

    /// Requests a comparison when an object's grace period expires, which no watch event reports.
    pub(super) fn compare_changed_health(&mut self, now: Timestamp) {
        match self.comparison.next_health_change {
            Some(at) if at <= now => {
                self.comparison.next_health_change = None;
                self.request_comparison(RefreshLevel::Recent);
            }
            Some(at) => self.wake(at),
            None => {}
        }
    }

    /// Compares when the deletion starts to wait for other applications. Until then, results are discarded.
    pub(super) fn compare_blocked_deletion(&mut self, is_held: bool, world: &dyn World, now: Timestamp) {
        let is_blocked = is_held && self.application.is_deleting();
        let was_blocked = std::mem::replace(&mut self.is_deletion_blocked, is_blocked);
        if !is_blocked {
            return;
        }
        if !was_blocked {
            let has_waiters = !self.comparison.waiters.is_empty();
            self.request_comparison(if has_waiters { RefreshLevel::Forced } else { RefreshLevel::Latest });
        }
        self.start_comparison(world, now);
    }

    pub(super) fn start_comparison(&mut self, world: &dyn World, now: Timestamp) {
        if self.comparison.is_running || self.problem.is_some() || refresh::is_skipped(&self.application) {
            return;
        }
        let requested = self.comparison.requested_level;
        let Some(level) =
            refresh::due_refresh(&self.application, requested, now, self.settings.refresh_interval)
        else {
            return;
        };
        if world.unknown_cluster_reason(&self.application).is_some() {
            // Wait until the cluster has responded or failed to respond.
            return;
        }
        // The comparison includes all changes reported before it started.
        self.comparison.requested_level = None;
        self.comparison.pending_change = None;
        self.comparison.is_running = true;
        self.comparison.move_waiters(WaiterState::Waiting, WaiterState::InProgress);
        self.effects.push(Effect::Compare(Box::new(ComparisonStart {
            compared_to: refresh::compared_to(&self.application),
            level,
            refresh_annotation: self.application.annotation(REFRESH_ANNOTATION).map(str::to_owned),
            newest_deployment: self.deployments.newest.clone(),
            ended_operations: self.comparison.ended_operations,
            may_reuse_results: !self.comparison.may_lack_writes,
        })));
    }

    /// Applies the result of a comparison, and schedules the next one if there were more changes.
    pub(super) fn finish_comparison(
        &mut self,
        finished: FinishedComparison,
        world: &dyn World,
        now: Timestamp,
    ) {
        let FinishedComparison { start, began_at, outcome, operation_relation, .. } = finished;
        let pause = now.since(began_at).saturating_mul(PAUSE_FACTOR).max(PAUSE_MIN);
        let has_failed = matches!(outcome, ComparisonOutcome::Failed { .. });
        let is_unsure = !has_failed && operation_relation.newest == ManifestComparison::Unknown;
        // No event reports that access was granted or that the log became readable again.
        let again = (finished.is_access_denied || is_unsure).then_some(AGAIN_AFTER);
        self.comparison.quiet_until = now + again.unwrap_or(pause);
        self.comparison.is_running = false;
        self.comparison.may_lack_writes = start.ended_operations != self.comparison.ended_operations
            || self.application.operation.is_some();
        self.apply_outcome(start, outcome, operation_relation, now);
        if let Some(change) = self.comparison.pending_change.as_mut().filter(|_| has_failed) {
            // A change during the comparison may have fixed the cause of the failure.
            change.reason = ChangeReason::Incomplete;
        }
        if again.is_some() {
            self.schedule_comparison(ChangeReason::Incomplete, world, now);
        } else if finished.has_objects && !has_failed && world.has_unread_changes(&self.key) {
            self.schedule_comparison(ChangeReason::ObjectChange, world, now);
        } else {
            self.compare_if_due(world, now);
        }
    }

    fn apply_outcome(
        &mut self,
        start: ComparisonStart,
        outcome: ComparisonOutcome,
        relation: OperationRelation,
        now: Timestamp,
    ) {
        let repeat_at = if refresh::compared_to(&self.application) != start.compared_to {
            // The desired state changed during the comparison.
            Some(RefreshLevel::Forced)
        } else if start.ended_operations != self.comparison.ended_operations {
            // The comparison may have missed the effects of an operation that finished in the meantime.
            Some(start.level)
        } else {
            None
        };
        if let Some(level) = repeat_at {
            self.request_comparison(level);
            return self.comparison.move_waiters(WaiterState::InProgress, WaiterState::Waiting);
        }
        self.comparison.move_waiters(WaiterState::InProgress, WaiterState::Done);
        if self.application.is_deleting() && !self.is_deletion_blocked {
            // The comparison may have observed a partly deleted application.
            return;
        }
        self.comparison.next_health_change = outcome.health_changes_at();
        comparison::apply_comparison(&mut self.application, outcome, start.level, now);
        refresh::complete_refresh(&mut self.application, start.refresh_annotation.as_deref());
        self.comparison.undecided = self.comparison.undecided.saturating_add(1);
        if let Some(namespace) = &self.settings.controller_namespace {
            self.application.status.controller_namespace.clone_from(namespace);
        }
        // The revisions of this comparison replace those from the preparation.
        self.prepared_revisions = None;
        self.mark_plan_stale();
        self.record_operation_comparison(relation);
        (self.deployments.evidence, self.deployments.is_compared) = (start.newest_deployment, true);
    }
}
