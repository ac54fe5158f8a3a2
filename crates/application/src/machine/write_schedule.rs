//! Writes of the application's state to the store: when they are due, and what their failures change.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::argo::{Application, ConditionType, OperationRequest, SyncStatusCode};
use tidegate_model::{OperationId, Timestamp};

use super::{ApplicationMachine, Phase, RETRY_DELAY};
use crate::refresh::{self, REFRESH_ANNOTATION};
use crate::{approval, conditions, operation, supersede};

/// Minimum interval between writes while no client is waiting. The interval is [`WRITE_INTERVAL_FACTOR`]
/// times the duration of the last write, up to [`WRITE_INTERVAL_MAX`], so that a busy server isn't
/// overloaded.
const WRITE_INTERVAL_MIN: Duration = Duration::from_secs(1);
const WRITE_INTERVAL_FACTOR: u32 = 30;
const WRITE_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Maximum time to hold back a write while a comparison or a starting operation is about to change more.
const PENDING_CHANGE_DELAY_MAX: Duration = Duration::from_millis(500);
/// Delay for writes that only record a newer commit. A push affects many applications but changes only a few
/// of them.
const NEWER_COMMIT_DELAY: Duration = Duration::from_secs(5);
/// Condition type for failed writes. The condition is published but not persisted.
const FAILED_WRITE_CONDITION: &str = "StatusWriteError";

/// Condition type for repeated writes to the status by other clients.
pub const OVERWRITTEN_CONDITION: &str = "StatusOverwrittenWarning";
/// Number of overwrites that count as a conflict.
pub const CONFLICT_OVERWRITES: u32 = 5;
/// Maximum time between two overwrites of a conflict, and the minimum interval between restores during one.
const CONFLICT_WINDOW: Duration = Duration::from_secs(120);
const RESTORE_INTERVAL: Duration = Duration::from_secs(30);

/// Overwrites of the persisted state by other clients.
#[derive(Default)]
struct OverwriteTracker {
    /// True if the state hasn't been restored yet.
    is_restore_due: bool,
    /// Number of consecutive overwrites, and the time of the most recent overwrite.
    count: u32,
    last_at: Timestamp,
}

impl OverwriteTracker {
    fn is_conflict(&self, now: Timestamp) -> bool {
        self.count >= CONFLICT_OVERWRITES && now < self.last_at + CONFLICT_WINDOW
    }
}

/// State that could not be written.
struct FailedWrite {
    reason: String,
    /// Time of the first and of the most recent consecutive failure.
    since: Timestamp,
    last_attempt: Timestamp,
    /// Operation at the time of the failure. If it changes, the write is retried immediately.
    operation: Option<OperationRequest>,
}

/// Write in progress.
struct CurrentWrite {
    state: Arc<Application>,
    started_at: Timestamp,
    /// True if the write restores state that another client has overwritten.
    is_restore: bool,
}

/// The stored state, and what is known about writes.
#[derive(Default)]
pub(super) struct WriteSchedule {
    /// Last persisted state, and when it was persisted.
    persisted: Option<Arc<Application>>,
    persisted_at: Timestamp,
    /// Duration of the last write.
    write_duration: Duration,
    /// Time of the oldest unpersisted change. With `is_urgent` set, the write must not be delayed.
    unpersisted_since: Option<Timestamp>,
    is_urgent: bool,
    current: Option<CurrentWrite>,
    failed: Option<FailedWrite>,
    overwrites: OverwriteTracker,
    /// Operation that has been persisted together with its ID.
    pub(super) durable_operation: Option<OperationId>,
}

/// Decision about the state that isn't stored yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteDecision {
    /// The stored state is current.
    Current,
    /// The change need not be stored yet.
    Delayed,
    /// The last write failed recently and is retried later. Contains the reason.
    Failed(String),
    /// The state must be stored now.
    Write,
}

/// Change of a failure to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteChange {
    /// Nothing has changed.
    None,
    /// Writes fail for this new reason.
    Failing(String),
    /// Writes succeed again.
    Recovered,
}

impl WriteSchedule {
    pub(super) fn new(durable_operation: Option<OperationId>) -> Self {
        Self { durable_operation, ..Self::default() }
    }

    pub(super) fn set_urgent(&mut self) {
        self.is_urgent = true;
    }

    pub(super) fn forget_stored(&mut self) {
        self.persisted = None;
    }

    fn handle_success(&mut self) {
        self.is_urgent = false;
        self.unpersisted_since = None;
    }
}

/// Returns true if the write can be delayed: the operation is unchanged, was removed, or may get lost in a
/// crash.
fn can_write_be_delayed(written: Option<&OperationRequest>, request: Option<&OperationRequest>) -> bool {
    written == request || request.is_none_or(is_repeatable)
}

