//! Persistence of an Application's state, and handling of failed writes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use ractor::ActorRef;
use tidegate_application::AppKey;
use tidegate_application::refresh::REFRESH_ANNOTATION;
use tidegate_application::{approval, conditions, operation, refresh, supersede};
use tidegate_executor::EngineError;
use tidegate_model::argo::{Application, ConditionType, OperationRequest, SyncStatusCode};
use tidegate_model::{OperationId, OperationPhase, Timestamp};
use tidegate_stores::applications::ExternalTermination;
use tokio::task::JoinHandle;

use super::{ActorState, RETRY_DELAY};
use crate::messages::AppMessage;
use crate::shared_state::SharedState;
use crate::status_log;

/// Minimum interval between writes while no client is waiting. The interval is [`WRITE_INTERVAL_FACTOR`]
/// times the duration of the last write, up to [`WRITE_INTERVAL_MAX`], so that a busy server isn't
/// overloaded.
const WRITE_INTERVAL_MIN: Duration = Duration::from_secs(1);
const WRITE_INTERVAL_FACTOR: u32 = 30;
const WRITE_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Maximum time that work waits for a write it doesn't depend on.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Maximum time to hold back a write while a comparison or a starting operation is about to change more.
const PENDING_CHANGE_DELAY_MAX: Duration = Duration::from_millis(500);
/// Delay for writes that only record a newer commit. A push affects many Applications but changes only a few
/// of them.
const NEWER_COMMIT_DELAY: Duration = Duration::from_secs(5);
/// Maximum number of concurrent writes during shutdown, and the time limit for all of them together.
const CONCURRENT_WRITES_MAX: usize = 16;
const FINAL_WRITES_TIMEOUT: Duration = Duration::from_secs(5);
/// Condition type for failed writes. The condition is published but not persisted.
const FAILED_WRITE_CONDITION: &str = "StatusWriteError";

/// Condition type for repeated writes to the status by other clients.
const OVERWRITTEN_CONDITION: &str = "StatusOverwrittenWarning";
/// Number of overwrites that count as a conflict, the maximum time between two of them, and the minimum
/// interval between restores during a conflict.
const CONFLICT_OVERWRITES: u32 = 5;
const CONFLICT_WINDOW: Duration = Duration::from_secs(120);
const RESTORE_INTERVAL: Duration = Duration::from_secs(30);

/// Overwrites of the persisted state by other clients.
#[derive(Default)]
pub(super) struct OverwriteTracker {
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
pub(super) struct FailedWrite {
    reason: String,
    /// Time of the first and of the most recent consecutive failure.
    since: Timestamp,
    last_attempt: Timestamp,
    /// Operation at the time of the failure. If it changes, the write is retried immediately.
    operation: Option<OperationRequest>,
}

/// Write in progress. Dropping it aborts the write.
pub(super) struct PendingWrite {
    task: JoinHandle<Result<(), String>>,
    state: Arc<Application>,
    started_at: Timestamp,
    /// True if the write restores state that another client has overwritten.
    is_restore: bool,
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns true if the write can be delayed: the operation is unchanged, was removed, or may get lost in a
/// crash.
fn can_write_be_delayed(written: Option<&OperationRequest>, request: Option<&OperationRequest>) -> bool {
    written == request || request.is_none_or(is_repeatable)
}

/// Returns true if a crash may lose the operation, because the Application would simply request it again. An
/// operation with a plan must not get lost, because the plan may have been approved.
fn is_repeatable(request: &OperationRequest) -> bool {
    let is_bare = operation::engine_id(request).is_none() && approval::requested_plan(request).is_none();
    request.initiated_by.automated && is_bare && supersede::successor_of(request).is_none()
}

/// Returns true if the two states differ only in the commit that the Application is in sync with.
fn differs_only_in_commit(known: &Application, now: &Application) -> bool {
    let (Some(before), Some(after)) = (&known.status.sync, &now.status.sync) else { return false };
    if after.status != SyncStatusCode::Synced || before.status != after.status {
        return false;
    }
    let mut known = known.clone();
    known.status.sync.clone_from(&now.status.sync);
    known == *now && before.compared_to == after.compared_to
}

/// Operation to stop because its phase in the status is `Terminating`. `None` if it has no ID because it
/// hasn't started.
pub(super) struct RequestedEnd(Option<OperationId>);

/// Returns the requested operation if its phase in the status is `Terminating`.
pub(super) fn requested_end(application: &Application) -> Option<RequestedEnd> {
    let request = operation::engine_id(application.operation.as_ref()?);
    let state = application.status.operation_state.as_ref()?;
    // A status from before the operation started has no ID.
    let current = operation::engine_id(&state.operation);
    let is_to_end = state.phase == OperationPhase::Terminating
        && state.finished_at.is_none()
        && (current.is_none() || current == request);
    is_to_end.then_some(RequestedEnd(request))
}

/// Removes the condition about failed writes from a published state that a new actor takes over.
pub(super) fn remove_write_condition(application: &mut Application) {
    application.status.conditions.retain(|one| one.kind.to_string() != FAILED_WRITE_CONDITION);
}

/// Persists the remaining published state after all actors have stopped. Anything not written before the
/// timeout is restored from the log at the next start.
pub async fn persist_remaining(shared: &SharedState) {
    shared.store.await_writes().await;
    let left = shared.unpersisted.take();
    let write = |key: AppKey| async move {
        let Some(shown) = shared.application_cache.get(&key) else { return };
        let mut application = Application::clone(&shown);
        remove_write_condition(&mut application);
        if let Err(error) = shared.store.persist(&application).await {
            tracing::debug!(application = %key, %error, "failed to store the last status of an application");
        }
    };
    let writing = futures_util::stream::iter(left).for_each_concurrent(CONCURRENT_WRITES_MAX, write);
    if tokio::time::timeout(FINAL_WRITES_TIMEOUT, writing).await.is_err() {
        tracing::info!("timed out while storing the status of applications");
    }
}

impl ActorState {
    /// Publishes changes, and persists them at most once per second. Changes to the operation are persisted
    /// immediately, before it starts. A failed write is published with its reason and retried later. A slow
    /// write continues in the background and holds up only other writes and work that depends on it.
    pub(super) async fn persist(&mut self, myself: &ActorRef<AppMessage>) -> Result<(), String> {
        self.persist_within(myself, Some(WRITE_WAIT_MAX)).await
    }