/// Returns true if a crash may lose the operation, because the application would simply request it again. An
/// operation with a plan must not get lost, because the plan may have been approved.
fn is_repeatable(request: &OperationRequest) -> bool {
    let is_bare = operation::engine_id(request).is_none() && approval::requested_plan(request).is_none();
    request.initiated_by.automated && is_bare && supersede::successor_of(request).is_none()
}

/// Returns true if the two states differ only in the commit that the application is in sync with.
fn differs_only_in_commit(known: &Application, now: &Application) -> bool {
    let (Some(before), Some(after)) = (&known.status.sync, &now.status.sync) else { return false };
    if after.status != SyncStatusCode::Synced || before.status != after.status {
        return false;
    }
    let mut known = known.clone();
    known.status.sync.clone_from(&now.status.sync);
    known == *now && before.compared_to == after.compared_to
}

/// Removes the condition about failed writes from a published state that a new actor takes over.
pub fn remove_write_condition(application: &mut Application) {
    application.status.conditions.retain(|one| one.kind.to_string() != FAILED_WRITE_CONDITION);
}

impl ApplicationMachine {
    /// Returns true if the published state must still be stored.
    pub fn is_unpersisted(&self) -> bool {
        self.writes.unpersisted_since.is_some()
    }

    /// Returns the last persisted state.
    pub fn persisted(&self) -> Option<&Arc<Application>> {
        self.writes.persisted.as_ref()
    }

    /// Decides whether to store the current state now. If not, sets an alarm for the time at which it is due.
    pub fn decide_write(&mut self, now: Timestamp) -> WriteDecision {
        let is_persisted = self
            .writes
            .persisted
            .as_ref()
            .is_some_and(|persisted| self.application.share_if_equal(persisted));
        if is_persisted && !self.should_restore() {
            self.writes.handle_success();
            return WriteDecision::Current;
        }
        if let Some(failed) = &self.writes.failed
            && failed.operation == self.application.operation
            && now < failed.last_attempt + RETRY_DELAY
        {
            let (due, reason) = (failed.last_attempt + RETRY_DELAY, failed.reason.clone());
            self.wake(due);
            return WriteDecision::Failed(reason);
        }
        self.delay_write(now).unwrap_or(WriteDecision::Write)
    }

    /// Returns the decision if the state need not be stored now.
    fn delay_write(&mut self, now: Timestamp) -> Option<WriteDecision> {
        let is_restore_due = self.should_restore();
        let writes = &mut self.writes;
        let request = self.application.operation.as_ref();
        let may_be_late =
            |persisted: &&mut Arc<Application>| can_write_be_delayed(persisted.operation.as_ref(), request);
        let persisted = writes.persisted.as_mut().filter(|_| !writes.is_urgent).filter(may_be_late)?;
        let is_refreshed = |one: &Application| one.annotation(REFRESH_ANNOTATION).is_some();
        let is_awaited = is_restore_due
            || persisted.operation.as_ref() != request
            || is_refreshed(persisted) != is_refreshed(&self.application);
        let is_change_imminent = self.comparison.is_running
            || self.phase == Phase::Preparing
            || request.is_some_and(is_repeatable);
        // A comparison that found no changes isn't worth a separate write.
        let mut known = Application::clone(persisted);
        known.status.reconciled_at = self.application.status.reconciled_at;
        let is_same = known == *self.application;
        if is_same && !is_restore_due {
            writes.persisted = Some(self.application.share());
            writes.handle_success();
            return Some(WriteDecision::Current);
        }
        let is_newer_and_same = differs_only_in_commit(&known, &self.application);
        *persisted = Arc::new(known);
        let since = *writes.unpersisted_since.get_or_insert(now);
        let interval = match is_same && writes.overwrites.is_conflict(now) {
            true => RESTORE_INTERVAL,
            false if is_awaited => WRITE_INTERVAL_MIN,
            false => writes
                .write_duration
                .saturating_mul(WRITE_INTERVAL_FACTOR)
                .clamp(WRITE_INTERVAL_MIN, WRITE_INTERVAL_MAX),
        };
        // The clock may have been set back since these times were recorded.
        let (since, persisted_at) = (since.min(now), writes.persisted_at.min(now));
        let mut due = persisted_at + interval;
        if is_change_imminent {
            due = due.max(since + PENDING_CHANGE_DELAY_MAX);
        }
        if is_newer_and_same && !is_restore_due {
            due = due.max(since + NEWER_COMMIT_DELAY);
        }
        if now >= due {
            return None;
        }
        self.wake(due);
        Some(WriteDecision::Delayed)
    }