    /// Publishes and persists changes however long it takes, because a caller is waiting for the result.
    pub(super) async fn persist_now(&mut self, myself: &ActorRef<AppMessage>) -> Result<(), String> {
        self.persist_within(myself, None).await
    }

    async fn persist_within(
        &mut self,
        myself: &ActorRef<AppMessage>,
        patience: Option<Duration>,
    ) -> Result<(), String> {
        // If an earlier write is already slow, don't wait for it again.
        self.await_write(patience.map(|_| Duration::ZERO)).await;
        if self.pending_write.is_some() {
            self.publish();
            return Err(self.write_timeout_error(myself));
        }
        let is_persisted =
            self.persisted.as_ref().is_some_and(|persisted| self.application.share_if_equal(persisted));
        if is_persisted && !self.should_restore() {
            self.handle_write_success();
            self.record_write_result(None);
            if self.published_deployments != self.deployments {
                self.publish();
            }
            return Ok(());
        }
        if let Some(unkept) = &self.failed_write
            && unkept.operation == self.application.operation
            && self.now() < unkept.last_attempt + RETRY_DELAY
        {
            let (due, reason) = (unkept.last_attempt + RETRY_DELAY, unkept.reason.clone());
            self.publish();
            self.set_alarm(myself, due);
            return Err(reason);
        }
        self.publish();
        if self.can_write_wait(myself) {
            return Ok(());
        }
        self.start_write();
        let written = self.await_write(patience).await;
        if let Some(Err(_)) = &written {
            self.set_alarm(myself, self.now() + RETRY_DELAY);
        }
        written.unwrap_or_else(|| Err(self.write_timeout_error(myself)))
    }

    fn write_timeout_error(&mut self, myself: &ActorRef<AppMessage>) -> String {
        let now = self.now();
        self.unpersisted_since.get_or_insert(now);
        self.shared.unpersisted.add(&self.key);
        self.set_alarm(myself, now + WRITE_WAIT_MAX);
        "its status is being stored".to_owned()
    }

    fn start_write(&mut self) {
        let (store, state) = (Arc::clone(&self.shared.store), self.application.share());
        let written = Arc::clone(&state);
        let task =
            tokio::spawn(async move { store.persist(&written).await.map_err(|error| error.to_string()) });
        let is_restore = std::mem::take(&mut self.overwrites.is_restore_due);
        self.pending_write = Some(Box::new(PendingWrite { task, state, started_at: self.now(), is_restore }));
    }