    /// Returns the state to write, and records that the write has started.
    pub fn start_write(&mut self, now: Timestamp) -> Arc<Application> {
        let state = self.application.share();
        let is_restore = std::mem::take(&mut self.writes.overwrites.is_restore_due);
        self.writes.current = Some(CurrentWrite { state: Arc::clone(&state), started_at: now, is_restore });
        state
    }

    /// Records that a write takes long. It is checked again at `check_at`.
    pub fn record_slow_write(&mut self, now: Timestamp, check_at: Timestamp) {
        self.writes.unpersisted_since.get_or_insert(now);
        self.wake(check_at);
    }

    /// Records the result of the write in progress.
    pub fn finish_write(&mut self, result: Result<(), String>, now: Timestamp) -> WriteChange {
        let Some(CurrentWrite { state, started_at, is_restore }) = self.writes.current.take() else {
            return WriteChange::None;
        };
        match result {
            Ok(()) => {
                self.writes.persisted_at = now;
                self.writes.write_duration = now.since(started_at);
                self.writes.durable_operation = state.operation.as_ref().and_then(operation::engine_id);
                if self.application.share_if_equal(&state) {
                    self.writes.handle_success();
                }
                self.writes.persisted = Some(state);
                self.clear_write_failure()
            }
            Err(reason) => {
                self.writes.overwrites.is_restore_due |= is_restore;
                self.wake(now + RETRY_DELAY);
                let before = self.writes.failed.take();
                let is_new = before.as_ref().is_none_or(|before| before.reason != reason);
                self.writes.failed = Some(FailedWrite {
                    reason: reason.clone(),
                    since: before.map_or(now, |before| before.since),
                    last_attempt: now,
                    operation: state.operation.clone(),
                });
                if is_new { WriteChange::Failing(reason) } else { WriteChange::None }
            }
        }
    }

    /// Records that the stored state is current again.
    pub fn clear_write_failure(&mut self) -> WriteChange {
        match self.writes.failed.take() {
            Some(_) => WriteChange::Recovered,
            None => WriteChange::None,
        }
    }

    /// Records that another client has overwritten the persisted state.
    pub fn record_overwrite(&mut self, now: Timestamp) {
        let overwrites = &mut self.writes.overwrites;
        let count = if now < overwrites.last_at + CONFLICT_WINDOW { overwrites.count } else { 0 };
        *overwrites = OverwriteTracker { is_restore_due: true, count: count.saturating_add(1), last_at: now };
    }

    /// Returns true if overwritten state must be restored now. Overwrites are accepted while the application
    /// isn't reconciled.
    fn should_restore(&self) -> bool {
        self.writes.overwrites.is_restore_due
            && (self.has_running_operation() || !refresh::is_skipped(&self.application))
    }

    /// Sets the condition that reports other clients writing to the status.
    pub(super) fn update_overwrite_condition(&mut self, now: Timestamp) {
        let is_conflict = self.writes.overwrites.is_conflict(now);
        let text = is_conflict.then(|| {
            format!(
                "another client keeps overwriting the application's status, which Tidegate restores at most \
                 every {} s: only one controller may manage an application; metadata.managedFields names \
                 the other client",
                RESTORE_INTERVAL.as_secs()
            )
        });
        self.set_condition(OVERWRITTEN_CONDITION, text.as_slice(), now);
        if is_conflict {
            self.wake(self.writes.overwrites.last_at + CONFLICT_WINDOW);
        }
    }

    /// Returns the current state for publication, including the condition that reports a failed write.
    pub fn published_state(&self) -> Arc<Application> {
        let Some(FailedWrite { reason, since, .. }) = &self.writes.failed else {
            return self.application.share();
        };
        let mut shown = Application::clone(&self.application);
        let begins = match (&self.application.operation, self.operation_id()) {
            (None, _) => "; no operation starts until the status is stored",
            (Some(_), Some(id)) if self.writes.durable_operation == Some(id) => "",
            _ => "; the requested operation starts when the status is stored",
        };
        let message = format!(
            "cannot store the application's status, so other clients see an outdated status: {reason}; retrying \
             every {} s{begins}",
            RETRY_DELAY.as_secs()
        );
        let kind = ConditionType::Other(FAILED_WRITE_CONDITION.to_owned());
        conditions::set_conditions(
            &mut shown.status.conditions,
            std::slice::from_ref(&kind),
            [(kind.clone(), message)],
            *since,
        );
        Arc::new(shown)
    }

    /// Shares the published state's memory if it is equal to the current state. Returns true if it is.
    pub fn is_published(&mut self, published: &Arc<Application>) -> bool {
        let is_equal = self.application.share_if_equal(published);
        match self.writes.failed {
            None => is_equal,
            Some(_) => *published == self.published_state(),
        }
    }
}