    /// Waits up to `patience` for the write in progress and handles its result. Returns `None` if there is no
    /// write or it hasn't finished in time.
    pub(super) async fn await_write(&mut self, patience: Option<Duration>) -> Option<Result<(), String>> {
        let writing = self.pending_write.as_mut()?;
        let ended = match patience {
            Some(patience) => tokio::time::timeout(patience, &mut writing.task).await.ok()?,
            None => (&mut writing.task).await,
        };
        let writing = self.pending_write.take()?;
        let written = ended.unwrap_or_else(|fault| match fault.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err("the write was interrupted".to_owned()),
        });
        let now = self.now();
        self.record_write_result(
            written.as_ref().err().map(|reason| (reason.clone(), writing.state.operation.clone())),
        );
        match &written {
            Ok(()) => {
                (self.persisted_at, self.write_duration) = (now, now.since(writing.started_at));
                self.durable_operation = writing.state.operation.as_ref().and_then(operation::engine_id);
                if self.application.share_if_equal(&writing.state) {
                    self.handle_write_success();
                }
                self.persisted = Some(Arc::clone(&writing.state));
            }
            Err(_) => self.overwrites.is_restore_due |= writing.is_restore,
        }
        Some(written)
    }

    /// Schedules the write and returns true if it can be delayed.
    fn can_write_wait(&mut self, myself: &ActorRef<AppMessage>) -> bool {
        let (is_put_back, now) = (self.should_restore(), self.now());
        let request = self.application.operation.as_ref();
        let may_be_late =
            |persisted: &&mut Arc<Application>| can_write_be_delayed(persisted.operation.as_ref(), request);
        let Some(persisted) = self.persisted.as_mut().filter(|_| !self.is_urgent).filter(may_be_late) else {
            return false;
        };
        let is_refreshed = |one: &Application| one.annotation(REFRESH_ANNOTATION).is_some();
        let is_awaited = is_put_back
            || persisted.operation.as_ref() != request
            || is_refreshed(persisted) != is_refreshed(&self.application);
        let is_write_imminent = self.is_comparing || self.is_preparing || request.is_some_and(is_repeatable);
        // A comparison that found no changes isn't worth a separate write.
        let mut known = Application::clone(persisted);
        known.status.reconciled_at = self.application.status.reconciled_at;
        let is_same = known == *self.application;
        if is_same && !is_put_back {
            self.persisted = Some(self.application.share());
            self.handle_write_success();
            self.record_write_result(None);
            return true;
        }
        let is_newer_and_same = differs_only_in_commit(&known, &self.application);
        *persisted = Arc::new(known);
        let since = *self.unpersisted_since.get_or_insert(now);
        let every = match is_same && self.overwrites.is_conflict(now) {
            true => RESTORE_INTERVAL,
            false if is_awaited => WRITE_INTERVAL_MIN,
            false => self
                .write_duration
                .saturating_mul(WRITE_INTERVAL_FACTOR)
                .clamp(WRITE_INTERVAL_MIN, WRITE_INTERVAL_MAX),
        };
        // The clock may have been set back since these times were recorded.
        let (since, persisted_at) = (since.min(now), self.persisted_at.min(now));
        let mut due = persisted_at + every;
        if is_write_imminent {
            due = due.max(since + PENDING_CHANGE_DELAY_MAX);
        }
        if is_newer_and_same && !is_put_back {
            due = due.max(since + NEWER_COMMIT_DELAY);
        }
        let is_early = now < due;
        if is_early {
            self.shared.unpersisted.add(&self.key);
            self.set_alarm(myself, due);
        }
        is_early
    }

    fn handle_write_success(&mut self) {
        self.is_urgent = false;
        if self.unpersisted_since.take().is_some() {
            self.shared.unpersisted.remove(&self.key);
        }
    }

    /// Restores the state after another client has overwritten it. If that client set the operation's phase
    /// to `Terminating`, also stops the operation.
    pub(super) async fn handle_overwrite(&mut self, ended: Option<ExternalTermination>) {
        let now = self.now();
        let times = if now < self.overwrites.last_at + CONFLICT_WINDOW { self.overwrites.count } else { 0 };
        self.overwrites =
            OverwriteTracker { is_restore_due: true, count: times.saturating_add(1), last_at: now };
        let Some(ExternalTermination { operation }) = ended else { return };
        if self.application.operation.is_none() || operation.is_some() && operation != self.operation_id() {
            return;
        }
        let by = self.shared.store.writer_of_phase(&self.key).await;
        self.end_operation(&by.unwrap_or_else(|| "the client that set the Terminating phase".to_owned()))
            .await;
    }

    /// Stops the operation if another client set its phase to `Terminating` while the service was down. If
    /// the log already records the termination, the engine stops it.
    pub(super) async fn end_as_recorded(&mut self, RequestedEnd(meant): RequestedEnd) {
        let is_meant = self.operation_id().is_none_or(|id| Some(id) == meant);
        if self.application.operation.is_some()
            && is_meant
            && let Some(by) = self.shared.store.writer_of_phase(&self.key).await
        {
            self.end_operation(&by).await;
        }
    }

    async fn end_operation(&mut self, by: &str) {
        if let Err(problem) = self.terminate_current(by).await {
            tracing::warn!(application = %self.key, problem, by, "failed to terminate an operation");
        }
    }

    /// Returns true if overwritten state must be restored now. Overwrites are accepted while the Application
    /// isn't reconciled.
    fn should_restore(&self) -> bool {
        self.overwrites.is_restore_due
            && (self.has_running_operation() || !refresh::is_skipped(&self.application))
    }

    /// Sets the condition that reports other clients writing to the status.
    pub(super) fn update_overwrite_condition(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        let is_fight = self.overwrites.is_conflict(now);
        let text = is_fight.then(|| {
            format!(
                "another client keeps overwriting the application's status, which Tidegate restores at most \
                 every {} s: only one controller may manage an application; metadata.managedFields names \
                 the other client",
                RESTORE_INTERVAL.as_secs()
            )
        });
        self.set_condition(OVERWRITTEN_CONDITION, text.as_slice(), now);
        if is_fight {
            self.set_alarm(myself, self.overwrites.last_at + CONFLICT_WINDOW);
        }
    }

    /// Records and publishes the result of the last write. If it failed, `wrong` is the error and the
    /// operation that was being written.
    fn record_write_result(&mut self, wrong: Option<(String, Option<OperationRequest>)>) {
        let now = self.now();
        let before = self.failed_write.take();
        let Some((reason, operation)) = wrong else {
            if before.is_some() {
                tracing::info!(application = %self.key, "application status is being saved again");
                self.publish();
            }
            return;
        };
        let is_new = before.as_ref().is_none_or(|before| before.reason != reason);
        if is_new {
            tracing::error!(application = %self.key, problem = reason, "failed to save the status of an application");
        }
        let since = before.map_or(now, |before| before.since);
        self.failed_write = Some(FailedWrite { reason, since, last_attempt: now, operation });
        if is_new {
            self.publish();
        }
    }

    /// Publishes the current state and logs the differences.
    pub(super) fn publish(&mut self) {
        self.published_deployments.clone_from(&self.deployments);
        let (before, deployments) = self.shared.application_cache.get_with_deployments(&self.key).unzip();
        let is_published = before.as_ref().is_some_and(|before| self.application.share_if_equal(before));
        let shown = self.published_state();
        let is_same =
            if self.failed_write.is_none() { is_published } else { before.as_ref() == Some(&shown) };
        if is_same && deployments.as_deref() == Some(&self.deployments) {
            return;
        }
        if !is_same {
            status_log::log_changes(&self.key, before.as_deref().or(self.persisted.as_deref()), &shown);
        }
        self.shared.application_cache.publish(&self.key, shown, self.deployments.clone());
        if !is_same {
            self.notify_related();
        }
    }

    /// Returns the current state, including the condition that reports a failed write.
    fn published_state(&self) -> Arc<Application> {
        let Some(FailedWrite { reason, since, .. }) = &self.failed_write else {
            return self.application.share();
        };
        let mut shown = Application::clone(&self.application);
        let begins = match (&self.application.operation, self.operation_id()) {
            (None, _) => "; no operation starts until the status is stored",
            (Some(_), Some(id)) if self.durable_operation == Some(id) => "",
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

    fn operation_id(&self) -> Option<OperationId> {
        self.application.operation.as_ref().and_then(operation::engine_id)
    }

    /// Returns true if the operation would survive a crash: its ID is persisted, or it is in the log.
    pub(super) async fn is_operation_durable(&mut self) -> bool {
        let Some(id) = self.operation_id() else { return false };
        if self.durable_operation != Some(id) {
            let known = self.shared.engine.inspect(id).await;
            let is_known = matches!(known, Ok(_) | Err(EngineError::AlreadyFinished { .. }));
            self.durable_operation = is_known.then_some(id);
        }
        self.durable_operation == Some(id)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
